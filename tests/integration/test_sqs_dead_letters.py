"""Dead letters on SQS: deduplication ids, what dies half-way, functions that are called again (R-503, FC-20)."""

import asyncio
import io
import json
import subprocess
import sys
import time
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from adapters.memory.clock import ManualClock
from adapters.sqs.dead_letters import SQSDeadLetters, dead_letters_of, sources_of, to_function, to_queue
from adapters.system.clock import SystemClock
from application.dead_letters import redrive
from domain.dead_letters import DeadLetter, Selection, redrive_id
from domain.errors import InterlockError, Invalid, Misconfigured, Retryable, StaleReceipt, Unavailable
from tests.aws_faults import answering, refusal
from tests.engines import REGION, Engine, topic_and_queue
from tests.entrypoints.cli import Interlock
from tests.unit.test_dead_letters import EVENT, of_destination

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]

FUNCTION = """
def handler(event, context):
    if event["detail"]["report_id"] == "bad":
        raise ValueError("secret: " + event["detail"]["report_id"])
    return {"outcome": "started"}
"""


@pytest.fixture
def queues(ministack: Engine) -> Iterator[tuple[str, str]]:
    """Give the URLs of a FIFO queue and its dead-letter queue."""
    with topic_and_queue(ministack, visibility_seconds=30, max_receives=3) as made:
        yield made.queue_url, made.dead_letter_url


@pytest.fixture
def standard(ministack: Engine) -> Iterator[tuple[str, str]]:
    """Give the URLs of a standard queue and its dead-letter queue."""
    sqs, name = ministack.aws.sqs.client(), f"interlock-test-{uuid.uuid4().hex[:12]}"
    dead = sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 5})
    queue = sqs.create_queue(QueueName=name, Attributes={"RedrivePolicy": policy})["QueueUrl"]
    yield queue, dead
    for url in (queue, dead):
        sqs.delete_queue(QueueUrl=url)


async def all_back(letters: SQSDeadLetters) -> list[InterlockError | None]:
    answers: list[InterlockError | None] = []
    async with aclosing(letters.pages()) as pages:
        async for page in pages:
            answers += await letters.redrive(page)
    return answers


def bury(engine: Engine, url: str, *bodies: str, group: str | None = None, **more: Any) -> None:
    for body in bodies:
        if group is not None:
            more |= {"MessageGroupId": group, "MessageDeduplicationId": f"{group}-{body}"}
        engine.aws.sqs.client().send_message(QueueUrl=url, MessageBody=body, **more)


def taken(engine: Engine, url: str) -> list[dict[str, Any]]:
    """Take and delete everything that can be had."""
    sqs: Any = engine.aws.sqs.client()
    found: list[dict[str, Any]] = []
    while messages := sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"], MessageAttributeNames=["All"]
    ).get("Messages", []):
        for message in messages:
            found.append(dict(message))
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return found


async def test_r503_within_five_minutes_of_its_first_sending_a_letter_is_not_swallowed(
    ministack: Engine, queues: tuple[str, str]
) -> None:
    queue, dead = queues
    bury(ministack, queue, "poison", group="A")
    assert len(taken(ministack, queue)) == 1
    bury(ministack, dead, "poison", group="A")
    clock = SystemClock()
    letters = SQSDeadLetters(ministack.aws, dead, to_queue(ministack.aws, queue, clock), clock)
    assert await all_back(letters) == [None]
    (message,) = taken(ministack, queue)
    assert (message["Body"], message["Attributes"]["MessageGroupId"]) == ("poison", "A")


async def test_r503_later_a_letter_keeps_its_group_and_its_deduplication_id(
    ministack: Engine, queues: tuple[str, str]
) -> None:
    queue, dead = queues
    bury(ministack, dead, "one", "two", group="A")
    later = ManualClock(SystemClock().now() + timedelta(minutes=5, seconds=1))
    letters = SQSDeadLetters(ministack.aws, dead, to_queue(ministack.aws, queue, later), later)
    assert await all_back(letters) == [None, None]
    messages = taken(ministack, queue)
    assert [one["Attributes"]["MessageDeduplicationId"] for one in messages] == ["A-one", "A-two"]
    assert [one["Attributes"]["MessageGroupId"] for one in messages] == ["A", "A"]


async def test_r503_a_redrive_that_died_before_the_delete_is_repeated_and_sends_nothing_twice(
    ministack: Engine, queues: tuple[str, str]
) -> None:
    queue, dead = queues
    bury(ministack, dead, "one", "two", group="A")
    clock, sqs = SystemClock(), ministack.aws.sqs.client()
    send = to_queue(ministack.aws, queue, clock)
    with answering(sqs, "DeleteMessageBatch", [refusal("ServiceUnavailable")] * 9):
        first, second = await all_back(SQSDeadLetters(ministack.aws, dead, send, clock))
    assert isinstance(first, Unavailable)
    assert isinstance(second, Retryable), "behind one that failed its group waits"
    assert await all_back(SQSDeadLetters(ministack.aws, dead, send, clock)) == [None, None]
    assert [message["Body"] for message in taken(ministack, queue)] == ["one", "two"]


async def test_r503_a_letter_is_not_deleted_before_its_sending_is_acknowledged(
    ministack: Engine, standard: tuple[str, str]
) -> None:
    queue, dead = standard
    bury(ministack, dead, "one")
    clock, sqs = SystemClock(), ministack.aws.sqs.client()
    letters = SQSDeadLetters(ministack.aws, dead, to_queue(ministack.aws, queue, clock), clock)
    with answering(sqs, "SendMessage", [refusal("AccessDenied")]), answering(sqs, "DeleteMessageBatch", []) as deletes:
        (error,) = await all_back(letters)
    assert isinstance(error, Misconfigured)
    assert deletes == []
    assert [message["Body"] for message in taken(ministack, dead)] == ["one"], "and it is shown to others at once"


async def test_r503_a_letter_held_too_long_is_told_to_be_in_both_places(
    ministack: Engine, queues: tuple[str, str]
) -> None:
    queue, dead = queues
    bury(ministack, dead, "one", group="A")
    clock, sqs = SystemClock(), ministack.aws.sqs.client()
    letters = SQSDeadLetters(ministack.aws, dead, to_queue(ministack.aws, queue, clock), clock)
    # As AWS answers, in one of its ways; ministack deletes whatever the receipt (docs/reference/engines.md).
    refused = {"Failed": [{"Id": "0", "Code": "ReceiptHandleIsInvalid", "SenderFault": True}]}
    with answering(sqs, "DeleteMessageBatch", [refused]):
        (error,) = await all_back(letters)
    assert isinstance(error, StaleReceipt)
    assert len(taken(ministack, queue)) == len(taken(ministack, dead)) == 1


async def test_r503_a_group_of_more_letters_than_sqs_shows_at_once_goes_back_in_order(
    ministack: Engine, queues: tuple[str, str]
) -> None:
    queue, dead = queues
    bury(ministack, dead, *map(str, range(25)), group="A")
    clock = SystemClock()
    letters = SQSDeadLetters(ministack.aws, dead, to_queue(ministack.aws, queue, clock), clock)
    assert await letters.waiting() == 25
    report = await redrive(letters, Selection(), clock, limit=100, rate=1000, told=lambda *_: None)
    assert (report.seen, report.redriven, await letters.waiting()) == (25, 25, 0)
    assert [message["Body"] for message in taken(ministack, queue)] == [str(number) for number in range(25)]


async def test_attributes_go_back_with_a_letter_and_standard_queues_need_no_group(
    ministack: Engine, standard: tuple[str, str]
) -> None:
    queue, dead = standard
    attributes = {
        "Text": {"DataType": "String", "StringValue": "a & b"},
        "Number": {"DataType": "Number.int", "StringValue": "42"},
        "Bytes": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
    }
    bury(ministack, dead, "one", MessageAttributes=attributes)
    clock = SystemClock()
    assert await dead_letters_of(ministack.aws, queue) == dead
    assert await dead_letters_of(ministack.aws, dead) is None
    assert await all_back(SQSDeadLetters(ministack.aws, dead, to_queue(ministack.aws, queue, clock), clock)) == [None]
    (message,) = taken(ministack, queue)
    assert message["MessageAttributes"] == attributes


async def test_fc20_a_clients_message_that_looks_like_lambdas_record_goes_back_as_it_is(
    ministack: Engine, standard: tuple[str, str]
) -> None:
    queue, dead = standard
    bury(ministack, dead, of_destination().body)
    clock = SystemClock()
    assert await all_back(SQSDeadLetters(ministack.aws, dead, to_queue(ministack.aws, queue, clock), clock)) == [None]
    assert [message["Body"] for message in taken(ministack, queue)] == [of_destination().body]
    bury(ministack, dead, of_destination().body)
    unwrapping = to_queue(ministack.aws, queue, clock, unwrap=True)
    assert await all_back(SQSDeadLetters(ministack.aws, dead, unwrapping, clock)) == [None]
    assert [json.loads(message["Body"]) for message in taken(ministack, queue)] == [EVENT]


async def test_a_dead_letter_queue_is_known_by_the_queues_that_it_serves(moto: Engine, ministack: Engine) -> None:
    sqs: Any = moto.aws.sqs.client()
    names = [f"interlock-test-{uuid.uuid4().hex[:12]}" for _ in range(3)]
    dead = sqs.create_queue(QueueName=names[0])["QueueUrl"]
    assert await sources_of(moto.aws, dead) == []
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = {"RedrivePolicy": json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 5})}
    urls = [sqs.create_queue(QueueName=name, Attributes=policy)["QueueUrl"] for name in names[1:]]
    assert sorted(await sources_of(moto.aws, dead)) == sorted(urls)
    for url in (dead, *urls):
        sqs.delete_queue(QueueUrl=url)
    lone = ministack.aws.sqs.client().create_queue(QueueName=names[0])["QueueUrl"]
    assert await sources_of(ministack.aws, lone) == [], "it does not know the call"
    ministack.aws.sqs.client().delete_queue(QueueUrl=lone)


async def test_r503_what_comes_while_letters_are_looked_through_is_left_for_the_next_time(
    ministack: Engine, standard: tuple[str, str]
) -> None:
    _, dead = standard
    bury(ministack, dead, "old")
    clock = SystemClock()

    async def comes_again(letter: DeadLetter) -> None:
        bury(ministack, dead, letter.body)

    letters = SQSDeadLetters(ministack.aws, dead, comes_again, clock)
    async with asyncio.timeout(20):
        report = await redrive(letters, Selection(), clock, limit=1000, rate=1000, told=lambda *_: None)
    assert report.redriven == 1
    assert [message["Body"] for message in taken(ministack, dead)] == ["old"]


@pytest.fixture
def function(ministack: Engine) -> Iterator[str]:
    """Give the ARN of a function that fails for the report `bad`."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("router.py", FUNCTION)
    functions, name = ministack.aws.functions.client(), f"router-{uuid.uuid4().hex[:8]}"
    made = functions.create_function(
        FunctionName=name,
        Runtime="python3.11",
        Role="arn:aws:iam::000000000000:role/router",
        Handler="router.handler",
        Code={"ZipFile": packed.getvalue()},
        Timeout=10,
    )
    yield made["FunctionArn"]
    functions.delete_function(FunctionName=name)


async def test_fc20_letters_of_eventbridge_and_of_lambda_are_handed_to_the_function_that_failed(
    ministack: Engine, standard: tuple[str, str], function: str
) -> None:
    _, dead = standard
    record = json.loads(of_destination().body)
    record["requestContext"]["functionArn"] = f"{function}:$LATEST"
    bad = {**EVENT, "detail": {"report_id": "bad"}}
    attributes = {"ERROR_CODE": "NO_PERMISSIONS", "TARGET_ARN": function, "RULE_ARN": "arn:aws:events:x:1:rule/r"}
    of_eventbridge = {name: {"DataType": "String", "StringValue": text} for name, text in attributes.items()}
    bury(ministack, dead, json.dumps(EVENT), MessageAttributes=of_eventbridge)
    bury(ministack, dead, json.dumps(record), json.dumps({**record, "requestPayload": bad}), json.dumps(EVENT))
    clock = SystemClock()
    told: dict[str, str] = {}
    report = await redrive(
        SQSDeadLetters(ministack.aws, dead, to_function(ministack.aws, None), clock),
        Selection(),
        clock,
        limit=10,
        rate=100,
        told=lambda one, error: told.update({one.letter.body: str(error)}),
    )
    assert (report.redriven, report.failed) == (2, 2)
    again = told[json.dumps({**record, "requestPayload": bad})]
    assert again.startswith("the function is unavailable: it failed again: ")
    assert "secret" not in again
    assert told[json.dumps(EVENT)] == "target: the letter names no function; name one, or a queue"
    assert len(taken(ministack, dead)) == 2


async def test_fc20_letters_can_be_handed_to_a_function_that_is_named(ministack: Engine, function: str) -> None:
    await to_function(ministack.aws, function.rpartition(":")[2])(of_destination())
    with pytest.raises(Misconfigured, match="Lambda"):
        await to_function(ministack.aws, "nobody")(of_destination())
    with pytest.raises(Invalid, match="names no function"):
        await to_function(ministack.aws, None)(DeadLetter("m", "{}", "r"))


def test_a_letters_own_id_is_part_of_its_redrive_id() -> None:
    letter = DeadLetter("m1", "{}", "r1", "A", "A-poison")
    assert redrive_id(letter) not in {"A-poison", redrive_id(letter._replace(message_id="m2"))}


@pytest.fixture
def interlock(
    ministack: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Interlock:
    """The command on the engine aws."""
    monkeypatch.setenv("AWS_REGION", REGION)
    if ministack.url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", ministack.url)
    command = Interlock(tmp_path, monkeypatch, capsys)
    monkeypatch.setenv("INTERLOCK_ENGINE", "aws")
    return command


def test_r503_the_command_lists_shows_and_redrives_on_aws(
    ministack: Engine, queues: tuple[str, str], interlock: Interlock
) -> None:
    queue, dead = queues
    bury(ministack, dead, '{"id":"e1","type":"T"}', '{"id":"e2","type":"U"}', group="A")
    unset = interlock("dlq", "list", "lifecycle")
    assert (unset.code, "INTERLOCK_LIFECYCLE__QUEUE_URL" in unset.err) == (2, True)
    listed = interlock("dlq", "list", "lifecycle", "--json", INTERLOCK_LIFECYCLE__QUEUE_URL=queue)
    answer = json.loads(listed.out)
    assert (answer["waiting"], [item["event_id"] for item in answer["items"]]) == (2, ["e1", "e2"])
    shown = interlock("dlq", "show", queue, answer["items"][1]["message_id"], "--json")
    assert json.loads(shown.out)["body"] == '{"id":"e2","type":"U"}'
    done = interlock("dlq", "redrive", "lifecycle", "--type", "U", "--reason", "corrected", "--json")
    assert (done.code, json.loads(done.out)["redriven"]) == (0, 1)
    assert '"why": "corrected"' in done.err
    assert [message["Body"] for message in taken(ministack, queue)] == ['{"id":"e2","type":"U"}']
    assert [message["Body"] for message in taken(ministack, dead)] == ['{"id":"e1","type":"T"}']


@pytest.mark.parametrize(
    ("name", "variable"), [("intake", "INTERLOCK_INTAKE__QUEUE_URL"), ("router", "INTERLOCK_BUS__QUEUE_URL")]
)
def test_r503_one_command_is_for_the_queues_of_intake_and_router_too(
    ministack: Engine, standard: tuple[str, str], interlock: Interlock, name: str, variable: str
) -> None:
    queue, dead = standard
    bury(ministack, dead, '{"id":"e1","detail-type":"T"}')
    unset = interlock("dlq", "list", name)
    assert (unset.code, variable in unset.err) == (2, True)
    done = interlock("dlq", "redrive", name, "--type", "T", "--reason", "corrected", "--json", **{variable: queue})
    assert (done.code, json.loads(done.out)["redriven"]) == (0, 1)
    assert [message["Body"] for message in taken(ministack, queue)] == ['{"id":"e1","detail-type":"T"}']


@pytest.mark.usefixtures("interlock")
def test_r503_killed_half_way_a_redrive_has_lost_nothing(ministack: Engine, standard: tuple[str, str]) -> None:
    queue, dead = standard
    bury(ministack, dead, *(f'{{"id":"e{number}"}}' for number in range(60)))
    command = [sys.executable, "-m", "entrypoints.cli.main", "dlq", "redrive", queue, "--all", "--rate", "30"]
    process = subprocess.Popen(
        [*command, "--reason", "a test"], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    sqs: Any = ministack.aws.sqs.client()

    def number_in(url: str) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        return sum(map(int, sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"].values()))

    deadline = time.monotonic() + 30
    while number_in(queue) < 15:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.wait()
    back = [message["Body"] for message in taken(ministack, queue)]
    assert 15 <= len(set(back)) < 60
    assert len(set(back)) + number_in(dead) >= 60, "who is in neither place is lost"


@pytest.fixture
def on_moto(moto: Engine, interlock: Interlock, monkeypatch: pytest.MonkeyPatch) -> Interlock:
    """The command on an engine that knows which queues a dead-letter queue serves."""
    if moto.url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", moto.url)
    return interlock


def test_r503_the_url_of_a_dead_letter_queue_leads_back_to_its_queue(moto: Engine, on_moto: Interlock) -> None:
    sqs: Any = moto.aws.sqs.client()
    names = [f"interlock-test-{uuid.uuid4().hex[:12]}" for _ in range(3)]
    dead = sqs.create_queue(QueueName=names[0])["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = {"RedrivePolicy": json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 5})}
    queue = sqs.create_queue(QueueName=names[1], Attributes=policy)["QueueUrl"]
    bury(moto, dead, of_destination().body)
    done = on_moto("dlq", "redrive", dead, "--all", "--reason", "corrected", "--json")
    assert (done.code, json.loads(done.out)["redriven"]) == (0, 1)
    assert [message["Body"] for message in taken(moto, queue)] == [of_destination().body], "no function was called"
    other = sqs.create_queue(QueueName=names[2], Attributes=policy)["QueueUrl"]
    refused = on_moto("dlq", "redrive", dead, "--all", "--reason", "corrected")
    assert (refused.code, "--to" in refused.err) == (2, True)
    assert on_moto("dlq", "list", dead).code == 0
    without = on_moto("dlq", "list", "intake", INTERLOCK_INTAKE__QUEUE_URL=dead)
    assert (without.code, "no dead-letter queue" in without.err) == (1, True)
    for url in (dead, queue, other):
        sqs.delete_queue(QueueUrl=url)
