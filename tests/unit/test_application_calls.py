"""Each use case costs the calls that it needs and no more (issue: history and lists read no more than the page)."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from application.consume import apply_batch
from application.ingest import ingest
from application.move import apply_message, move
from application.platform import Platform
from application.queries import history, list_events, show
from domain.errors import MoveRejected
from domain.event import ListQuery, read_cursor
from domain.lifecycle import Move
from domain.messages import EventIngested, Received, ingested_message
from tests.examples import an_envelope
from tests.platforms import Machine, WatchedPublisher, WatchedStore, a_machine

pytestmark = pytest.mark.anyio


async def calls_of(store: WatchedStore, work: Callable[[], Awaitable[object]]) -> dict[str, int]:
    """Count the store's calls during some work."""
    before = store.calls.copy()
    await work()
    return dict(store.calls - before)


@pytest.fixture
def store() -> WatchedStore:
    return WatchedStore()


@pytest.fixture
def topic() -> WatchedPublisher:
    return WatchedPublisher()


@pytest.fixture
def machine(store: WatchedStore, topic: WatchedPublisher) -> Machine:
    return a_machine(store, topic)


@pytest.fixture
async def platform(machine: Machine) -> Platform:
    """A platform with ten started events."""
    envelopes = [an_envelope(f"e{number}") for number in range(10)]
    await ingest(machine.platform, envelopes)
    for envelope in envelopes:
        await apply_message(machine.platform, EventIngested(envelope))
    return machine.platform


@pytest.mark.parametrize("number", [1, 10, 500])
async def test_r105_ingestion_is_one_conditional_write_and_one_publish(
    machine: Machine, store: WatchedStore, topic: WatchedPublisher, number: int
) -> None:
    envelopes = [an_envelope(f"e{index}") for index in range(number)]
    assert await calls_of(store, lambda: ingest(machine.platform, envelopes)) == {"record": 1}
    assert [len(messages) for messages in topic.published] == [number]
    assert await calls_of(store, lambda: ingest(machine.platform, envelopes)) == {"record": 1}
    assert [len(messages) for messages in topic.published] == [number, number]


async def test_ids_of_two_sources_that_meet_cost_one_more_write(
    platform: Platform, store: WatchedStore, topic: WatchedPublisher
) -> None:
    topic.published.clear()
    others = [an_envelope(f"e{index}", source="/other") for index in range(10)]
    assert await calls_of(store, lambda: ingest(platform, others)) == {"record": 2}
    assert len(topic.published) == 1


async def test_a_move_is_one_query_and_one_transaction(platform: Platform, store: WatchedStore) -> None:
    command = Move("e1", "", "open", "ada", "c1")
    assert await calls_of(store, lambda: move(platform, command)) == {"stream": 1, "append": 1}
    assert await calls_of(store, lambda: move(platform, command)) == {"stream": 1}

    async def refused() -> None:
        with pytest.raises(MoveRejected):
            await move(platform, Move("e1", "", "closed", "ada", "c2"))

    assert await calls_of(store, refused) == {"stream": 1}


async def test_a_notification_is_one_query_and_one_transaction(platform: Platform, store: WatchedStore) -> None:
    await ingest(platform, [an_envelope("new")])
    message = Received("m1", "N14228", ingested_message(an_envelope("new")).body, "receipt", 1)
    for expected in ({"stream": 1, "append": 1}, {"stream": 1}):
        assert await calls_of(store, lambda: apply_batch(platform, [message], max_receives=5)) == expected


async def test_r103_history_is_one_query(platform: Platform, store: WatchedStore) -> None:
    assert await calls_of(store, lambda: history(platform, "e1")) == {"stream": 1}


async def test_r109_a_page_is_one_query_whatever_it_holds(platform: Platform, store: WatchedStore) -> None:
    for query in (ListQuery(state="to_review"), ListQuery(entity="N14228", state="closed"), ListQuery(entity="none")):
        assert await calls_of(store, partial(list_events, platform, query)) == {"list_heads": 1}
    query = ListQuery(state="to_review", limit=3)
    page = await list_events(platform, query)
    assert page.next_cursor is not None
    following = read_cursor(query, page.next_cursor)
    assert await calls_of(store, lambda: list_events(platform, following)) == {"list_heads": 1}
    assert store.limits == [51, 51, 51, 4, 4]  # one row more than the page, to know whether there is a next one


async def test_showing_an_event_is_one_read_of_its_head(platform: Platform, store: WatchedStore) -> None:
    assert await calls_of(store, lambda: show(platform, "e1")) == {"head": 1}
    await ingest(platform, [an_envelope("pending")])
    assert await calls_of(store, lambda: show(platform, "pending")) == {"head": 1, "event": 1}
    assert await calls_of(store, lambda: history(platform, "pending")) == {"stream": 1, "event": 1}
