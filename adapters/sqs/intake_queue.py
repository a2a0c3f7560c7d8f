"""The intake queue on SQS: a standard queue, ten messages a call and calls side by side (ports/intake_queue.py)."""

import asyncio
import math
import random
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from adapters.aws.clients import LONGEST_POLL, Aws, together
from adapters.aws.errors import entry_error
from adapters.sqs.message_queue import MAX_ENTRIES, SQSMessageQueue, received
from domain.errors import InterlockError, Retryable, Unavailable
from domain.intake import check_bodies
from domain.messages import Received
from domain.retry import RetryRule

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef

MAX_BATCH_BYTES: Final = 1024 * 1024
LANES: Final = 8
"""Calls of one kind that are under way side by side."""

RETRY: Final = RetryRule(attempts=4, base=0.1, ceiling=1.0)

MAX_IN_HAND_BYTES: Final = 64 * 1024 * 1024
"""After so many bytes of bodies `receive` asks for no more; what is asked for already may come on top."""


class SQSIntakeQueue:
    """A standard queue, whose redrive policy says after how many receives a message is a dead letter.

    Args:
        aws: the clients.
        queue_url: of a standard queue.
        retry: how entries are sent again that SQS refused for the moment.
    """

    def __init__(self, aws: Aws, queue_url: str, retry: RetryRule = RETRY) -> None:
        self._sqs = aws.sqs
        self._url = queue_url
        self._retry = retry
        self._calls = SQSMessageQueue(aws, queue_url)

    async def send(self, bodies: Sequence[str], /) -> list[str]:
        """Send texts, ten and 1 MiB a call; see the port. Of a call, refused entries alone are sent again (FC-21)."""
        check_bodies(bodies)
        room = asyncio.Semaphore(LANES)

        async def send(batch: list[str]) -> list[str]:
            async with room:
                return await self._send(batch)

        return list(chain.from_iterable(await together([send(batch) for batch in _batches(bodies)])))

    async def receive(self, limit: int, wait_seconds: float, /) -> list[Received]:
        """Take messages: one call that waits, then more side by side while they are answered in full.

        A call of a standard queue may answer with fewer than there are, so an early end is normal.
        """
        taken = await self._receive(limit, wait_seconds)
        size = sum(len(message.body) for message in taken)
        full = len(taken) == MAX_ENTRIES
        while full and len(taken) < limit and size < MAX_IN_HAND_BYTES:
            wanted = [
                min(MAX_ENTRIES, limit - start)
                for start in range(len(taken), min(limit, len(taken) + LANES * MAX_ENTRIES), MAX_ENTRIES)
            ]
            answers = await together([self._receive_more(number) for number in wanted])
            more = list(chain.from_iterable(answers))
            size += sum(len(message.body) for message in more)
            full = len(more) == sum(wanted)
            taken += more
        return taken

    async def delete(self, messages: Sequence[Received], /) -> list[Received]:
        """Delete handled messages; give back those whose receipt had run out.

        Raises:
            Unavailable: SQS failed on some; all were tried, and may be deleted again.
        """
        return list(chain.from_iterable(await together([self._calls.delete(lane) for lane in _lanes(messages)])))

    async def release(self, messages: Sequence[Received], /) -> None:
        """Make messages visible at once.

        Raises:
            Unavailable: SQS failed on some; they become visible when their time is over.
        """
        await together([self._calls.release(lane) for lane in _lanes(messages)])

    async def _send(self, bodies: list[str]) -> list[str]:
        ids: dict[int, str] = {}
        waiting = list(range(len(bodies)))
        attempt = 0
        while waiting:
            attempt += 1
            error = await self._send_once(bodies, waiting, ids)
            waiting = [number for number in waiting if number not in ids]
            if error is not None:
                wait = self._retry.wait(attempt, random.random())  # noqa: S311 - spreads senders, keeps no secret
                if wait is None or not isinstance(error, Retryable):
                    raise error
                await asyncio.sleep(wait)
        return [ids[number] for number in range(len(bodies))]

    async def _send_once(self, bodies: list[str], waiting: list[int], ids: dict[int, str]) -> InterlockError | None:
        """Send what waits; note the ids of what was taken, and give the worst error of what was not."""
        entries: list[SendMessageBatchRequestEntryTypeDef] = [
            {"Id": str(number), "MessageBody": bodies[number]} for number in waiting
        ]
        answer = await self._sqs.call(lambda sqs: sqs.send_message_batch(QueueUrl=self._url, Entries=entries))
        ids |= {int(taken["Id"]): taken["MessageId"] for taken in answer.get("Successful", [])}
        errors = [
            entry_error("SQS", refused["Code"], senders_fault=refused["SenderFault"])
            for refused in answer.get("Failed", [])
        ]
        if not errors and any(number not in ids for number in waiting):
            errors = [Unavailable("SQS", "one entry of a batch was not answered")]
        return min(errors, key=lambda error: isinstance(error, Retryable), default=None)

    async def _receive(self, limit: int, wait_seconds: float) -> list[Received]:
        answer = await self._sqs.call(
            lambda sqs: sqs.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=min(limit, MAX_ENTRIES),
                WaitTimeSeconds=min(math.ceil(wait_seconds), LONGEST_POLL),
                MessageSystemAttributeNames=["ApproximateReceiveCount", "SentTimestamp"],
            )
        )
        return [received(message) for message in answer.get("Messages", [])]

    async def _receive_more(self, limit: int) -> list[Received]:
        """Take more, or nothing where SQS fails now: what was taken before must not be lost sight of."""
        try:
            return await self._receive(limit, 0)
        except Unavailable:
            return []


def _batches(bodies: Sequence[str]) -> Iterator[list[str]]:
    """Split into calls of at most ten texts and 1 MiB."""
    batch: list[str] = []
    size = 0
    for body in bodies:
        more = len(body.encode())
        if batch and (len(batch) == MAX_ENTRIES or size + more > MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(body)
        size += more
    if batch:
        yield batch


def _lanes(messages: Sequence[Received]) -> list[Sequence[Received]]:
    """Split into as many parts as calls may be under way, of whole tens."""
    tens = math.ceil(len(messages) / MAX_ENTRIES)
    step = MAX_ENTRIES * max(1, math.ceil(tens / LANES))
    return [messages[start : start + step] for start in range(0, len(messages), step)]
