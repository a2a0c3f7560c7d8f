"""Looking through dead letters, and putting chosen ones back at a chosen pace (R-503)."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, NamedTuple

from domain.dead_letters import DeadLetter, Failure, Selection, read_failure
from domain.errors import InterlockError
from ports.clock import Clock
from ports.dead_letters import DeadLetters

AT_ONCE: Final = 10


class Letter(NamedTuple):
    """A letter and what it says."""

    letter: DeadLetter
    failure: Failure


@dataclass(slots=True)
class RedriveReport:
    """What became of the letters: seen = redriven + failed + chosen (in a rehearsal) + passed over.

    Attributes:
        waiting: how many the queue said there were, before.
        seen: how many were looked at.
        passed_over: those that were not meant.
        chosen: those that a rehearsal would have put back.
        redriven: those that were put back and taken out.
        failed: those that are still here.
    """

    waiting: int
    seen: int = 0
    passed_over: int = 0
    chosen: int = 0
    redriven: int = 0
    failed: int = 0


async def find(letters: DeadLetters, selection: Selection, limit: int) -> AsyncGenerator[Letter, None]:
    """Give up to `limit` letters that are meant, in the order of the queue."""
    found = 0
    async with aclosing(letters.pages()) as pages:
        async for page in pages:
            for letter in page:
                failure = read_failure(letter)
                if selection.takes(letter, failure):
                    yield Letter(letter, failure)
                    found += 1
                    if found >= limit:
                        return


async def redrive(
    letters: DeadLetters,
    selection: Selection,
    clock: Clock,
    *,
    limit: int,
    rate: float,
    rehearse: bool = False,
    told: Callable[[Letter, InterlockError | None], None],
) -> RedriveReport:
    """Put letters back where they came from.

    Args:
        letters: the dead-letter queue.
        selection: which ones.
        clock: waits between them.
        limit: how many at most.
        rate: how many a second at most, on average and within a second.
        rehearse: put nothing back; say only which ones.
        told: called for each letter that was meant, with the reason where it is still here.
    """
    report = RedriveReport(await letters.waiting())
    left = limit
    async with aclosing(letters.pages()) as pages:
        async for page in pages:
            read = [Letter(letter, read_failure(letter)) for letter in page]
            meant = [one for one in read if selection.takes(*one)][:left]
            left -= len(meant)
            report.seen += len(page)
            report.passed_over += len(page) - len(meant)
            if rehearse:
                report.chosen += len(meant)
                for one in meant:
                    told(one, None)
            else:
                await _put_back(letters, meant, rate, clock, report, told)
            if not left:
                break
    return report


async def _put_back(
    letters: DeadLetters,
    meant: list[Letter],
    rate: float,
    clock: Clock,
    report: RedriveReport,
    told: Callable[[Letter, InterlockError | None], None],
) -> None:
    """Put one page's letters back, no more at once than the rate allows within a second."""
    at_once = max(1, min(AT_ONCE, int(rate)))
    for start in range(0, len(meant), at_once):
        some = meant[start : start + at_once]
        errors = await letters.redrive([one.letter for one in some])
        for one, error in zip(some, errors, strict=True):
            report.redriven += error is None
            report.failed += error is not None
            told(one, error)
        await clock.sleep(len(some) / rate)
