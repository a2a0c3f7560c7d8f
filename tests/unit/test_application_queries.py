from datetime import timedelta

import pytest

from application.ingest import ingest
from application.move import move
from application.queries import EventView, Page, history, list_events, show
from domain.errors import BadCursor, Invalid, NotFound
from domain.event import DEFAULT_LIMIT, Head, ListQuery, read_cursor
from domain.lifecycle import Move
from tests.examples import START, STATES, a_record, an_envelope, facts_of, head_after
from tests.platforms import Machine, a_machine

pytestmark = pytest.mark.anyio


async def put(machine: Machine, number: int, *, moves: int = 1, entity: str = "N14228") -> Head:
    """Record an event of its own second and move it along."""
    event_id = f"e{number:05}"
    record = a_record(event_id, entity=entity)
    moment = f"2026-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z"
    record = record._replace(envelope=an_envelope(event_id, entity=entity, time=moment))
    await machine.store.record([record])
    facts = facts_of(event_id, moves, entity=entity)
    head = head_after(record, facts[-1])
    await machine.store.append(head, facts)
    return head


async def every_page(machine: Machine, query: ListQuery) -> list[Page]:
    """Follow the cursors to the end."""
    pages = [await list_events(machine.platform, query)]
    while (cursor := pages[-1].next_cursor) is not None:
        pages.append(await list_events(machine.platform, read_cursor(query, cursor)))
    return pages


async def test_an_event_is_unknown_then_pending_then_in_its_first_state() -> None:
    machine = a_machine()
    for query in (show, history):
        with pytest.raises(NotFound) as caught:
            await query(machine.platform, "e1")
        assert caught.value.event_id == "e1"
    await ingest(machine.platform, [an_envelope()])
    occurred_at = START - timedelta(hours=2)
    pending = EventView("e1", "N14228", "FlightDelayed", "/flights/nyc", None, None, occurred_at, 0, ())
    assert await show(machine.platform, "e1") == pending
    assert await history(machine.platform, "e1") == (None, (), ())
    machine.clock.advance(5)
    await machine.drain()
    assert await show(machine.platform, "e1") == pending._replace(
        state="to_review", since=START + timedelta(seconds=5), sequence=1, legal_moves=("open",)
    )
    assert [fact.to_state for fact in (await history(machine.platform, "e1")).history] == ["to_review"]


async def test_fc57_after_a_change_the_single_read_is_up_to_date_and_the_lists_hold_the_event_once() -> None:
    """FC-57: an event of six history items is in the list of its present state and in no other."""
    machine = a_machine()
    await ingest(machine.platform, [an_envelope()])
    await machine.drain()
    for number, to in enumerate(STATES[1:]):
        await move(machine.platform, Move("e1", "", to, "ada", f"c{number}"))
        view = await show(machine.platform, "e1")
        assert (view.state, view.sequence, view.legal_moves) == (to, number + 2, STATES[number + 2 : number + 3])
        listed = {state: await list_events(machine.platform, ListQuery(state=state)) for state in STATES}
        assert [state for state, page in listed.items() for _ in page.items] == [to]
        assert listed[to].items[0].sequence == number + 2
        assert len((await list_events(machine.platform, ListQuery(entity="N14228"))).items) == 1


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("limit", [1, 7, 20, 21, 500])
async def test_r109_pages_joined_are_the_whole_list_in_order(limit: int, *, descending: bool) -> None:
    machine = a_machine()
    heads = [await put(machine, number) for number in range(21)]
    query = ListQuery(state="to_review", limit=limit, descending=descending)
    pages = await every_page(machine, query)
    joined = [head for page in pages for head in page.items]
    assert joined == (heads[::-1] if descending else heads)
    assert [len(page.items) for page in pages[:-1]] == [limit] * (len(pages) - 1)
    assert 1 <= len(pages[-1].items) <= limit


async def test_fc25_an_exactly_full_page_has_no_cursor() -> None:
    machine = a_machine()
    for number in range(100):
        await put(machine, number)
    query = ListQuery(entity="N14228", limit=100)
    full = await list_events(machine.platform, query)
    assert (len(full.items), full.next_cursor) == (100, None)
    await put(machine, 100)
    more = await list_events(machine.platform, query)
    assert len(more.items) == 100
    assert more.next_cursor is not None
    rest = await list_events(machine.platform, read_cursor(query, more.next_cursor))
    assert (len(rest.items), rest.next_cursor) == (1, None)


async def test_fc25_a_filtered_list_finds_three_of_2500_rows_and_none_where_none_match() -> None:
    """FC-25: the limit counts matches, not rows that were read."""
    machine = a_machine()
    matches = {0, 1199, 2499}
    for number in range(2500):
        await put(machine, number, moves=2 if number in matches else 1)
    query = ListQuery(entity="N14228", state="open", limit=100)
    found = await list_events(machine.platform, query)
    assert [int(head.event_id[1:]) for head in found.items] == sorted(matches)
    assert found.next_cursor is None
    assert [len(page.items) for page in await every_page(machine, query._replace(limit=1))] == [1, 1, 1]
    assert await list_events(machine.platform, query._replace(state="closed")) == Page([], None)


async def test_r109_windows_include_both_ends_and_the_default_limit_is_fifty() -> None:
    machine = a_machine()
    heads = [await put(machine, number) for number in range(60)]
    default = await list_events(machine.platform, ListQuery(state="to_review"))
    assert len(default.items) == DEFAULT_LIMIT == 50
    query = ListQuery(state="to_review", earliest=heads[10].occurred_at, latest=heads[20].occurred_at)
    assert (await list_events(machine.platform, query)).items == heads[10:21]
    instant = query._replace(latest=heads[10].occurred_at)
    assert (await list_events(machine.platform, instant)).items == heads[10:11]


async def test_r109_a_list_that_no_index_answers_is_refused() -> None:
    machine = a_machine()
    for query in (ListQuery(), ListQuery(state="lost"), ListQuery(state="open", limit=501)):
        with pytest.raises(Invalid):
            await list_events(machine.platform, query)


async def test_a_cursor_does_not_fit_another_list() -> None:
    machine = a_machine()
    for number in range(3):
        await put(machine, number)
    page = await list_events(machine.platform, ListQuery(state="to_review", limit=1))
    assert page.next_cursor is not None
    with pytest.raises(BadCursor):
        read_cursor(ListQuery(state="open", limit=1), page.next_cursor)
