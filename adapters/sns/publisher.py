"""The lifecycle topic on SNS FIFO (ports/publisher.py)."""

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from adapters.aws.clients import Aws, together
from adapters.aws.errors import entry_error
from domain.errors import InterlockError, Invalid, TooLarge, Unavailable
from domain.messages import Outgoing, held_back

if TYPE_CHECKING:
    from mypy_boto3_sns.type_defs import PublishBatchRequestEntryTypeDef

MAX_ENTRIES: Final = 10
MAX_BATCH_BYTES: Final = 256 * 1024

_ID: Final = re.compile(r"[!-~]{1,128}", re.ASCII)
# The characters of XML 1.0, which are all that SNS and SQS carry.
_NOT_CARRIED: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class SNSPublisher:
    """A FIFO topic. Whether SNS wraps what it delivers is up to the subscription; ours asks for raw delivery.

    Args:
        aws: the clients.
        topic_arn: of a FIFO topic.
    """

    def __init__(self, aws: Aws, topic_arn: str) -> None:
        self._sns = aws.sns
        self._topic_arn = topic_arn

    @property
    def max_bytes(self) -> int:
        """256 KiB, which a call may hold in all."""
        return MAX_BATCH_BYTES

    async def publish(self, messages: Sequence[Outgoing], /) -> list[InterlockError | None]:
        """Publish messages; see the port.

        A call to SNS never holds two messages of one group: SNS may take the second and refuse the first. So the
        first messages of all groups go together, ten a call and the calls side by side, then the second ones.
        """
        groups: dict[str, list[int]] = {}
        for index, message in enumerate(messages):
            groups.setdefault(message.group_id, []).append(index)
        answers = [_refusal(message) for message in messages]
        stopped: set[str] = set()
        for wave in zip_longest(*groups.values()):
            sendable: list[int] = []
            for index in wave:
                if index is None:
                    continue
                if messages[index].group_id in stopped:
                    answers[index] = held_back()
                elif answers[index] is None:
                    sendable.append(index)
            for index, answer in await self._send(messages, sendable):
                answers[index] = answer
            stopped |= {messages[index].group_id for index in wave if index is not None and answers[index] is not None}
        return answers

    async def _send(
        self, messages: Sequence[Outgoing], indices: Sequence[int]
    ) -> list[tuple[int, InterlockError | None]]:
        batches = list(_batches(messages, indices))
        answers = await together([self._publish([messages[index] for index in batch]) for batch in batches])
        return [
            pair for batch, answer in zip(batches, answers, strict=True) for pair in zip(batch, answer, strict=True)
        ]

    async def _publish(self, batch: Sequence[Outgoing]) -> list[InterlockError | None]:
        entries: list[PublishBatchRequestEntryTypeDef] = [
            {
                "Id": str(number),
                "Message": message.body,
                "MessageGroupId": message.group_id,
                "MessageDeduplicationId": message.deduplication_id,
            }
            for number, message in enumerate(batch)
        ]
        try:
            answer = await self._sns.call(
                lambda sns: sns.publish_batch(TopicArn=self._topic_arn, PublishBatchRequestEntries=entries)
            )
        except InterlockError as error:
            return [error] * len(batch)
        results: dict[str, InterlockError | None] = {taken.get("Id", ""): None for taken in answer["Successful"]}
        for refused in answer["Failed"]:
            results[refused["Id"]] = entry_error("SNS", refused["Code"], senders_fault=refused["SenderFault"])
        unanswered = Unavailable("SNS", "one entry of a batch was not answered")
        return [results.get(str(number), unanswered) for number in range(len(batch))]


def _refusal(message: Outgoing) -> InterlockError | None:
    """Say why SNS would not take a message; not every engine does (FC-34)."""
    for name, value in (("group_id", message.group_id), ("deduplication_id", message.deduplication_id)):
        if _ID.fullmatch(value) is None:
            return Invalid(name, "must be 1 to 128 letters, digits and punctuation of ASCII")
    if not message.body:
        return Invalid("", "is empty, which SNS does not take")
    if unfit := _NOT_CARRIED.search(message.body):
        return Invalid(f"character {unfit.start()}", "is not one of XML 1.0, which are all that SNS carries")
    size = len(message.body.encode())
    if size > MAX_BATCH_BYTES:
        return TooLarge("", f"is a message of {size} bytes; the limit is {MAX_BATCH_BYTES}", size, MAX_BATCH_BYTES)
    return None


def _batches(messages: Sequence[Outgoing], indices: Sequence[int]) -> Iterator[list[int]]:
    """Split into calls of at most ten messages and 256 KiB."""
    batch: list[int] = []
    size = 0
    for index in indices:
        more = len(messages[index].body.encode())
        if batch and (len(batch) == MAX_ENTRIES or size + more > MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(index)
        size += more
    if batch:
        yield batch
