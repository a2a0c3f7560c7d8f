"""Dead-letter queues on SQS (ports/dead_letters.py): looked through by holding what was seen, put back by sending.

Letters go back to the queue that they came from. Those of EventBridge and of asynchronous functions came from none: the
function that failed is called with the event again, and has acknowledged it when it returns without an error.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

from adapters.aws.clients import Aws, together
from domain.dead_letters import Attribute, DeadLetter, read_failure, redrive_id
from domain.errors import InterlockError, Invalid, StaleReceipt, Unavailable
from domain.fifo import lanes
from domain.messages import held_back
from domain.times import from_milliseconds
from ports.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mypy_boto3_sqs.type_defs import MessageAttributeValueTypeDef, MessageTypeDef, SendMessageRequestTypeDef

HOLD_SECONDS: Final = 300
"""How long a letter that was shown stays hidden from others: longer than a page takes at the slowest pace."""

_PAGE: Final = 10
_WINDOW: Final = timedelta(minutes=5)

_UNKNOWN: Final = frozenset({"InvalidAction"})
"""What engines say that do not know the call, and whose dead-letter queues are taken for those of functions."""

Sender = Callable[[DeadLetter], Awaitable[None]]


class SQSDeadLetters:
    """A dead-letter queue.

    On FIFO queues SQS shows of each group no more than ten letters at a time: what is passed over hides the rest.

    Args:
        aws: the clients.
        queue_url: of the dead-letter queue.
        send: hands a letter on, and returns when it is acknowledged: `to_queue` or `to_function`.
        clock: says which letters came while they were looked through; those are left out, or one that fails again
            and again would keep a redrive going.
        hold_seconds: how long what was shown stays hidden from others, where this process dies.
    """

    def __init__(
        self, aws: Aws, queue_url: str, send: Sender, clock: Clock, *, hold_seconds: int = HOLD_SECONDS
    ) -> None:
        self._sqs = aws.sqs
        self._clock = clock
        self._url = queue_url
        self._send = send
        self._hold = hold_seconds
        self._receipts: dict[str, str] = {}
        self._stopped: set[str] = set()

    async def waiting(self) -> int:
        """Say about how many letters there are."""
        answer = await self._sqs.call(
            lambda sqs: sqs.get_queue_attributes(
                QueueUrl=self._url,
                AttributeNames=["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"],
            )
        )
        return sum(int(text) for text in answer.get("Attributes", {}).values())

    async def pages(self) -> AsyncGenerator[Sequence[DeadLetter], None]:
        """Give the letters, each once; see the port. It ends when SQS gives nothing that was not seen before."""
        started = self._clock.now()
        seen: set[str] = set()
        try:
            while received := await self._receive():
                self._receipts |= {letter.message_id: letter.receipt for letter in received}
                new = [letter for letter in received if letter.message_id not in seen]
                if not new:
                    return
                seen |= {letter.message_id for letter in new}
                yield [letter for letter in new if letter.sent_at is None or letter.sent_at <= started]
        finally:
            await self._release()

    async def redrive(self, letters: Sequence[DeadLetter], /) -> list[InterlockError | None]:
        """Send letters, then delete each one that was taken; see the port."""
        errors: dict[str, InterlockError | None] = {}

        async def in_order(lane: Sequence[DeadLetter]) -> None:
            for letter in lane:
                errors[letter.message_id] = await self._redrive_one(letter)

        await together([in_order(lane) for lane in lanes(letters)])
        return [errors[letter.message_id] for letter in letters]

    async def _redrive_one(self, letter: DeadLetter) -> InterlockError | None:
        if letter.group_id in self._stopped:
            return held_back()
        try:
            await self._send(letter)
            await self._delete(letter)
        except InterlockError as error:
            if letter.group_id is not None:
                self._stopped.add(letter.group_id)
            return error
        del self._receipts[letter.message_id]
        return None

    async def _receive(self) -> list[DeadLetter]:
        answer = await self._sqs.call(
            lambda sqs: sqs.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=_PAGE,
                VisibilityTimeout=self._hold,
                WaitTimeSeconds=1,  # else SQS asks a few of its hosts, and may say that there is nothing
                MessageSystemAttributeNames=["MessageGroupId", "MessageDeduplicationId", "SentTimestamp"],
                MessageAttributeNames=["All"],
            )
        )
        return [_letter(message) for message in answer.get("Messages", [])]

    async def _delete(self, letter: DeadLetter) -> None:
        """Delete a letter that was put back.

        Raises:
            StaleReceipt: it was held too long; it is in both places.
        """
        answer = await self._sqs.call(
            lambda sqs: sqs.delete_message_batch(
                QueueUrl=self._url, Entries=[{"Id": "0", "ReceiptHandle": letter.receipt}]
            )
        )
        if answer.get("Failed"):
            raise StaleReceipt(letter.message_id)

    async def _release(self) -> None:
        """Show to others again what is still here; a receipt that ran out did that by itself."""
        receipts = list(self._receipts.values())
        self._receipts.clear()

        async def release(some: Sequence[str]) -> None:
            await self._sqs.call(
                lambda sqs: sqs.change_message_visibility_batch(
                    QueueUrl=self._url,
                    Entries=[
                        {"Id": str(number), "ReceiptHandle": receipt, "VisibilityTimeout": 0}
                        for number, receipt in enumerate(some)
                    ],
                )
            )

        for start in range(0, len(receipts), _PAGE):
            await release(receipts[start : start + _PAGE])


def to_queue(aws: Aws, queue_url: str, clock: Clock, *, unwrap: bool = False) -> Sender:
    """Hand letters to a queue, with their attributes, and on FIFO queues with their groups.

    The body goes as it is. Only of letters that came from a function, `unwrap` takes the event out of the record that
    Lambda put around it: a message that a client sent may look like such a record.

    A letter keeps its deduplication id once SQS has forgotten it (five minutes); before, it gets one of its own, or SQS
    would acknowledge it and throw it away.
    """

    async def send(letter: DeadLetter) -> None:
        request: SendMessageRequestTypeDef = {
            "QueueUrl": queue_url,
            "MessageBody": read_failure(letter).event if unwrap else letter.body,
            "MessageAttributes": {name: _value(given) for name, given in letter.attributes.items()},
        }
        if letter.group_id is not None and queue_url.endswith(".fifo"):
            forgotten = letter.sent_at is not None and clock.now() - letter.sent_at > _WINDOW
            request["MessageGroupId"] = letter.group_id
            own = letter.deduplication_id if forgotten else None
            request["MessageDeduplicationId"] = own or redrive_id(letter)
        await aws.sqs.call(lambda sqs: sqs.send_message(**request))

    return send


def to_function(aws: Aws, name: str | None) -> Sender:
    """Call a function with the event of a letter, and wait for what it says.

    For letters of functions alone: where clients write the messages, one could name a function of its own choice.

    Args:
        aws: the clients.
        name: name or ARN of the function; None calls the one that each letter names.
    """

    async def send(letter: DeadLetter) -> None:
        failure = read_failure(letter)
        function = name or failure.target or ""
        if ":function:" not in function and name is None:
            raise Invalid("target", "the letter names no function; name one, or a queue")
        answer = await aws.functions.call(
            lambda functions: functions.invoke(
                FunctionName=function, InvocationType="RequestResponse", Payload=failure.event.encode()
            )
        )
        if answer.get("FunctionError"):
            told = await asyncio.to_thread(answer["Payload"].read)
            raise Unavailable("the function", f"it failed again: {_error_type(told)}")

    return send


async def dead_letters_of(aws: Aws, queue_url: str) -> str | None:
    """Give the URL of a queue's dead-letter queue, or None where it has none and so may be one itself.

    Raises:
        Misconfigured: there is no such queue, or it may not be looked at.
    """
    answer = await aws.sqs.call(
        lambda sqs: sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["RedrivePolicy"])
    )
    policy = json.loads(answer.get("Attributes", {}).get("RedrivePolicy") or "{}")
    if "deadLetterTargetArn" not in policy:
        return None
    account, name = policy["deadLetterTargetArn"].split(":")[4:6]
    found = await aws.sqs.call(lambda sqs: sqs.get_queue_url(QueueName=name, QueueOwnerAWSAccountId=account))
    return found["QueueUrl"]


async def sources_of(aws: Aws, queue_url: str) -> Sequence[str]:
    """Give the URLs of the queues whose dead letters come to a queue.

    Raises:
        Misconfigured: it may not be looked at.
    """
    try:
        answer = await aws.sqs.call(
            lambda sqs: sqs.list_dead_letter_source_queues(QueueUrl=queue_url, MaxResults=10), expect=_UNKNOWN
        )
    except ClientError:
        return []
    return answer["queueUrls"]


def _error_type(answer: bytes) -> str:
    """Give the class of a function's error; its text may quote content."""
    try:
        value = json.loads(answer)
    except ValueError:
        return "without a reason"
    return str(value.get("errorType", "without a reason")) if isinstance(value, dict) else "without a reason"


def _letter(message: "MessageTypeDef") -> DeadLetter:
    system: Mapping[str, str] = {str(name): text for name, text in message.get("Attributes", {}).items()}
    sent = system.get("SentTimestamp")
    return DeadLetter(
        message_id=message.get("MessageId", ""),
        body=message.get("Body", ""),
        receipt=message.get("ReceiptHandle", ""),
        group_id=system.get("MessageGroupId"),
        deduplication_id=system.get("MessageDeduplicationId"),
        sent_at=None if sent is None else from_milliseconds(int(sent)),
        attributes={
            name: Attribute(given["DataType"], given.get("BinaryValue", given.get("StringValue", "")))
            for name, given in message.get("MessageAttributes", {}).items()
        },
    )


def _value(given: Attribute) -> "MessageAttributeValueTypeDef":
    if isinstance(given.value, bytes):
        return {"DataType": given.kind, "BinaryValue": given.value}
    return {"DataType": given.kind, "StringValue": given.value}
