import json
from datetime import timedelta
from typing import Any

import pytest

from application.consume import BatchReport, apply_batch, ingest_batch
from application.ingest import ingest
from domain.errors import Invalid, NotFound, TooLarge, Unavailable
from domain.event import Missed, RecordedEvent, Stream, event_ids
from domain.messages import Outgoing, Received, ingested_message
from tests.examples import START, an_envelope
from tests.platforms import Machine, WatchedPublisher, WatchedStore, a_machine

pytestmark = pytest.mark.anyio


def received(message_id: str, group_id: str | None, body: str, receive_count: int = 1) -> Received:
    return Received(message_id, group_id, body, f"receipt-{message_id}", receive_count)


def notification(message_id: str, entity: str, receive_count: int = 1) -> Received:
    """Give the notification of an event that is named like its message."""
    body = ingested_message(an_envelope(message_id, entity=entity)).body
    return received(message_id, entity, body, receive_count)


def the_batch(receive_count: int = 1) -> list[Received]:
    return [
        notification(name, entity, receive_count)
        for name, entity in (("m1", "A"), ("m2", "B"), ("m3", "B"), ("m4", "A"))
    ]


async def started(machine: Machine, *event_ids: str) -> list[str]:
    return [event_id for event_id in event_ids if await machine.store.head(event_id) is not None]


def adds_up(report: BatchReport, received: int) -> bool:
    return report.received == received == sum(report.tally.values()) + len(report.returned)


async def test_fc48_m2_and_m3_go_back_and_m4_is_done() -> None:
    """FC-48: m1(A) ok, m2(B) fails, m3(B), m4(A)."""
    store = WatchedStore()
    store.down = {"m2"}
    machine = a_machine(store)
    report = await apply_batch(machine.platform, the_batch(), max_receives=5)
    assert report.returned == ["m2", "m3"]
    assert report.tally == {"done": 2}
    assert list(report.failures) == ["m2"]
    assert isinstance(report.failures["m2"], Unavailable)
    assert adds_up(report, 4)
    assert await started(machine, "m1", "m2", "m3", "m4") == ["m1", "m4"]
    assert machine.metrics.total("consumed_messages_total", outcome="done") == 2
    assert machine.metrics.total("consumed_messages_total", outcome="returned") == 2
    assert (await store.stream("m3")).missed == ()


async def test_fc48_when_all_fail_all_ids_are_returned_and_nothing_is_raised() -> None:
    store = WatchedStore()
    store.down = {"m1", "m2", "m3", "m4"}
    report = await apply_batch(a_machine(store).platform, the_batch(), max_receives=5)
    assert report.returned == ["m1", "m2", "m3", "m4"]
    assert sorted(report.failures) == ["m1", "m2"]
    assert adds_up(report, 4)


async def test_fc48_after_five_failures_m2_is_a_dead_letter_its_group_goes_on_and_the_gap_shows() -> None:
    """FC-48: m3 was received as often as m2; it must not follow it unread (R-107)."""
    store = WatchedStore()
    machine = a_machine(store, max_receives=5)
    entities = {"m1": "A", "m2": "B", "m3": "B", "m4": "A", "m5": "B"}
    await ingest(machine.platform, [an_envelope(name, entity=entity) for name, entity in entities.items()])
    store.down = {"m2"}
    reports = [await machine.work() for _ in range(5)]
    assert [len(report.returned) for report in reports] == [3, 3, 3, 3, 1]
    assert await started(machine, *(name for name in entities if name != "m2")) == ["m1", "m3", "m4", "m5"]
    assert await machine.work() == (0, {}, [], {})
    assert len(machine.queue) == 0
    [dead] = await machine.dead_letters.receive(10, 0)
    assert json.loads(dead.body)["event"]["id"] == "m2"
    store.down = set()
    stream = await store.stream("m2")
    assert stream.head is None
    assert [(miss.to, miss.reason) for miss in stream.missed] == [
        ("to_review", "sent to the dead-letter queue: unavailable")
    ]
    for name in ("m1", "m3", "m4", "m5"):
        assert (await store.stream(name)).missed == ()


@pytest.mark.parametrize("body", ["not JSON", '{"kind":"other"}', "", "\ud800"])
async def test_a_message_that_cannot_be_read_goes_back_until_its_group_goes_on_without_it(body: str) -> None:
    machine = a_machine()
    batch = [received("bad", "A", body), notification("m1", "A"), notification("m2", "B")]
    report = await apply_batch(machine.platform, batch, max_receives=2)
    assert report.returned == ["bad", "m1"]
    assert isinstance(report.failures["bad"], Invalid)
    again = [message._replace(receive_count=2) for message in batch[:2]]
    last = await apply_batch(machine.platform, again, max_receives=2)
    assert last.returned == ["bad"]
    assert last.tally == {"done": 1}
    assert await started(machine, "m1", "m2") == ["m1", "m2"]


async def test_fc48_only_the_last_receive_is_noted() -> None:
    machine = a_machine()
    body = json.dumps(
        {
            "kind": "transition_requested",
            "event_id": "nobody",
            "entity": "A",
            "to": "open",
            "actor": "ada",
            "command_id": "c1",
            "requested_at": "2026-01-01T10:00:00Z",
        }
    )
    for count in (1, 2):
        report = await apply_batch(machine.platform, [received("m1", "A", body, count)], max_receives=3)
        assert isinstance(report.failures["m1"], NotFound)
        assert (await machine.store.stream("nobody")).missed == ()
    await apply_batch(machine.platform, [received("m1", "A", body, 3)], max_receives=3)
    assert (await machine.store.stream("nobody")).missed == (
        Missed("nobody", "c1", "open", START, "sent to the dead-letter queue: not_found"),
    )


class BuggyStore(WatchedStore):
    """A store with a bug of its own, which is no error of our tree."""

    async def stream(self, event_id: str, /) -> Stream:
        if event_id == "m2":
            raise ZeroDivisionError
        return await super().stream(event_id)


async def test_r107_a_bug_in_one_group_stops_no_other() -> None:
    machine = a_machine(BuggyStore())
    report = await apply_batch(machine.platform, the_batch(5), max_receives=5)
    assert report.returned == ["m2"]
    assert isinstance(report.failures["m2"], ZeroDivisionError)
    assert await started(machine, "m1", "m3", "m4") == ["m1", "m3", "m4"]
    assert [miss.reason for miss in machine.store._missed["m2"].values()] == [  # type: ignore[attr-defined]
        "sent to the dead-letter queue: ZeroDivisionError"
    ]


class MuteStore(WatchedStore):
    """A store that cannot even note what was missed."""

    async def note_missed(self, missed: Missed, /) -> None:
        raise Unavailable("event store", f"is down for {missed.event_id}")


async def test_a_dead_letter_that_cannot_be_noted_is_counted() -> None:
    store = MuteStore()
    store.down = {"m2"}
    machine = a_machine(store)
    report = await apply_batch(machine.platform, the_batch(5), max_receives=5)
    assert report.returned == ["m2"]
    assert machine.metrics.total("unnoted_dead_letters_total", code="unavailable") == 1


class SlowStore(WatchedStore):
    """A store that takes ten seconds for each stream."""

    machine: Machine

    async def stream(self, event_id: str, /) -> Stream:
        self.machine.clock.advance(10)
        return await super().stream(event_id)


async def test_what_no_time_is_left_for_goes_back_unread() -> None:
    store = SlowStore()
    store.machine = machine = a_machine(store)
    batch = [notification(f"m{number}", "A") for number in range(4)]
    await ingest(machine.platform, [an_envelope(f"m{number}", entity="A") for number in range(4)])
    report = await apply_batch(machine.platform, batch, max_receives=5, deadline=START + timedelta(seconds=15))
    assert report.tally == {"done": 2}
    assert report.returned == ["m2", "m3"]
    assert report.failures == {}
    none = await apply_batch(a_machine().platform, the_batch(), max_receives=5, deadline=START)
    assert none.returned == ["m1", "m2", "m3", "m4"]


async def test_r110_copies_and_refusals_are_told_apart() -> None:
    machine = a_machine()
    closed = {
        "kind": "transition_requested",
        "event_id": "m1",
        "entity": "A",
        "to": "closed",
        "actor": "ada",
        "command_id": "c1",
        "requested_at": "2026-01-01T10:00:00Z",
    }
    batch = [
        notification("m1", "A"),
        notification("m1", "A")._replace(message_id="copy"),
        received("refused", "A", json.dumps(closed)),
        received("alone", None, ingested_message(an_envelope("alone")).body),
    ]
    report = await apply_batch(machine.platform, batch, max_receives=5)
    assert report.tally == {"done": 2, "duplicate": 1, "rejected": 1}
    assert (report.returned, report.failures) == ([], {})
    assert adds_up(report, 4)


async def test_one_message_twice_in_a_batch_counts_once() -> None:
    machine = a_machine()
    report = await apply_batch(machine.platform, [notification("m1", "A")] * 2, max_receives=5)
    assert report.tally == {"done": 1}
    assert adds_up(report, 1)


async def test_an_empty_batch_is_an_empty_report() -> None:
    machine = a_machine()
    assert await apply_batch(machine.platform, [], max_receives=5) == (0, {}, [], {})
    assert await ingest_batch(machine.platform, []) == (0, {}, [], {})


def feed(message_id: str, group_id: str | None = None, **changes: Any) -> Received:
    """Give a message of the machine feed; its event is named like it."""
    return received(message_id, group_id, json.dumps({**an_envelope(message_id).attributes(), **changes}))


async def test_the_machine_feed_ingests_what_it_can_and_returns_the_rest() -> None:
    machine = a_machine()
    batch = [
        feed("a"),
        feed("b", subject=None),
        received("c", None, "not JSON"),
        received("d", None, '"\ud800"'),
        feed("e", time="2026-01-02T12:00:01Z"),
        received("f", None, "x" * (256 * 1024 + 1)),
        feed("g"),
        received("h", None, feed("a").body),
    ]
    report = await ingest_batch(machine.platform, batch)
    assert report.returned == ["b", "c", "d", "e", "f"]
    assert report.tally == {"done": 2, "duplicate": 1}
    assert {name: type(error) for name, error in report.failures.items()} == {
        "b": Invalid,
        "c": type(report.failures["c"]),
        "d": type(report.failures["c"]),
        "e": Invalid,
        "f": TooLarge,
    }
    assert isinstance(report.failures["c"], Invalid)
    assert adds_up(report, 8)
    assert [event_id for event_id in "abcdefgh" if await machine.store.event(event_id)] == ["a", "g"]


async def test_a_fifo_feed_holds_back_what_follows_a_failure_in_its_group() -> None:
    machine = a_machine()
    batch = [feed("m1", "A"), feed("m2", "B", id=""), feed("m3", "B"), feed("m4", "A")]
    report = await ingest_batch(machine.platform, batch)
    assert report.returned == ["m2", "m3"]
    assert report.tally == {"done": 2}
    assert await machine.store.event("m3") is None


async def test_a_feed_whose_notifications_fail_goes_back_and_is_recognised_next_time() -> None:
    topic = WatchedPublisher(refusal=Unavailable("topic", "throttled"))
    machine = a_machine(publisher=topic)
    report = await ingest_batch(machine.platform, [feed("a"), feed("b")])
    assert report.returned == ["a", "b"]
    assert adds_up(report, 2)
    topic.refusal = None
    again = await ingest_batch(machine.platform, [feed("a"), feed("b")])
    assert again.tally == {"duplicate": 2}


async def test_fc34_groups_and_ids_are_what_sqs_takes_before_any_double_is_asked() -> None:
    """FC-34: our own messages keep AWS's rules whatever an entity is called, so no test leans on a lenient engine."""
    for entity in ("N1", "a b", "é" * 256, "x" * 256, " "):
        message: Outgoing = ingested_message(an_envelope("e" * 128, entity=entity))
        for text in (message.group_id, message.deduplication_id):
            assert 1 <= len(text) <= 128
            assert text.isascii()
            assert text.isprintable()
            assert " " not in text


async def test_a_second_source_is_noted_under_its_second_id() -> None:
    store = WatchedStore()
    machine = a_machine(store)
    mine, yours = an_envelope(source="/mine"), an_envelope(source="/yours")
    second = event_ids(yours)[1]
    await store.record([RecordedEvent("e1", "N14228", START, mine), RecordedEvent(second, "N14228", START, yours)])
    store.down = {second}
    await apply_batch(machine.platform, [received("m1", "A", ingested_message(yours).body, 5)], max_receives=5)
    store.down = set()
    assert (await store.stream("e1")).missed == ()
    assert len((await store.stream(second)).missed) == 1


async def test_fc39_an_id_that_comes_twice_goes_back_when_one_of_the_two_failed() -> None:
    machine = a_machine()
    await started(machine, "e1")
    report = await apply_batch(machine.platform, [notification("m1", "A"), received("m1", "B", "junk")], max_receives=5)
    assert (report.received, dict(report.tally), list(report.returned)) == (1, {}, ["m1"])
