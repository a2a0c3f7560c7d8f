"""What the intake's adapters make of partial failures and faults of SQS and S3 (FC-21, FC-34)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from adapters.s3.object_store import S3ObjectStore
from adapters.s3.resources import create_bucket
from adapters.sqs.intake_queue import SQSIntakeQueue
from adapters.sqs.resources import create_queues
from domain.errors import Invalid, Misconfigured, Unavailable
from domain.messages import Received
from domain.retry import RetryRule
from tests.aws_faults import answering, counted, refusal
from tests.engines import Engine, bucket, standard_queue

pytestmark = pytest.mark.anyio

AT_ONCE = RetryRule(attempts=3, base=0, ceiling=0)


@pytest.fixture
def queue(ministack: Engine) -> Iterator[SQSIntakeQueue]:
    with standard_queue(ministack, visibility_seconds=30, max_receives=5) as made:
        yield SQSIntakeQueue(ministack.aws, made.queue_url, AT_ONCE)


@pytest.fixture
def objects(ministack: Engine) -> Iterator[S3ObjectStore]:
    with bucket(ministack) as name:
        yield S3ObjectStore(ministack.aws, name)


def taken(*numbers: int) -> list[dict[str, str]]:
    return [{"Id": str(number), "MessageId": f"m{number}"} for number in numbers]


def failed(number: int, code: str, *, senders_fault: bool) -> dict[str, Any]:
    return {"Id": str(number), "Code": code, "Message": "secret", "SenderFault": senders_fault}


def entries_of(request: Any) -> list[str]:
    """Give the ids of the entries of a SendMessageBatch, as it goes over the wire."""
    return [entry["Id"] for entry in json.loads(request["body"])["Entries"]]


async def test_fc21_of_a_send_only_refused_entries_are_sent_again(queue: SQSIntakeQueue, ministack: Engine) -> None:
    answers = [
        {"Successful": taken(0, 1, 3), "Failed": [failed(2, "InternalError", senders_fault=False)]},
        {"Successful": taken(2), "Failed": []},
    ]
    with answering(ministack.aws.sqs.client(), "SendMessageBatch", answers) as seen:
        assert await queue.send(["{}"] * 4) == ["m0", "m1", "m2", "m3"]
    assert [entries_of(request) for request in seen] == [["0", "1", "2", "3"], ["2"]]


async def test_fc21_the_senders_fault_is_not_sent_again(queue: SQSIntakeQueue, ministack: Engine) -> None:
    answers = [
        {
            "Successful": taken(0),
            "Failed": [
                failed(1, "InternalError", senders_fault=False),
                failed(2, "InvalidParameter", senders_fault=True),
            ],
        }
    ]
    with (
        answering(ministack.aws.sqs.client(), "SendMessageBatch", answers) as seen,
        pytest.raises(Invalid, match="SQS refused it: InvalidParameter") as caught,
    ):
        await queue.send(["{}"] * 3)
    assert len(seen) == 1
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        {"Successful": [], "Failed": [failed(0, "InternalError", senders_fault=False)]},
        {"Successful": [], "Failed": []},
        {},
    ],
)
async def test_an_entry_that_stays_refused_or_unanswered_is_unavailable_after_a_bound(
    answer: dict[str, Any], queue: SQSIntakeQueue, ministack: Engine
) -> None:
    with (
        answering(ministack.aws.sqs.client(), "SendMessageBatch", [answer] * 10) as seen,
        pytest.raises(Unavailable, match="SQS"),
    ):
        await queue.send(["{}"])
    assert len(seen) == AT_ONCE.attempts


async def test_fc33_a_call_holds_ten_texts_and_a_mebibyte(queue: SQSIntakeQueue, ministack: Engine) -> None:
    with counted(ministack.aws.sqs.client()) as calls:
        await queue.send(["{}"] * 21)
        await queue.send(["x" * 400_000] * 4)
        await queue.send(["é" * 300_000] * 3)
    assert calls == ["SendMessageBatch"] * (3 + 2 + 3)


async def test_a_receive_that_fails_later_on_gives_what_was_taken_before(
    queue: SQSIntakeQueue, ministack: Engine
) -> None:
    await queue.send(["{}"] * 10)
    with answering(ministack.aws.sqs.client(), "ReceiveMessage", [None, *[refusal("InternalError")] * 50]):
        assert len(await queue.receive(100, 0)) == 10
    with (
        answering(ministack.aws.sqs.client(), "ReceiveMessage", [refusal("InternalError")] * 50),
        pytest.raises(Unavailable, match="SQS"),
    ):
        await queue.receive(100, 0)


async def test_a_queue_that_is_not_there_is_told(ministack: Engine) -> None:
    queue = SQSIntakeQueue(ministack.aws, "http://127.0.0.1:9/000000000000/no-such-queue")
    for call in (queue.send(["{}"]), queue.receive(10, 0), queue.delete([Received("m", None, "", "r", 1)])):
        with pytest.raises(Misconfigured, match="does not exist"):
            await call


async def test_stale_receipts_are_given_back_wherever_they_stand(queue: SQSIntakeQueue, ministack: Engine) -> None:
    messages = [Received(f"m{number}", None, "{}", f"r{number}", 1) for number in range(25)]
    stale = {"Successful": [], "Failed": [failed(3, "ReceiptHandleIsInvalid", senders_fault=True)]}
    with answering(ministack.aws.sqs.client(), "DeleteMessageBatch", [stale, stale, stale]) as seen:
        assert {one.message_id for one in await queue.delete(messages)} == {"m3", "m13", "m23"}
    assert len(seen) == 3


async def test_a_queue_made_twice_is_one_and_another_of_its_name_is_told(ministack: Engine) -> None:
    sqs = ministack.aws.sqs.client()
    with standard_queue(ministack, visibility_seconds=30, max_receives=5) as made:
        name = made.queue_url.rpartition("/")[2]
        assert create_queues(sqs, name, visibility_seconds=30, max_receives=5) == made
        with pytest.raises(Misconfigured, match=f"queue {name}: exists with other attributes"):
            create_queues(sqs, name, visibility_seconds=31, max_receives=5)


async def test_a_bucket_made_twice_is_one_and_is_closed_to_the_public(ministack: Engine) -> None:
    s3 = ministack.aws.s3.client()
    with bucket(ministack) as name:
        create_bucket(s3, name)
        closed = s3.get_public_access_block(Bucket=name)["PublicAccessBlockConfiguration"]
    assert set(closed.values()) == {True}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("ConditionalRequestConflict", Unavailable),
        ("SlowDown", Unavailable),
        ("InternalError", Unavailable),
        ("RequestTimeout", Unavailable),
        ("AccessDenied", Misconfigured),
        ("NoSuchBucket", Misconfigured),
    ],
)
async def test_what_s3_refuses_is_told_as_what_the_caller_can_do(
    code: str, kind: type[Exception], objects: S3ObjectStore, ministack: Engine
) -> None:
    with (
        answering(ministack.aws.s3.client(), "PutObject", [refusal(code)] * 5) as seen,
        pytest.raises(kind, match="S3") as caught,
    ):
        await objects.put("raw/a", b"x")
    assert "secret" not in str(caught.value)
    assert seen[0]["headers"]["If-None-Match"] == "*"
    assert await objects.put("raw/a", b"x") is True
    assert await objects.put("raw/a", b"y") is False


async def test_fc25_a_page_says_that_it_is_the_last_and_not_its_size(objects: S3ObjectStore, ministack: Engine) -> None:
    one = {"Key": "raw/a", "Size": 1}
    answers: list[dict[str, Any]] = [
        {"Contents": [one], "IsTruncated": True},
        {"Contents": [one, one], "IsTruncated": False},
        {"IsTruncated": False},
    ]
    with answering(ministack.aws.s3.client(), "ListObjectsV2", answers):
        assert (await objects.list("raw/", limit=2)).after == "raw/a"
        assert (await objects.list("raw/", limit=2)).after is None
        assert (await objects.list("raw/", limit=2)).after is None
