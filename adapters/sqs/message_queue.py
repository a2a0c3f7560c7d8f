"""Queues on SQS (ports/message_queue.py): the lifecycle queue, which is FIFO, and standard ones without order."""

import math
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypedDict

from adapters.aws.clients import LONGEST_POLL, Aws
from adapters.aws.errors import is_transient
from domain.errors import Misconfigured, Unavailable
from domain.messages import Received
from domain.times import from_milliseconds

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import BatchResultErrorEntryTypeDef, MessageTypeDef

MAX_ENTRIES: Final = 10

# What SQS says of one entry whose receipt ran out: of standard queues, of FIFO queues, of messages not in flight.
_STALE: Final = frozenset({"ReceiptHandleIsInvalid", "InvalidParameterValue", "MessageNotInflight"})


class ReceiveAttempt(TypedDict, total=False):
    """What names an attempt to receive."""

    ReceiveRequestAttemptId: str


class SQSMessageQueue:
    """A queue. What the port says of groups holds for a FIFO queue; messages of a standard one have none.

    Args:
        aws: the clients.
        queue_url: of a queue; that of a FIFO queue ends in `.fifo`.
    """

    def __init__(self, aws: Aws, queue_url: str) -> None:
        self._sqs = aws.sqs
        self._url = queue_url

    async def receive(self, limit: int, wait_seconds: float, /) -> list[Received]:
        """Take messages with one call, ten at most; see the port.

        A caller that wants more receives again: calls side by side may split a group that becomes visible between
        them. Waiting is in whole seconds, 20 at most. A receive that is cancelled while SQS answers leaves what it
        took hidden until the visibility timeout.
        """
        attempt: ReceiveAttempt = {}
        if self._url.endswith(".fifo"):  # SQS takes an attempt's id for those alone
            # So that boto3's own retries get the same messages, not an empty answer.
            attempt["ReceiveRequestAttemptId"] = str(uuid.uuid4())
        answer = await self._sqs.call(
            lambda sqs: sqs.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=min(limit, MAX_ENTRIES),
                WaitTimeSeconds=min(math.ceil(wait_seconds), LONGEST_POLL),
                MessageSystemAttributeNames=["MessageGroupId", "ApproximateReceiveCount", "SentTimestamp"],
                **attempt,
            )
        )
        return [received(message) for message in answer.get("Messages", [])]

    async def delete(self, messages: Sequence[Received], /) -> list[Received]:
        """Delete handled messages; give back those whose receipt had run out.

        Raises:
            Unavailable: SQS failed on some; all were tried, and may be deleted again.
        """

        async def delete(batch: Sequence[Received]) -> "Sequence[BatchResultErrorEntryTypeDef]":
            answer = await self._sqs.call(
                lambda sqs: sqs.delete_message_batch(
                    QueueUrl=self._url,
                    Entries=[
                        {"Id": str(number), "ReceiptHandle": message.receipt} for number, message in enumerate(batch)
                    ],
                )
            )
            return answer.get("Failed", [])

        return await in_tens(messages, delete)

    async def release(self, messages: Sequence[Received], /) -> None:
        """Make messages visible at once, in order.

        Raises:
            Unavailable: SQS failed on some; all were tried, and become visible when their time is over.
        """

        async def release(batch: Sequence[Received]) -> "Sequence[BatchResultErrorEntryTypeDef]":
            answer = await self._sqs.call(
                lambda sqs: sqs.change_message_visibility_batch(
                    QueueUrl=self._url,
                    Entries=[
                        {"Id": str(number), "ReceiptHandle": message.receipt, "VisibilityTimeout": 0}
                        for number, message in enumerate(batch)
                    ],
                )
            )
            return answer.get("Failed", [])

        await in_tens(messages, release)


async def in_tens(
    messages: Sequence[Received],
    call: "Callable[[Sequence[Received]], Awaitable[Sequence[BatchResultErrorEntryTypeDef]]]",
) -> list[Received]:
    """Send a batch call for each ten messages, in order, and give back those with a stale receipt.

    Such a call answers 200 although it refused some of its entries (FC-21).
    """
    stale: list[Received] = []
    errors: list[Unavailable | Misconfigured] = []
    for batch in _tens(messages):
        try:
            refused: Mapping[int, BatchResultErrorEntryTypeDef] = {int(e["Id"]): e for e in await call(batch)}
        except (Unavailable, Misconfigured) as error:
            errors.append(error)
            continue
        for number, entry in sorted(refused.items()):
            code = entry["Code"].rpartition(".")[2]
            if code in _STALE:
                stale.append(batch[number])
            elif is_transient(code) or not entry["SenderFault"]:
                errors.append(Unavailable("SQS", f"one entry of a batch was answered {code}"))
            else:
                errors.append(Misconfigured("SQS", f"one entry of a batch was refused: {code}"))
    if errors:
        raise errors[0]
    return stale


def _tens(messages: Sequence[Received]) -> Iterator[Sequence[Received]]:
    for start in range(0, len(messages), MAX_ENTRIES):
        yield messages[start : start + MAX_ENTRIES]


def received(message: "MessageTypeDef") -> Received:
    """Read a message as SQS hands it out, with its system attributes."""
    attributes = message.get("Attributes", {})
    return Received(
        message_id=message.get("MessageId", ""),
        group_id=attributes.get("MessageGroupId"),
        body=message.get("Body", ""),
        receipt=message.get("ReceiptHandle", ""),
        receive_count=int(attributes.get("ApproximateReceiveCount", "1")),
        sent_at=from_milliseconds(int(attributes["SentTimestamp"])) if "SentTimestamp" in attributes else None,
    )
