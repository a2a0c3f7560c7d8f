"""What every clock promises (ports/clock.py). Subclass it and provide the `clock` fixture."""

from datetime import timedelta
from typing import ClassVar

from domain.times import format_time, parse_time
from ports.clock import Clock


class ClockContract:
    """One class of tests an adapter."""

    adapter: ClassVar[str]

    def test_the_time_is_in_utc_and_in_the_years_that_are_stored(self, clock: Clock) -> None:
        now = clock.now()
        assert now.utcoffset() == timedelta(0)
        assert parse_time(format_time(now)) == now

    async def test_sleeping_lets_at_least_that_much_time_pass(self, clock: Clock) -> None:
        before = clock.now()
        await clock.sleep(0.02)
        # A machine's wall clock and the timer of its event loop differ by some microseconds.
        assert clock.now() - before >= timedelta(seconds=0.019)

    async def test_not_sleeping_is_allowed(self, clock: Clock) -> None:
        before = clock.now()
        await clock.sleep(0)
        assert before <= clock.now() < before + timedelta(seconds=1)
