"""What becomes of SNS's and SQS's partial failures, limits and faults (FC-21, FC-34)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from adapters.sns.publisher import SNSPublisher
from adapters.sns.resources import TopicAndQueue, create_topic_and_queue
from adapters.sqs.message_queue import SQSMessageQueue
from domain.errors import Invalid, Misconfigured, TooLarge, Unavailable
from domain.messages import Outgoing, Received
from tests.aws_faults import answering, counted, refusal
from tests.engines import Engine, topic_and_queue

pytestmark = pytest.mark.anyio


@pytest.fixture
def made(ministack: Engine) -> Iterator[TopicAndQueue]:
    with topic_and_queue(ministack, visibility_seconds=30, max_receives=5) as made:
        yield made


@pytest.fixture
def publisher(ministack: Engine, made: TopicAndQueue) -> SNSPublisher:
    return SNSPublisher(ministack.aws, made.topic_arn)


@pytest.fixture
def queue(ministack: Engine, made: TopicAndQueue) -> SQSMessageQueue:
    return SQSMessageQueue(ministack.aws, made.queue_url)


def message(group: str, name: str = "1", body: str = '{"x":1}') -> Outgoing:
    return Outgoing(group, f"{group}-{name}", body)


def received(number: int) -> Received:
    return Received(f"m{number}", "A", "{}", f"receipt-{number}", 1)


def taken(*ids: int) -> list[dict[str, str]]:
    return [{"Id": str(number), "MessageId": f"m{number}"} for number in ids]


def failed(number: int, code: str, *, senders_fault: bool) -> dict[str, Any]:
    return {"Id": str(number), "Code": code, "Message": "secret", "SenderFault": senders_fault}


def groups_of(request: Any) -> list[str]:
    """Give the groups of a PublishBatch as it goes over the wire."""
    body = request["body"]
    return [body[key] for key in sorted(body, key=len) if key.endswith("MessageGroupId")]


async def test_fc21_refused_entries_are_told_one_by_one_and_accepted_ones_are_not_sent_again(
    publisher: SNSPublisher, ministack: Engine
) -> None:
    """Ten messages, of which 4 and 7 fail, one of them by the sender's fault; the call itself answers 200."""
    sent = [message(f"g{number}") for number in range(10)]
    answer = {
        "Successful": taken(0, 1, 2, 3, 5, 6, 8, 9),
        "Failed": [failed(4, "InvalidParameter", senders_fault=True), failed(7, "InternalError", senders_fault=False)],
    }
    with answering(ministack.aws.sns.client(), "PublishBatch", [answer]) as seen:
        answers = await publisher.publish(sent)
    assert len(seen) == 1
    assert [number for number, error in enumerate(answers) if error is not None] == [4, 7]
    assert isinstance(answers[4], Invalid)
    assert isinstance(answers[7], Unavailable)
    assert "secret" not in f"{answers[4]} {answers[7]}"


async def test_fc21_throttled_entries_may_be_published_again_whoever_is_blamed(
    publisher: SNSPublisher, ministack: Engine
) -> None:
    answer = {"Successful": [], "Failed": [failed(0, "ThrottlingException", senders_fault=True)]}
    with answering(ministack.aws.sns.client(), "PublishBatch", [answer]):
        assert [type(error) for error in await publisher.publish([message("A")])] == [Unavailable]


async def test_an_entry_that_is_not_answered_counts_as_not_published(
    publisher: SNSPublisher, ministack: Engine
) -> None:
    with answering(ministack.aws.sns.client(), "PublishBatch", [{"Successful": taken(0), "Failed": []}]):
        first, second = await publisher.publish([message("A"), message("B")])
    assert first is None
    assert isinstance(second, Unavailable)


async def test_r107_after_a_failure_nothing_more_of_its_group_is_sent(
    publisher: SNSPublisher, queue: SQSMessageQueue, ministack: Engine
) -> None:
    sent = [message(group, name) for name in "123" for group in "AB"]
    answer = {"Successful": taken(1), "Failed": [failed(0, "InternalError", senders_fault=False)]}
    with answering(ministack.aws.sns.client(), "PublishBatch", [answer]) as seen:
        answers = await publisher.publish(sent)
    assert [error is None for error in answers] == [False, True] * 3
    assert [groups_of(request) for request in seen] == [["A", "B"], ["B"], ["B"]]
    assert [one.group_id for one in await queue.receive(10, 1)] == ["B", "B"]


async def test_a_call_never_holds_two_messages_of_a_group_nor_more_than_ten_nor_256_kib(
    publisher: SNSPublisher, ministack: Engine
) -> None:
    with answering(ministack.aws.sns.client(), "PublishBatch", []) as seen:
        wide = [message(f"g{number}") for number in range(25)]
        assert await publisher.publish(wide) == [None] * 25
        assert sorted(len(groups_of(request)) for request in seen) == [5, 10, 10]
        seen.clear()
        large = [message(f"big{number}", body='"' + "x" * 100_000 + '"') for number in range(5)]
        assert await publisher.publish(large) == [None] * 5
        assert sorted(len(groups_of(request)) for request in seen) == [1, 2, 2]
        seen.clear()
        assert await publisher.publish([message("A", str(number)) for number in range(3)]) == [None] * 3
        assert [groups_of(request) for request in seen] == [["A"]] * 3


async def test_a_failed_call_is_an_answer_for_each_message(publisher: SNSPublisher, ministack: Engine) -> None:
    sns = ministack.aws.sns.client()
    with answering(sns, "PublishBatch", [refusal("ThrottledException")]):
        assert [type(error) for error in await publisher.publish([message("A"), message("B")])] == [Unavailable] * 2
    with answering(sns, "PublishBatch", [refusal("AuthorizationError")]):
        assert [type(error) for error in await publisher.publish([message("A")])] == [Misconfigured]
    nowhere = SNSPublisher(ministack.aws, "arn:aws:sns:us-east-1:000000000000:nowhere.fifo")
    assert [type(error) for error in await nowhere.publish([message("A")])] == [Misconfigured]


@pytest.mark.parametrize(
    ("unfit", "error"),
    [
        (Outgoing("", "d", "{}"), Invalid),
        (Outgoing("two words", "d", "{}"), Invalid),
        (Outgoing("é", "d", "{}"), Invalid),
        (Outgoing("x" * 129, "d", "{}"), Invalid),
        (Outgoing("A", "", "{}"), Invalid),
        (Outgoing("A", "d\n", "{}"), Invalid),
        (Outgoing("A", "d", ""), Invalid),
        (Outgoing("A", "d", '"\ufffe"'), Invalid),
        (Outgoing("A", "d", '"\x00"'), Invalid),
        (Outgoing("A", "d", '"\ud800"'), Invalid),
        (Outgoing("A", "d", '"' + "é" * 131_072 + '"'), TooLarge),
    ],
)
async def test_fc34_what_sns_would_not_take_is_refused_before_the_call(
    publisher: SNSPublisher, ministack: Engine, unfit: Outgoing, error: type[Invalid]
) -> None:
    with counted(ministack.aws.sns.client()) as calls:
        [answer] = await publisher.publish([unfit])
    assert type(answer) is error
    assert calls == []


async def test_fc34_the_largest_message_and_all_punctuation_are_taken(
    publisher: SNSPublisher, queue: SQSMessageQueue
) -> None:
    group = "".join(map(chr, range(0x21, 0x7F)))
    largest = Outgoing(group, "d", '"' + "é" * 131_071 + '"')
    assert len(largest.body.encode()) == publisher.max_bytes
    assert await publisher.publish([largest]) == [None]
    [one] = await queue.receive(1, 1)
    assert (one.group_id, one.body) == (group, largest.body)


async def test_fc21_deleting_tells_stale_receipts_from_faults(queue: SQSMessageQueue, ministack: Engine) -> None:
    sqs = ministack.aws.sqs.client()
    messages = [received(number) for number in range(12)]
    stale = {
        "Successful": taken(0, 1, 2, 3, 5, 6, 7, 8),
        "Failed": [
            failed(9, "ReceiptHandleIsInvalid", senders_fault=True),
            failed(4, "InvalidParameterValue", senders_fault=True),
        ],
    }
    with answering(sqs, "DeleteMessageBatch", [stale, {"Successful": taken(0, 1)}]) as seen:
        assert await queue.delete(messages) == [messages[4], messages[9]]
    assert len(seen) == 2
    broken = {"Successful": taken(0), "Failed": [failed(1, "InternalError", senders_fault=False)]}
    with answering(sqs, "DeleteMessageBatch", [broken, {"Successful": taken(0, 1)}]) as seen:
        with pytest.raises(Unavailable):
            await queue.delete(messages)
        assert len(seen) == 2
    with (
        answering(sqs, "DeleteMessageBatch", [{"Failed": [failed(0, "KmsAccessDenied", senders_fault=True)]}]),
        pytest.raises(Misconfigured),
    ):
        await queue.delete(messages[:1])


async def test_releasing_goes_in_order_past_stale_receipts_and_failed_calls(
    queue: SQSMessageQueue, ministack: Engine
) -> None:
    sqs = ministack.aws.sqs.client()
    messages = [received(number) for number in range(12)]
    stale = {"Failed": [failed(0, "AWS.SimpleQueueService.MessageNotInflight", senders_fault=True)]}
    with answering(sqs, "ChangeMessageVisibilityBatch", [stale, {"Successful": taken(0, 1)}]) as seen:
        await queue.release(messages)
    sent = [entry for request in seen for entry in json.loads(request["body"])["Entries"]]
    assert [entry["ReceiptHandle"] for entry in sent] == [message.receipt for message in messages]
    assert {entry["VisibilityTimeout"] for entry in sent} == {0}
    with answering(sqs, "ChangeMessageVisibilityBatch", [refusal("RequestThrottled"), {"Successful": []}]) as seen:
        with pytest.raises(Unavailable):
            await queue.release(messages)
        assert len(seen) == 2


async def test_receiving_asks_for_ten_at_most_and_waits_twenty_seconds_at_most(
    queue: SQSMessageQueue, ministack: Engine
) -> None:
    with answering(ministack.aws.sqs.client(), "ReceiveMessage", [{}, {}, {}]) as seen:
        await queue.receive(100, 300)
        await queue.receive(1, 0.2)
        await queue.receive(3, 0)
    asked = [json.loads(request["body"]) for request in seen]
    assert [(one["MaxNumberOfMessages"], one["WaitTimeSeconds"]) for one in asked] == [(10, 20), (1, 1), (3, 0)]
    assert len({one["ReceiveRequestAttemptId"] for one in asked}) == 3


async def test_a_missing_queue_is_a_matter_of_configuration(ministack: Engine, made: TopicAndQueue) -> None:
    nowhere = SQSMessageQueue(ministack.aws, made.queue_url.replace("interlock-test", "nowhere"))
    with pytest.raises(Misconfigured, match="tables create"):
        await nowhere.receive(1, 0)


def test_r106_topic_and_queues_are_made_once_and_joined(ministack: Engine, made: TopicAndQueue) -> None:
    sns, sqs = ministack.aws.sns.client(), ministack.aws.sqs.client()
    name = made.topic_arn.rpartition(":")[2].removesuffix(".fifo")
    assert create_topic_and_queue(sns, sqs, name) == made
    [subscription] = sns.list_subscriptions_by_topic(TopicArn=made.topic_arn)["Subscriptions"]
    attributes = sns.get_subscription_attributes(SubscriptionArn=subscription.get("SubscriptionArn", ""))["Attributes"]
    assert attributes["RawMessageDelivery"] == "true"
    queue = sqs.get_queue_attributes(QueueUrl=made.queue_url, AttributeNames=["All"])["Attributes"]
    dead = sqs.get_queue_attributes(QueueUrl=made.dead_letter_url, AttributeNames=["All"])["Attributes"]
    assert queue["FifoQueue"] == dead["FifoQueue"] == "true"
    redrive = json.loads(queue["RedrivePolicy"])
    assert (int(redrive["maxReceiveCount"]), redrive["deadLetterTargetArn"]) == (5, dead["QueueArn"])
    [statement] = json.loads(queue["Policy"])["Statement"]
    assert statement["Principal"] == {"Service": "sns.amazonaws.com"}
    assert statement["Condition"] == {"ArnEquals": {"aws:SourceArn": made.topic_arn}}


def test_a_queue_with_other_attributes_is_not_taken_for_ours(ministack: Engine, made: TopicAndQueue) -> None:
    name = made.topic_arn.rpartition(":")[2].removesuffix(".fifo")
    with pytest.raises(Misconfigured, match="other attributes"):
        create_topic_and_queue(
            ministack.aws.sns.client(), ministack.aws.sqs.client(), name, visibility_seconds=31, max_receives=5
        )
