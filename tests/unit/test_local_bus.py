"""On one machine, what is ingested becomes activity before it is published (R-401)."""

import pytest

from adapters.memory.activity_store import MemoryActivityStore
from application.ingest import Ingested, ingest
from domain.activity import Activity, Stretch
from domain.errors import Unavailable
from domain.messages import TransitionRequested, requested_message
from entrypoints.local_bus import LOCAL_ACCOUNT, LocalBus
from tests.activity import a_feed, a_query
from tests.examples import an_envelope
from tests.platforms import WatchedPublisher, a_machine

pytestmark = pytest.mark.anyio


async def rows(store: MemoryActivityStore, account: str = LOCAL_ACCOUNT) -> list[Activity]:
    return list((await store.find(Stretch(a_query(account=account), None, 100, 100))).activities)


async def test_r401_what_is_ingested_is_recorded_once_and_published_each_time() -> None:
    store, topic = MemoryActivityStore(), WatchedPublisher()
    machine = a_machine(publisher=LocalBus(topic, a_feed(store)))
    envelopes = [an_envelope("e1"), an_envelope("e2", data={"account": "acme"})]
    for _ in range(2):
        answers = await ingest(machine.platform, envelopes)
        assert all(isinstance(answer, Ingested) for answer in answers)
    assert [row.type for row in await rows(store)] == ["FlightDelayed"]
    assert len(await rows(store, "acme")) == 1
    assert [len(call) for call in topic.published] == [2, 2]


async def test_an_event_that_cannot_be_recorded_is_not_published_and_comes_again() -> None:
    class Down(MemoryActivityStore):
        down = True

        async def record(self, activities: object, /) -> list[bool]:
            if self.down:
                raise Unavailable("the activity store", "is down")
            return await super().record(activities)  # type: ignore[arg-type]

    store, topic = Down(), WatchedPublisher()
    machine = a_machine(publisher=LocalBus(topic, a_feed(store)))
    with pytest.raises(Unavailable):
        await ingest(machine.platform, [an_envelope("e1")])
    assert topic.published == []
    store.down = False
    [answer] = await ingest(machine.platform, [an_envelope("e1")])
    assert isinstance(answer, Ingested)
    assert len(await rows(store)) == len(topic.published) == 1


async def test_requests_for_moves_are_no_activity() -> None:
    store, topic = MemoryActivityStore(), WatchedPublisher()
    bus = LocalBus(topic, a_feed(store))
    request = TransitionRequested(
        event_id="e1", entity="A", to="open", actor="ada", command_id="c", requested_at="2026-01-01T12:00:00Z"
    )
    assert await bus.publish([requested_message(request)]) == [None]
    assert await rows(store) == []
    assert bus.max_bytes == topic.max_bytes
