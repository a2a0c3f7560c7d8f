"""What every store of caught events promises (ports/caught_events.py). Subclass it; provide the `caught` fixture."""

from dataclasses import replace
from datetime import timedelta
from typing import ClassVar

from domain.routing import Caught, catch_all_id
from ports.caught_events import CaughtEvents
from tests.examples import START, an_envelope


def a_caught(event_id: str, event_type: str = "OrderPlaced", **data: object) -> Caught:
    """Give an event that the catch-all recorded."""
    return Caught(
        catch_all_id(event_type, event_id), START, an_envelope(event_id, type=event_type, data=data), f"why {event_id}"
    )


class CaughtEventsContract:
    """One class of tests an adapter."""

    adapter: ClassVar[str]

    async def test_r303_events_come_back_as_they_came_by_type_and_in_order(self, caught: CaughtEvents) -> None:
        assert await caught.types() == []
        assert await caught.of_type("OrderPlaced", "", 10) == []
        events = [a_caught(f"e{number}", nested={"a": [1, 2.5, None, "é😀"]}) for number in range(5)]
        other = a_caught("e0", "odd type, with #signs and 日本")
        for event in [*reversed(events), other]:
            await caught.record(event)
        assert await caught.types() == ["OrderPlaced", other.envelope.type]
        assert await caught.of_type("OrderPlaced", "", 10) == events
        assert await caught.of_type(other.envelope.type, "", 10) == [other]
        assert await caught.of_type("Order", "", 10) == []

    async def test_r303_pages_joined_are_all_events_once(self, caught: CaughtEvents) -> None:
        events = [a_caught(f"e{number:03}") for number in range(23)]
        for event in events:
            await caught.record(event)
        found: list[Caught] = []
        while page := await caught.of_type("OrderPlaced", found[-1].workflow_id if found else "", 5):
            assert len(page) <= 5
            found += page
        assert found == events

    async def test_r303_an_event_that_is_there_stays_as_it_is(self, caught: CaughtEvents) -> None:
        event = a_caught("e1")
        await caught.record(event)
        await caught.record(replace(event, caught_at=START + timedelta(hours=1), why="another"))
        assert await caught.of_type("OrderPlaced", "", 10) == [event]

    async def test_r308_a_replay_is_marked_once_and_outlives_another_record(self, caught: CaughtEvents) -> None:
        event, gone = a_caught("e1"), a_caught("e2")
        await caught.record(event)
        for seconds in (5, 1, 9):
            await caught.mark_replayed(event, START + timedelta(seconds=seconds))
        await caught.mark_replayed(gone, START)
        await caught.record(event)
        assert await caught.of_type("OrderPlaced", "", 10) == [replace(event, replayed_at=START + timedelta(seconds=5))]

    async def test_r303_the_largest_event_is_kept(self, caught: CaughtEvents) -> None:
        event = a_caught("e1", text="é" * (127 * 1024))
        await caught.record(event)
        await caught.record(a_caught("e2"))
        assert (await caught.of_type("OrderPlaced", "", 1)) == [event]
