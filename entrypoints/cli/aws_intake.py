"""The front door's bucket and queue on aws, for `tables create` and `doctor`."""

import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from adapters.aws.clients import Aws
from adapters.s3.object_store import S3ObjectStore
from adapters.s3.resources import create_bucket
from adapters.sqs.resources import create_queues
from domain.errors import Misconfigured
from domain.intake import RAW
from entrypoints.cli.aws import CREATE, agrees, fix_for
from entrypoints.cli.checks import Check, attempt
from entrypoints.engines.aws import AwsEngine
from entrypoints.settings import Settings, variable

if TYPE_CHECKING:
    from mypy_boto3_sqs.literals import QueueAttributeNameType

NAME: Final = "interlock-intake"
BUCKET: Final = variable(("intake", "bucket"))
QUEUE: Final = variable(("intake", "queue_url"))


async def create_for_intake(settings: Settings, bucket: str) -> dict[str, str]:
    """Make the bucket, the queue and its dead-letter queue; the queue is called as in its URL, or by a fixed name.

    Returns:
        The variables by which processes find them.
    """
    intake = settings.intake
    name = (intake.queue_url or NAME).rpartition("/")[2]
    engine = AwsEngine(settings)
    try:
        await engine.aws.s3.call(lambda s3: create_bucket(s3, bucket))
        made = await engine.aws.sqs.call(
            lambda sqs: create_queues(
                sqs, name, visibility_seconds=intake.visibility_seconds, max_receives=intake.max_receives
            )
        )
    finally:
        await engine.aclose()
    return {BUCKET: bucket, QUEUE: made.queue_url}


async def checks(settings: Settings, bucket: str) -> AsyncIterator[Check]:
    """Look at bucket and queue."""
    engine = AwsEngine(settings)
    try:
        yield await attempt("bucket", lambda: _bucket(engine.aws, bucket), fix_for(f"{CREATE}, or set {BUCKET}"))
        yield await attempt(
            "intake queue", lambda: _queue(engine.aws, settings), fix_for(f"{CREATE}, then set {QUEUE}")
        )
    finally:
        await engine.aclose()


async def _bucket(aws: Aws, bucket: str) -> str:
    page = await S3ObjectStore(aws, bucket).list(f"{RAW}/", limit=1)
    return f"{bucket}, with objects" if page.objects else f"{bucket}, without objects yet"


async def _queue(aws: Aws, settings: Settings) -> str:
    url = settings.intake.queue_url
    if url is None:
        raise Misconfigured(QUEUE, "is not set")
    wanted: list[QueueAttributeNameType] = ["VisibilityTimeout", "RedrivePolicy"]
    answer = await aws.sqs.call(lambda sqs: sqs.get_queue_attributes(QueueUrl=url, AttributeNames=wanted))
    attributes: dict[Any, str] = dict(answer.get("Attributes", {}))
    redrive = json.loads(attributes.get("RedrivePolicy") or "{}")
    agrees(("intake", "visibility_seconds"), settings.intake.visibility_seconds, attributes["VisibilityTimeout"])
    agrees(("intake", "max_receives"), settings.intake.max_receives, redrive.get("maxReceiveCount"))
    return f"{url}, dead letters to {redrive['deadLetterTargetArn'].rpartition(':')[2]}"
