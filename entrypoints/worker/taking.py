"""Taking messages from a queue until told to stop, as every worker does."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import random
from typing import Final, Protocol

import structlog

from domain.errors import InterlockError, Misconfigured, Retryable
from domain.messages import Received
from domain.retry import RetryRule
from entrypoints.failures import code_of, reason_of

BACKOFF: Final = RetryRule(attempts=sys.maxsize, base=0.1, ceiling=15.0)

_log: structlog.stdlib.BoundLogger = structlog.get_logger("interlock.worker")


class Settling(Protocol):
    """A queue of either kind, as far as settling goes."""

    async def delete(self, messages: Sequence[Received], /) -> list[Received]:
        """Delete handled messages; give those whose receipt had run out."""
        ...

    async def release(self, messages: Sequence[Received], /) -> None:
        """Give messages back at once."""
        ...


async def take(
    receive: Callable[[], Awaitable[list[Received]]],
    queue: Settling,
    work: Callable[[list[Received]], Awaitable[None]],
    backoff: RetryRule,
    stop: asyncio.Event,
) -> None:
    """Receive and work, batch by batch. What comes in after the stop is given back."""
    attempt = 0
    while not stop.is_set():
        try:
            batch = await receive()
        except Retryable as error:
            attempt += 1
            _log.warning("no answer from the queue", code=error.code, reason=str(error), attempt=attempt)
            await pause(backoff, attempt, stop)
            continue
        attempt = 0
        if stop.is_set():
            await settle(queue, [], batch)
        elif batch:
            await work(batch)


async def settle(queue: Settling, handled: Sequence[Received], returned: Sequence[Received]) -> int:
    """Delete and release; where the queue does not answer, the messages come again by themselves.

    Returns:
        How many handled messages had a stale receipt: they come again too, and are then recognised.
    """
    stale = 0
    try:
        if handled:
            stale = len(await queue.delete(handled))
        if returned:
            await queue.release(returned)
    except Retryable as error:
        _log.warning("the queue will deliver again", code=error.code, reason=str(error))
    return stale


def tell_failures(batch: Sequence[Received], failures: Mapping[str, Exception]) -> None:
    """Log why messages of a batch failed, by id, and how often they were received."""
    counts = {message.message_id: message.receive_count for message in batch}
    for message_id, error in failures.items():
        _log.error(
            "message failed",
            message_id=message_id,
            receive_count=counts[message_id],
            code=code_of(error),
            reason=reason_of(error),
        )


async def outlast(
    failures: Mapping[str, Exception],
    ask_store: Callable[[], Awaitable[object]],
    backoff: RetryRule,
    stop: asyncio.Event,
) -> None:
    """Wait, where a batch failed for what may pass, before its messages are given back.

    Raises:
        Misconfigured: one of them failed for that: a person must put it right.
    """
    for error in failures.values():
        if isinstance(error, Misconfigured):
            raise error
    if any(map(may_pass, failures.values())):
        await pause(backoff, 1, stop)
        await until_the_store_answers(ask_store, backoff, stop)


async def until_the_store_answers(
    ask_store: Callable[[], Awaitable[object]], backoff: RetryRule, stop: asyncio.Event
) -> None:
    """Wait for the store before messages are taken or given back.

    Given back at once, they would be received as often as the queue allows within a second, and an outage would fill
    the dead-letter queue. So one receive is spent on an outage, however long it lasts.

    Args:
        ask_store: asks for something small; it is away where that raises `Retryable`.
        backoff: how long to wait between two questions.
        stop: ends the waiting.
    """
    attempt = 0
    while not stop.is_set():
        try:
            await ask_store()
        except Retryable as error:
            attempt += 1
            _log.warning("no answer from the store", code=error.code, reason=str(error), attempt=attempt)
            await pause(backoff, attempt, stop)
        else:
            return


def may_pass(error: Exception) -> bool:
    """Say whether waiting may help: for what says so, and for faults that nobody foresaw."""
    return isinstance(error, Retryable) or not isinstance(error, InterlockError)


async def pause(backoff: RetryRule, attempt: int, stop: asyncio.Event) -> None:
    """Wait as the rule says, or until told to stop."""
    wait = backoff.wait(attempt, random())  # noqa: S311 - spreads workers, keeps no secret
    try:
        async with asyncio.timeout(wait):
            await stop.wait()
    except TimeoutError:
        return
