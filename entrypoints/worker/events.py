"""The router as a process, for those who do not use Lambda: events from a queue into workflows (R-301 to R-307).

Events of a batch are routed side by side, in no order: the workflow's id makes deliveries meet. Killed at any moment,
the process leaves events that the queue hands out again. It drains the dead-letter queues of EventBridge and Lambda
too: both forms of their messages are read (FC-20).

| what became of an event | then |
|---|---|
| routed: started, already started, skipped, caught | deleted |
| no event, too large, or refused for good | given back, to be logged each time until the dead-letter queue has it |
| the workflow server or a store does not answer | kept, and no more taken, until one goes through; then given back |
| the server does not know the namespace or the key | kept hidden, and the worker ends: a mistake empties no queue |
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import structlog
from pydantic import JsonValue

from application.route import Router
from domain.errors import Invalid, Malformed, Misconfigured
from domain.eventbridge import from_eventbridge, without_wrapping
from domain.messages import Received
from domain.retry import RetryRule
from entrypoints.failures import code_of, one_error, reason_of
from entrypoints.worker.taking import BACKOFF, may_pass, pause, settle, take
from ports.message_queue import MessageQueue

OUTCOMES: Final = ("started", "already_started", "skipped", "caught")

_log: structlog.stdlib.BoundLogger = structlog.get_logger("interlock.worker")


class Draining(NamedTuple):
    """How a worker takes events.

    Attributes:
        batch: events at a time.
        receivers: batches in hand side by side.
        wait_seconds: how long to wait for an event in one call; stopping takes as long.
        visibility_seconds: how long the queue hides an event that was handed out.
    """

    batch: int
    receivers: int
    wait_seconds: float
    visibility_seconds: float
    backoff: RetryRule = BACKOFF


async def drain(router: Router, queue: MessageQueue, how: Draining, stop: asyncio.Event) -> None:
    """Work through a queue until told to stop; the batches in hand are finished first.

    Raises:
        Misconfigured: the queue, a store or the workflow server cannot work as it is set up.
    """
    with one_error():
        async with asyncio.TaskGroup() as tasks:
            for _ in range(how.receivers):
                tasks.create_task(
                    take(
                        lambda: queue.receive(how.batch, how.wait_seconds),
                        queue,
                        lambda batch: _work(router, queue, how, batch, stop),
                        how.backoff,
                        stop,
                    )
                )


async def _work(
    router: Router, queue: MessageQueue, how: Draining, batch: Sequence[Received], stop: asyncio.Event
) -> None:
    started = time.monotonic()
    end = started + how.visibility_seconds / 2
    async with asyncio.TaskGroup() as tasks:
        routing = [tasks.create_task(_route(router, message, end)) for message in batch]
    told = list(zip(batch, (task.result() for task in routing), strict=True))
    outcomes = Counter(outcome for _, outcome in told if isinstance(outcome, str))
    failures = [(message, outcome) for message, outcome in told if isinstance(outcome, Exception)]
    stale = await settle(queue, [message for message, outcome in told if isinstance(outcome, str)], [])
    _log.info(
        "batch",
        received=len(batch),
        **{name: outcomes[name] for name in OUTCOMES},
        returned=len(failures),
        stale=stale,
        seconds=round(time.monotonic() - started, 3),
    )
    for _, failure in failures:
        if isinstance(failure, Misconfigured):
            raise failure
    waiting = [message for message, failure in failures if may_pass(failure)]
    if waiting:
        await _until_it_goes_through(router, waiting[0], how, stop)
    await settle(queue, [], [message for message, _ in failures])


async def _route(router: Router, message: Received, end: float) -> str | Exception:
    """Route one event; give its outcome, or what it failed of, which is logged."""
    try:
        result = await router.route(
            from_eventbridge(without_wrapping(_event(message.body))), lambda: end - time.monotonic()
        )
    except Exception as error:  # noqa: BLE001 - one event must not take the batch with it; it is told
        _log.error(
            "event not routed",
            message_id=message.message_id,
            receive_count=message.receive_count,
            code=code_of(error),
            reason=reason_of(error),
        )
        return error
    return result.outcome


def _event(body: str) -> dict[str, JsonValue]:
    """Read a body as the Lambda runtime would; the strict rules are those of the envelope."""
    try:
        event: JsonValue = json.loads(body)
    except (ValueError, RecursionError):
        raise Malformed("", "is not JSON") from None
    if not isinstance(event, dict):
        raise Invalid("", "is no event of EventBridge")
    return event


async def _until_it_goes_through(router: Router, message: Received, how: Draining, stop: asyncio.Event) -> None:
    """Route an event until that does not fail for a reason that may pass, or we are told to stop.

    The others of its batch wait for that, and nothing more is taken meanwhile: so an outage, however long, costs the
    events in hand one receive, and does not fill the dead-letter queue.
    """
    attempt = 0
    waiting = True
    while waiting and not stop.is_set():
        attempt += 1
        await pause(how.backoff, attempt, stop)
        outcome = await _route(router, message, time.monotonic() + how.visibility_seconds / 2)
        waiting = isinstance(outcome, Exception) and may_pass(outcome)
