"""What every event store promises (ports/event_store.py). Subclass it and provide the `store` fixture."""

import asyncio
from datetime import timedelta
from typing import ClassVar

import pytest

from domain.errors import NotFound, VersionConflict
from domain.event import Head, ListQuery, Missed, Position
from domain.lifecycle import Transition, fold
from ports.event_store import EventStore
from tests.examples import START, a_record, an_envelope, facts_of, head_after

pytestmark = pytest.mark.anyio


async def put(store: EventStore, event_id: str, moves: int = 1, entity: str = "N14228") -> Head:
    """Record an event and append its first facts, one by one."""
    record = a_record(event_id, entity=entity)
    await store.record([record])
    facts = facts_of(event_id, moves, entity=record.entity)
    for fact in facts:
        await store.append(head_after(record, fact), [fact])
    return head_after(record, facts[-1])


async def every_page(store: EventStore, query: ListQuery) -> list[Head]:
    """Follow a list page by page to its end."""
    found: list[Head] = []
    while page := await store.list_heads(query):
        assert len(page) <= query.limit
        found += page
        query = query._replace(after=Position(page[-1].occurred_at, page[-1].event_id))
    return found


class EventStoreContract:
    """One class of tests an adapter."""

    adapter: ClassVar[str]

    async def test_records_an_event_once_and_answers_with_what_is_stored(self, store: EventStore) -> None:
        first = a_record("e1")
        assert await store.record([first]) == [first]
        copy = a_record("e1", arrived_at=START + timedelta(hours=1))._replace(envelope=an_envelope("e1", data="other"))
        assert await store.record([copy]) == [first]
        assert await store.event("e1") == first

    async def test_records_many_in_order_some_old_some_twice_in_one_call(self, store: EventStore) -> None:
        old = a_record("e3")
        await store.record([old])
        late = START + timedelta(hours=1)
        asked = [a_record(f"e{number % 130}", arrived_at=late) for number in range(140)]
        answers = await store.record(asked)
        assert [answer.event_id for answer in answers] == [event.event_id for event in asked]
        assert answers[3] == old
        assert answers[5].arrived_at == late
        assert answers[135] == answers[5]
        assert await store.record([]) == []

    async def test_fc28_gives_back_the_same_json(self, store: EventStore) -> None:
        data = {"a": 30.40, "b": 0.1 + 0.2, "c": 1e-7, "d": 10**15, "e": True, "f": "", "g": [], "h": {}, "i": None}
        record = a_record("numbers")._replace(
            envelope=an_envelope("numbers", data=data, traceparent="00-1", resources=["x"])
        )
        await store.record([record])
        found = await store.event("numbers")
        assert found is not None
        assert found.envelope.to_json() == record.envelope.to_json()
        assert isinstance(found.envelope.data, dict)
        assert type(found.envelope.data["d"]) is int
        assert found.envelope.data["e"] is True

    async def test_unknown_events_are_empty_not_errors(self, store: EventStore) -> None:
        assert await store.event("nobody") is None
        assert await store.head("nobody") is None
        assert await store.stream("nobody") == (None, (), ())
        assert await store.list_heads(ListQuery(state="open")) == []
        assert await store.list_heads(ListQuery(entity="nobody")) == []

    async def test_r103_history_comes_back_whole_and_in_order(self, store: EventStore) -> None:
        head = await put(store, "e1", 5)
        found = await store.stream("e1")
        assert found.head == head == await store.head("e1")
        assert list(found.history) == facts_of("e1", 5)
        assert fold(found.history).state == "closed"

    async def test_r103_two_changes_in_one_microsecond_both_survive(self, store: EventStore) -> None:
        record = a_record("e1")
        await store.record([record])
        facts = [fact._replace(at=START) for fact in facts_of("e1", 3)]
        for fact in facts:
            await store.append(head_after(record, fact), [fact])
        assert list((await store.stream("e1")).history) == facts

    async def test_appends_several_facts_at_once(self, store: EventStore) -> None:
        record = a_record("e1")
        await store.record([record])
        facts = facts_of("e1", 4)
        await store.append(head_after(record, facts[3]), facts)
        assert list((await store.stream("e1")).history) == facts

    async def test_r104_refuses_a_writer_that_saw_an_older_head_and_writes_nothing(self, store: EventStore) -> None:
        await put(store, "e1", 2)
        late = facts_of("e1", 2)[1]._replace(command_id="late", at=START + timedelta(days=1))
        with pytest.raises(VersionConflict) as caught:
            await store.append(head_after(a_record("e1"), late), [late])
        assert (caught.value.event_id, caught.value.expected) == ("e1", 1)
        early = facts_of("e1", 4)[3]
        with pytest.raises(VersionConflict):
            await store.append(head_after(a_record("e1"), early), [early])
        first = facts_of("e1", 1)[0]
        with pytest.raises(VersionConflict):
            await store.append(head_after(a_record("e1"), first), [first])
        found = await store.stream("e1")
        assert list(found.history) == facts_of("e1", 2)
        assert found.head is not None
        assert found.head.sequence == 2

    async def test_first_fact_needs_the_recorded_event_of_that_source(self, store: EventStore) -> None:
        fact = facts_of("e1", 1)[0]
        with pytest.raises(NotFound):
            await store.append(head_after(a_record("e1"), fact), [fact])
        await store.record([a_record("e1")])
        stranger = a_record("e1", source="/elsewhere")
        with pytest.raises(NotFound):
            await store.append(head_after(stranger, fact), [fact])
        assert await store.stream("e1") == (None, (), ())

    async def test_fc48_missed_moves_are_noted_once_beside_the_history(self, store: EventStore) -> None:
        missed = Missed("e1", "command-x", "closed", START + timedelta(microseconds=5), "sent to the dead-letter queue")
        await store.note_missed(missed)
        await store.note_missed(missed._replace(at=START + timedelta(hours=1), reason="again"))
        odd = Missed("e1", "ü#/" * 80, "open", START + timedelta(seconds=9), "refused")
        await store.note_missed(odd)
        assert await store.stream("e1") == (None, (), (missed, odd))
        head = await put(store, "e1", 2)
        found = await store.stream("e1")
        assert found.head == head
        assert len(found.history) == 2
        assert list(found.missed) == [missed, odd]

    async def test_fc57_an_event_is_in_the_list_of_its_present_state_only(self, store: EventStore) -> None:
        head = await put(store, "e1", 3)
        assert await store.list_heads(ListQuery(state="scheduled")) == [head]
        for state in ("to_review", "open", "under_watch", "closed"):
            assert await store.list_heads(ListQuery(state=state)) == []
        assert await store.list_heads(ListQuery(entity="N14228")) == [head]

    async def test_r109_lists_by_state_entity_window_and_all_of_them(self, store: EventStore) -> None:
        heads = {}
        for number in range(12):
            event_id = f"e{number:02}"
            envelope = an_envelope(event_id, entity=f"N{number % 3}", time=f"2026-01-01T10:{number:02}:00Z")
            record = a_record(event_id)._replace(entity=envelope.subject or "", envelope=envelope)
            await store.record([record])
            facts = facts_of(event_id, 1 + number % 2, entity=record.entity)
            await store.append(head_after(record, facts[-1]), facts)
            heads[number] = head_after(record, facts[-1])

        async def listed(**query: object) -> list[int]:
            found = await store.list_heads(ListQuery(**query))  # type: ignore[arg-type]
            for head in found:
                assert head == heads[int(head.event_id[1:])]
            return [int(head.event_id[1:]) for head in found]

        assert await listed(state="to_review") == [0, 2, 4, 6, 8, 10]
        assert await listed(state="open", descending=True) == [11, 9, 7, 5, 3, 1]
        assert await listed(entity="N1") == [1, 4, 7, 10]
        assert await listed(entity="N1", state="open") == [1, 7]
        first, last = heads[2].occurred_at, heads[8].occurred_at
        assert await listed(state="to_review", earliest=first, latest=last) == [2, 4, 6, 8]
        assert await listed(entity="N2", earliest=first, latest=last, descending=True) == [8, 5, 2]
        assert await listed(state="to_review", earliest=first + timedelta(microseconds=1), latest=last) == [4, 6, 8]
        assert await listed(state="to_review", limit=2) == [0, 2]
        assert await listed(entity="N0", state="open", limit=1, descending=True) == [9]

    @pytest.mark.parametrize("descending", [False, True])
    @pytest.mark.parametrize("limit", [1, 3, 7, 100])
    async def test_pages_joined_are_all_rows_once_with_equal_times(
        self, store: EventStore, limit: int, *, descending: bool
    ) -> None:
        for number in range(14):
            event_id = f"e{number:02}"
            envelope = an_envelope(event_id, time=f"2026-01-01T10:00:{number // 5:02}Z")
            record = a_record(event_id)._replace(envelope=envelope)
            await store.record([record])
            fact = facts_of(event_id, 1)[0]
            await store.append(head_after(record, fact), [fact])
        expected = sorted((f"e{number:02}" for number in range(14)), reverse=descending)
        for query in (ListQuery(state="to_review"), ListQuery(entity="N14228")):
            found = await every_page(store, query._replace(limit=limit, descending=descending))
            assert [head.event_id for head in found] == expected

    async def test_odd_ids_and_entities_are_kept_apart(self, store: EventStore) -> None:
        ids = ["a", "a#b", "a/b", "é", "日本😀", " ", "~head", "#event", "x" * 128, "a%2Fb"]
        for number, event_id in enumerate(ids):
            await put(store, event_id, 1 + number % 3, entity=f"{event_id}!")
        for number, event_id in enumerate(ids):
            found = await store.stream(event_id)
            assert [fact.event_id for fact in found.history] == [event_id] * (1 + number % 3)
            assert [head.event_id for head in await store.list_heads(ListQuery(entity=f"{event_id}!"))] == [event_id]


class ConcurrentEventStoreContract:
    """What crossing writers may rely on (R-104). For engines whose transactions are isolated."""

    async def test_r104_sixteen_writers_on_one_event_one_wins_each_step(self, store: EventStore) -> None:
        record = a_record("e1")
        await store.record([record])
        wins: list[tuple[int, int]] = []

        async def writer(number: int) -> None:
            for fact in facts_of("e1", 5):
                mine: Transition = fact._replace(actor=f"writer-{number}", command_id=f"{number}-{fact.sequence}")
                try:
                    await store.append(head_after(record, mine), [mine])
                except VersionConflict:
                    continue
                wins.append((mine.sequence, number))

        async with asyncio.TaskGroup() as tasks:
            for number in range(16):
                tasks.create_task(writer(number))
        found = await store.stream("e1")
        assert [sequence for sequence, _ in sorted(wins)] == list(range(1, len(wins) + 1))
        assert [(fact.sequence, fact.actor) for fact in found.history] == [(s, f"writer-{n}") for s, n in sorted(wins)]
        assert found.head is not None
        assert found.head.sequence == len(wins)
        fold(found.history)

    async def test_of_many_recorders_of_one_id_all_get_the_same_answer(self, store: EventStore) -> None:
        asked = [a_record("e1", arrived_at=START + timedelta(seconds=number)) for number in range(16)]
        async with asyncio.TaskGroup() as tasks:
            answers = [tasks.create_task(store.record([event])) for event in asked]
        stored = await store.event("e1")
        assert stored in asked
        assert [answer.result() for answer in answers] == [[stored]] * 16
