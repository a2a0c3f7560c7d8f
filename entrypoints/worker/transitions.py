"""The transition consumer as a process: receive, apply, delete what was handled, give back the rest (R-105 to R-107).

Several batches may be in hand, because the queue hands out a group to one receiver at a time. That holds until a
message's visibility runs out, so no message is started after half of it. Killed at any moment, the process leaves
messages that the queue hands out again, and moves that are recognised by their command ids (R-110).
"""

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

import structlog

from application.consume import BatchReport, apply_batch
from application.platform import Platform
from domain.messages import Received
from domain.retry import RetryRule
from entrypoints.failures import one_error
from entrypoints.worker.taking import BACKOFF, outlast, settle, take, tell_failures, until_the_store_answers
from ports.message_queue import MessageQueue

_log: structlog.stdlib.BoundLogger = structlog.get_logger("interlock.worker")


class Consumption(NamedTuple):
    """How a worker takes messages.

    Attributes:
        batch: messages at a time.
        receivers: batches in hand side by side.
        wait_seconds: how long to wait for a message in one call; stopping takes as long.
        visibility_seconds: how long the queue hides a message that was handed out.
        max_receives: how often the queue hands out a message before it dead-letters it.
    """

    batch: int
    receivers: int
    wait_seconds: float
    visibility_seconds: float
    max_receives: int
    backoff: RetryRule = BACKOFF


async def consume(platform: Platform, queue: MessageQueue, how: Consumption, stop: asyncio.Event) -> None:
    """Work through a queue until told to stop; the batches in hand are finished first.

    Takes no message before the store answers: a store that is away or not set up must cost no message a receive.

    Raises:
        Misconfigured: the queue or the store cannot work as it is set up.
    """
    await until_the_store_answers(lambda: platform.store.head("-"), how.backoff, stop)
    with one_error():
        async with asyncio.TaskGroup() as tasks:
            for _ in range(how.receivers):
                tasks.create_task(
                    take(
                        lambda: queue.receive(how.batch, how.wait_seconds),
                        queue,
                        lambda batch: _work(platform, queue, how, batch, stop),
                        how.backoff,
                        stop,
                    )
                )


async def _work(
    platform: Platform, queue: MessageQueue, how: Consumption, batch: Sequence[Received], stop: asyncio.Event
) -> None:
    """Apply a batch; delete what was handled, and give back what failed with what comes after it in its group.

    A message for which no time was left is not given back: that would count as a failure of its own, and bury it after
    a few. It comes again when its time is over, which is soon.
    """
    started = time.monotonic()
    deadline = platform.clock.now() + timedelta(seconds=how.visibility_seconds / 2)
    report = await apply_batch(platform, batch, max_receives=how.max_receives, deadline=deadline)
    returned = set(report.returned)
    handled = [message for message in batch if message.message_id not in returned]
    stale = await settle(queue, handled, [])
    _tell(batch, report, stale, time.monotonic() - started)
    await outlast(report.failures, lambda: platform.store.head("-"), how.backoff, stop)
    failed = {message.group_id for message in batch if message.message_id in report.failures}
    await settle(queue, [], [one for one in batch if one.message_id in returned and one.group_id in failed])


def _tell(batch: Sequence[Received], report: BatchReport, stale: int, seconds: float) -> None:
    tell_failures(batch, report.failures)
    _log.info(
        "batch",
        received=report.received,
        done=report.tally.get("done", 0),
        duplicate=report.tally.get("duplicate", 0),
        rejected=report.tally.get("rejected", 0),
        returned=len(report.returned),
        stale=stale,
        seconds=round(seconds, 3),
    )
