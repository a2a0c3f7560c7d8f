import json

import pytest

from application.ingest import Ingested, ingest, record_once
from domain.errors import Invalid, TooLarge, Unavailable
from domain.event import event_ids
from domain.times import format_time
from tests.examples import START, an_envelope
from tests.platforms import WatchedPublisher, WatchedStore, a_machine

pytestmark = pytest.mark.anyio


async def test_r105_a_new_event_is_recorded_and_notified_and_nothing_more() -> None:
    machine = a_machine()
    envelope = an_envelope()
    assert await ingest(machine.platform, [envelope]) == [Ingested("e1", "new")]
    stored = await machine.store.event("e1")
    assert stored is not None
    assert (stored.event_id, stored.entity, stored.arrived_at, stored.envelope) == ("e1", "N14228", START, envelope)
    assert await machine.store.stream("e1") == (None, (), ())
    [message] = await machine.queue.receive(10, 0)
    assert message.group_id == "N14228"
    assert json.loads(message.body) == {"kind": "event_ingested", "event": envelope.attributes()}
    assert machine.metrics.total("ingested_events_total", outcome="new") == 1


async def test_an_event_without_a_time_gets_its_arrival() -> None:
    machine = a_machine()
    await ingest(machine.platform, [an_envelope(time=None), an_envelope("e2")])
    stored = await machine.store.event("e1")
    assert stored is not None
    assert stored.envelope.time == format_time(START)
    bodies = [json.loads(message.body)["event"]["time"] for message in await machine.queue.receive(10, 0)]
    assert bodies == [format_time(START), "2026-01-01T10:00:00Z"]


async def test_r110_a_copy_is_recognised_and_what_was_recorded_first_stands() -> None:
    machine = a_machine()
    first = an_envelope(data="first")
    assert await ingest(machine.platform, [first, first]) == [Ingested("e1", "new"), Ingested("e1", "duplicate")]
    machine.clock.advance(3600)
    assert await ingest(machine.platform, [an_envelope(data="second", entity="other")]) == [Ingested("e1", "duplicate")]
    stored = await machine.store.event("e1")
    assert stored is not None
    assert (stored.envelope, stored.arrived_at) == (first, START)
    reports = await machine.drain()
    assert sum(report.tally["done"] for report in reports) == 1
    assert sum(report.tally["duplicate"] for report in reports) == 1
    assert len((await machine.store.stream("e1")).history) == 1
    assert machine.metrics.total("ingested_events_total", outcome="duplicate") == 2


async def test_sources_that_share_an_id_have_events_of_their_own_whoever_comes_first() -> None:
    """CONTRACTS § 1: an id is unique per source."""
    machine = a_machine()
    mine, yours, theirs = (an_envelope(source=source) for source in ("/mine", "/yours", "/theirs"))
    assert await ingest(machine.platform, [mine]) == [Ingested("e1", "new")]
    answers = await ingest(machine.platform, [yours, theirs, mine, yours])
    assert answers == [
        Ingested(event_ids(yours)[1], "new"),
        Ingested(event_ids(theirs)[1], "new"),
        Ingested("e1", "duplicate"),
        Ingested(event_ids(yours)[1], "duplicate"),
    ]
    await machine.drain()
    for event_id, envelope in (("e1", mine), (event_ids(yours)[1], yours), (event_ids(theirs)[1], theirs)):
        stream = await machine.store.stream(event_id)
        assert stream.head is not None
        assert (stream.head.source, len(stream.history)) == (envelope.source, 1)


async def test_answers_come_in_order_and_one_bad_event_stops_no_other() -> None:
    machine = a_machine()
    answers = await ingest(machine.platform, [an_envelope("a"), an_envelope("b", subject=None), an_envelope("c")])
    assert answers[0] == Ingested("a", "new")
    assert isinstance(answers[1], Invalid)
    assert answers[1].place == "subject"
    assert answers[2] == Ingested("c", "new")
    assert await machine.store.event("b") is None
    assert len(await machine.queue.receive(10, 0)) == 2
    assert machine.metrics.total("ingested_events_total", outcome="rejected") == 1


async def test_fc33_what_the_topic_cannot_carry_is_refused_before_any_side_effect() -> None:
    """FC-33: size is held against every hop's limit before the first write."""
    store, topic = WatchedStore(), WatchedPublisher(max_bytes=400)
    machine = a_machine(store, topic)
    small, large = an_envelope("small", data="x"), an_envelope("large", data="é" * 300)
    [refused] = await ingest(machine.platform, [large])
    assert isinstance(refused, TooLarge)
    assert refused.limit == 400
    assert refused.size > 600
    assert not store.calls["record"]
    assert topic.published in ([], [[]])
    answers = await ingest(machine.platform, [large, small])
    assert isinstance(answers[0], TooLarge)
    assert answers[1] == Ingested("small", "new")
    assert await machine.store.event("large") is None
    assert await machine.store.event("small") is not None


async def test_r105_a_failed_publish_is_told_and_made_good_by_the_copy() -> None:
    """The first delivery may die between the two steps; the copy publishes what was recorded."""
    machine = a_machine()
    broken = WatchedPublisher(refusal=Unavailable("topic", "throttled"))
    half = a_machine(machine.store, broken).platform
    [answer] = await ingest(half, [an_envelope(data="first")])
    assert answer is broken.refusal
    assert await machine.store.event("e1") is not None
    assert await machine.work() == (0, {}, [], {})
    assert await ingest(machine.platform, [an_envelope(data="second")]) == [Ingested("e1", "duplicate")]
    [message] = await machine.queue.receive(1, 0)
    assert json.loads(message.body)["event"]["data"] == "first"


async def test_a_store_that_does_not_answer_accepts_nothing() -> None:
    store, topic = WatchedStore(), WatchedPublisher()
    store.down = {"e1"}
    with pytest.raises(Unavailable):
        await ingest(a_machine(store, topic).platform, [an_envelope("e0"), an_envelope("e1")])
    assert topic.published == []


async def test_nothing_in_is_nothing_out() -> None:
    store = WatchedStore()
    assert await ingest(a_machine(store).platform, []) == []
    assert await record_once(a_machine(store).platform, []) == []
    assert not store.calls
