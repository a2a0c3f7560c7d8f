"""The aws engine's table, topic and queues, for `tables create` and `doctor`."""

import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from adapters.aws.clients import Aws
from adapters.dynamodb.activity_table import create_activity_table
from adapters.dynamodb.key_table import create_key_table
from adapters.dynamodb.settings_table import create_settings_table
from adapters.dynamodb.table import KEYS, create_table
from adapters.eventbridge.resources import create_event_queue
from adapters.sns.resources import create_topic_and_queue
from domain.errors import InterlockError, Misconfigured, Retryable
from entrypoints.cli.checks import Check, attempt
from entrypoints.engines.aws import AwsEngine
from entrypoints.settings import Settings, variable

if TYPE_CHECKING:
    from mypy_boto3_sqs.literals import QueueAttributeNameType

NAME: Final = "interlock-lifecycle"
EVENT_QUEUE: Final = "interlock-events"
CREATE: Final = "interlock tables create"

TABLE: Final = variable(("events", "table"))
SETTINGS_TABLE: Final = variable(("settings", "table"))
ACTIVITY: Final = variable(("activity", "table"))
TOPIC: Final = variable(("lifecycle", "topic_arn"))
QUEUE: Final = variable(("lifecycle", "queue_url"))


async def create(settings: Settings, name: str | None) -> dict[str, str]:
    """Make tables, topic, queue and dead-letter queue.

    Args:
        settings: which tables, and the queue's rules.
        name: of topic and queue; None takes the one in the topic's ARN, or a fixed one.

    Returns:
        The variables by which processes find them.
    """
    arn, table = settings.lifecycle.topic_arn, settings.events.table
    chosen = name or (NAME if arn is None else arn.rpartition(":")[2].removesuffix(".fifo"))
    engine = AwsEngine(settings)
    try:
        await engine.aws.dynamodb.call(lambda dynamodb: create_table(dynamodb, table))
        await engine.aws.dynamodb.call(lambda dynamodb: create_settings_table(dynamodb, settings.settings.table))
        await engine.aws.dynamodb.call(lambda dynamodb: create_activity_table(dynamodb, settings.activity.table))
        sns = engine.aws.sns.client()
        made = await engine.aws.sqs.call(
            lambda sqs: create_topic_and_queue(
                sns,
                sqs,
                chosen,
                visibility_seconds=settings.lifecycle.visibility_seconds,
                max_receives=settings.lifecycle.max_receives,
            )
        )
    finally:
        await engine.aclose()
    return {
        TABLE: table,
        SETTINGS_TABLE: settings.settings.table,
        ACTIVITY: settings.activity.table,
        TOPIC: made.topic_arn,
        QUEUE: made.queue_url,
    }


async def create_for_dedup(settings: Settings) -> dict[str, str]:
    """Make the table of the dedup cache; give the variable that names it."""
    table = settings.dedup.table
    engine = AwsEngine(settings)
    try:
        await engine.aws.dynamodb.call(lambda dynamodb: create_key_table(dynamodb, table))
    finally:
        await engine.aclose()
    return {variable(("dedup", "table")): table}


async def create_for_bus(settings: Settings) -> dict[str, str]:
    """Make the rule that feeds a queue with the bus's events, and the queue; give the variable that names it."""
    bus = settings.bus
    name = EVENT_QUEUE if bus.queue_url is None else bus.queue_url.rpartition("/")[2]
    engine = AwsEngine(settings)
    try:
        events = engine.aws.events.client()
        made = await engine.aws.sqs.call(
            lambda sqs: create_event_queue(
                events,
                sqs,
                name,
                bus.name,
                visibility_seconds=bus.visibility_seconds,
                max_receives=bus.max_receives,
            )
        )
    finally:
        await engine.aclose()
    return {variable(("bus", "queue_url")): made.queue_url}


async def checks(settings: Settings) -> AsyncIterator[Check]:
    """Look at tables, topic and queue."""
    engine = AwsEngine(settings)
    try:
        yield await attempt("table", lambda: _table(engine.aws, settings), fix_for(f"{CREATE}, or set {TABLE}"))
        for what, name, called in (
            ("settings table", settings.settings.table, SETTINGS_TABLE),
            ("activity", settings.activity.table, ACTIVITY),
        ):
            look = partial(_active, engine.aws, name)
            yield await attempt(what, look, fix_for(f"{CREATE}, or set {called}"))
        yield await attempt("topic", lambda: _topic(engine.aws, settings), fix_for(f"{CREATE}, then set {TOPIC}"))
        yield await attempt("queue", lambda: _queue(engine.aws, settings), fix_for(f"{CREATE}, then set {QUEUE}"))
    finally:
        await engine.aclose()


def fix_for(of_ours: str) -> Callable[[InterlockError], str]:
    """Say what to do about an error of a check.

    | error | fix |
    |---|---|
    | the service does not answer | the address, then look again |
    | the service refuses: rights, credentials, region | those |
    | it has no such thing, or a check of ours found a fault | `of_ours` |
    """

    def fix(error: InterlockError) -> str:
        if isinstance(error, Retryable):
            return "check the network, AWS_REGION and AWS_ENDPOINT_URL, then look again"
        refused = isinstance(error, Misconfigured) and error.setting in {"DynamoDB", "S3", "SNS", "SQS"}
        if refused and CREATE not in str(error):
            return "correct the region, credentials or rights that the AWS SDK finds"
        return of_ours

    return fix


async def _table(aws: Aws, settings: Settings) -> str:
    name = settings.events.table
    table = (await aws.dynamodb.call(lambda dynamodb: dynamodb.describe_table(TableName=name)))["Table"]
    statuses = {"": table.get("TableStatus")}
    statuses |= {
        index.get("IndexName", ""): index.get("IndexStatus") for index in table.get("GlobalSecondaryIndexes", [])
    }
    for index in KEYS:
        if statuses.get(index) != "ACTIVE":
            what = f"index {index}" if index else "the table"
            raise Misconfigured(f"table {name}", f"{what} is {statuses.get(index) or 'missing'}, not ACTIVE")
    return f"{name}, with indexes {', '.join(index for index in KEYS if index)}"


async def _active(aws: Aws, name: str) -> str:
    table = (await aws.dynamodb.call(lambda dynamodb: dynamodb.describe_table(TableName=name)))["Table"]
    if table.get("TableStatus") != "ACTIVE":
        raise Misconfigured(f"table {name}", f"the table is {table.get('TableStatus') or 'missing'}, not ACTIVE")
    return name


async def _topic(aws: Aws, settings: Settings) -> str:
    arn = settings.lifecycle.topic_arn
    if arn is None:
        raise Misconfigured(TOPIC, "is not set")
    attributes = (await aws.sns.call(lambda sns: sns.get_topic_attributes(TopicArn=arn)))["Attributes"]
    if attributes.get("FifoTopic") != "true":
        raise Misconfigured(TOPIC, "names a topic that is not FIFO")
    listed = await aws.sns.call(lambda sns: sns.list_subscriptions_by_topic(TopicArn=arn))
    feeds = [subscription.get("Endpoint", "").rpartition(":")[2] for subscription in listed["Subscriptions"]]
    if not feeds:
        raise Misconfigured(TOPIC, "names a topic that feeds no queue")
    return f"{arn}, feeding {', '.join(feeds)}"


async def _queue(aws: Aws, settings: Settings) -> str:
    url = settings.lifecycle.queue_url
    if url is None:
        raise Misconfigured(QUEUE, "is not set")
    wanted: list[QueueAttributeNameType] = ["FifoQueue", "VisibilityTimeout", "RedrivePolicy"]
    answer = await aws.sqs.call(lambda sqs: sqs.get_queue_attributes(QueueUrl=url, AttributeNames=wanted))
    attributes: dict[Any, str] = dict(answer.get("Attributes", {}))
    if attributes.get("FifoQueue") != "true":
        raise Misconfigured(QUEUE, "names a queue that is not FIFO")
    redrive = json.loads(attributes.get("RedrivePolicy") or "{}")
    agrees(("lifecycle", "visibility_seconds"), settings.lifecycle.visibility_seconds, attributes["VisibilityTimeout"])
    agrees(("lifecycle", "max_receives"), settings.lifecycle.max_receives, redrive.get("maxReceiveCount"))
    return f"{url}, dead letters to {redrive['deadLetterTargetArn'].rpartition(':')[2]}"


def agrees(path: tuple[str, ...], ours: int, theirs: object) -> None:
    """Hold a setting against what the queue itself has.

    Raises:
        Misconfigured: they differ.
    """
    if str(ours) != str(theirs):
        raise Misconfigured(variable(path), f"is {ours}, but the queue has {theirs}: make them agree")
