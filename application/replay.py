"""Starting what the catch-all recorded, once its workflow exists (R-308). Safe to repeat: ids make copies meet."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Final, Literal, NamedTuple

from application.route import Router
from domain.errors import InterlockError, Retryable
from domain.routing import CATCH_ALL, Caught, Skip, Start, event_identity, report_id
from ports.caught_events import CaughtEvents

AT_ONCE: Final = 16
PAGE: Final = 100

Fate = Literal["started", "already_started", "replayed_before", "skipped", "waiting", "failed"]


class Replayed(NamedTuple):
    """What became of one recorded event; with `dry_run`, what would.

    Attributes:
        workflow: that was started for it, or would be.
        error: why it failed.
    """

    caught: Caught
    fate: Fate
    workflow: str
    error: InterlockError | None = None


class ReplayReport(NamedTuple):
    """The fates of all recorded events that were looked at: they add up to `seen`.

    Attributes:
        stopped: whether more were left, because nothing could be started any more.
    """

    seen: int
    fates: dict[Fate, int]
    stopped: bool = False


async def list_caught(caught: CaughtEvents, event_type: str | None) -> AsyncIterator[Caught]:
    """Give the recorded events of a type, or of all, a page at a time.

    Raises:
        Unavailable: the store did not answer.
    """
    for one in await caught.types() if event_type is None else [event_type]:
        after = ""
        while page := await caught.of_type(one, after, PAGE):
            for event in page:
                yield event
            after = page[-1].workflow_id


async def replay(
    router: Router,
    caught: CaughtEvents,
    event_type: str | None,
    remaining: Callable[[], float],
    tell: Callable[[Replayed], None] = lambda _: None,
    *,
    dry_run: bool = False,
) -> ReplayReport:
    """Start the workflow of each recorded event that has one by now. A failure is told, and the others go on.

    When `AT_ONCE` attempts in a row found that something is away, no more are begun: the rest would fare alike.

    Args:
        router: starts them.
        caught: what was recorded.
        event_type: only these; None for all.
        remaining: gives the seconds that are left for one event's attempts.
        tell: is given what became of each.
        dry_run: start nothing, and say what would be.

    Raises:
        Unavailable: the store of recorded events did not answer.
    """
    fates: Counter[Fate] = Counter()
    slots = asyncio.Semaphore(AT_ONCE)
    away = 0
    stopped = False

    async def one(event: Caught) -> None:
        nonlocal away
        try:
            told = await _replay(router, caught, event, remaining, dry_run=dry_run)
        finally:
            slots.release()
        if isinstance(told.error, Retryable):
            away += 1
        elif told.fate in {"started", "already_started"}:
            away = 0
        fates[told.fate] += 1
        tell(told)

    async with asyncio.TaskGroup() as tasks:
        async for event in list_caught(caught, event_type):
            await slots.acquire()
            if away >= AT_ONCE:
                stopped = True
                break
            tasks.create_task(one(event))
    return ReplayReport(fates.total(), dict(fates), stopped)


async def _replay(
    router: Router, caught: CaughtEvents, event: Caught, remaining: Callable[[], float], *, dry_run: bool
) -> Replayed:
    if event.replayed_at is not None:
        return Replayed(event, "replayed_before", "")
    envelope = event.envelope
    try:
        decision = await router.decide(envelope.type, event_identity(envelope).event_id, report_id(envelope))
        if not isinstance(decision, Start):
            return Replayed(event, "skipped" if isinstance(decision, Skip) else "waiting", "")
        if dry_run:
            return Replayed(event, "started", decision.workflow)
        result = await router.route(envelope, remaining)
        if result.workflow == CATCH_ALL or result.outcome in {"skipped", "caught"}:
            return Replayed(event, "waiting", "")  # its worker went, or it was listed, in between
        await caught.mark_replayed(event, router.clock.now())
    except InterlockError as error:
        return Replayed(event, "failed", "", error)
    return Replayed(event, "started" if result.outcome == "started" else "already_started", result.workflow)
