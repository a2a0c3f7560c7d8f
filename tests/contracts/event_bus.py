"""What every event bus promises (ports/event_bus.py). Subclass it and provide the `bus` fixture."""

from dataclasses import dataclass
from typing import ClassVar

from domain.envelope import MAX_EVENT_BYTES, Envelope
from domain.errors import InterlockError, Invalid
from domain.eventbridge import from_eventbridge
from domain.json_reader import read_json
from ports.event_bus import EventBus
from ports.message_queue import MessageQueue
from tests.examples import an_envelope


@dataclass
class Bus:
    """A bus, and a queue that gets everything."""

    publisher: EventBus
    queue: MessageQueue


async def arrivals(bus: Bus, number: int) -> list[Envelope]:
    """Take so many events off the queue, and see that there are no more."""
    found: list[Envelope] = []
    while batch := await bus.queue.receive(10, 5.0 if len(found) < number else 0):
        assert await bus.queue.delete(batch) == []
        for message in batch:
            event = read_json(message.body.encode(), wrapping=1)
            assert isinstance(event, dict)
            found.append(from_eventbridge(event))
    return found


def known(envelope: Envelope) -> dict[str, object]:
    """Give the attributes without those that the bus adds."""
    return {
        name: value for name, value in envelope.attributes().items() if name not in {"account", "region", "resources"}
    }


class EventBusContract:
    """One class of tests an adapter."""

    adapter: ClassVar[str]

    async def test_what_was_published_arrives_whole(self, bus: Bus) -> None:
        events = [
            an_envelope("plain"),
            an_envelope("odd", data={"s": 'é "\\ \n 日本😀 \u2028', "n": [1, -2.5, 1e-7, None, True], "{}": {}}),
            an_envelope("list", data=[1, 2]),
            an_envelope("exact", time="2026-01-01T10:00:00.123456+02:00", traceparent="00-1-2-01"),
            an_envelope("kind", type="order placed"),
        ]
        assert await bus.publisher.publish(events) == [None] * 5
        found = {envelope.id: known(envelope) for envelope in await arrivals(bus, 5)}
        assert found == {event.id: event.attributes() for event in events}

    async def test_nothing_to_publish_is_an_empty_answer(self, bus: Bus) -> None:
        assert await bus.publisher.publish([]) == []
        assert await arrivals(bus, 0) == []

    async def test_more_events_than_one_request_takes_arrive_once_each(self, bus: Bus) -> None:
        events = [an_envelope(f"e{number}") for number in range(25)]
        assert await bus.publisher.publish(events) == [None] * 25
        assert sorted(envelope.id for envelope in await arrivals(bus, 25)) == sorted(event.id for event in events)

    async def test_fc33_events_that_are_larger_together_than_one_request_takes_arrive(self, bus: Bus) -> None:
        text = "x" * (MAX_EVENT_BYTES - 1000)
        events = [an_envelope(f"e{number}", data={"text": text}) for number in range(6)]
        assert await bus.publisher.publish(events) == [None] * 6
        found = await arrivals(bus, 6)
        assert sorted(envelope.id for envelope in found) == [f"e{number}" for number in range(6)]
        assert {len(str(envelope.data)) for envelope in found} == {len(text) + len("{'text': ''}")}

    async def test_fc21_a_refused_event_is_told_and_the_others_arrive(self, bus: Bus) -> None:
        events = [an_envelope("e1"), an_envelope("e2", source="aws.ec2"), an_envelope("e3")]
        first, second, third = await bus.publisher.publish(events)
        assert (first, third) == (None, None)
        assert isinstance(second, Invalid)
        assert isinstance(second, InterlockError)
        assert second.place == "source"
        assert sorted(envelope.id for envelope in await arrivals(bus, 2)) == ["e1", "e3"]

    async def test_fc14_an_event_that_is_published_twice_arrives_twice_under_one_id(self, bus: Bus) -> None:
        event = an_envelope("e1", data={"event_id": "r-7"})
        assert await bus.publisher.publish([event, event]) == [None, None]
        assert [envelope.id for envelope in await arrivals(bus, 2)] == ["e1", "e1"]
