"""Recording once, and reading completely, within bounds, redacted (R-401 to R-404, FC-25, FC-28, FC-33)."""

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta

import pytest
from pydantic import JsonValue

from adapters.memory.activity_store import MemoryActivityStore
from adapters.memory.object_store import MemoryObjectStore
from application.activity import record
from application.activity_history import MISSING, MOST_ROWS, Bounds
from domain.activity import Activity, Found, Place, Pointer, Sealed, Stretch
from domain.errors import BadCursor, Invalid, Unavailable
from tests.activity import BOUNDS, WatchedFeed, a_feed, a_history, a_query, a_row
from tests.examples import START, an_envelope

pytestmark = pytest.mark.anyio

OUTCOMES = ("recorded", "duplicate", "rejected")


class WatchedStore(MemoryActivityStore):
    """A store that counts its calls, and gives way to other tasks before each.

    Attributes:
        stretches: what it was asked to look through.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stretches: list[Stretch] = []

    async def find(self, stretch: Stretch, /) -> Found:
        self.stretches.append(stretch)
        await asyncio.sleep(0)
        return await super().find(stretch)


async def filled(rows: Sequence[Activity]) -> tuple[WatchedStore, WatchedFeed]:
    store = WatchedStore()
    await store.record(rows)
    return store, a_feed(store)


async def every_page(feed: WatchedFeed, bounds: Bounds = BOUNDS, **query: object) -> list[list[JsonValue]]:
    """Give the numbers of events, page by page."""
    history, pages, cursor = a_history(feed, bounds=bounds), [], None
    while True:
        page = await history.page(a_query(**query), cursor)
        pages.append([item["data"]["number"] for item in page.items])  # type: ignore[index,call-overload]
        cursor = page.next_cursor
        if cursor is None:
            return pages


@pytest.mark.parametrize("descending", [False, True])
async def test_fc25_2500_rows_three_matches_far_apart_are_one_page(*, descending: bool) -> None:
    matching = (0, 1199, 2499)
    store, feed = await filled([a_row(n, type="rare" if n in matching else "often") for n in range(2500)])
    pages = await every_page(feed, type="rare", limit=100, descending=descending)
    assert pages == [sorted(matching, reverse=descending)]
    looked_at = [stretch.rows for stretch in store.stretches]
    assert looked_at == [101, 202, 404, 808, 1616]


@pytest.mark.parametrize("descending", [False, True])
async def test_fc25_no_match_is_an_empty_page_without_a_cursor(*, descending: bool) -> None:
    _, feed = await filled([a_row(n) for n in range(2500)])
    assert await every_page(feed, type="none", limit=100, descending=descending) == [[]]
    assert await every_page(feed, account="nobody", descending=descending) == [[]]


@pytest.mark.parametrize("descending", [False, True])
async def test_fc25_exactly_a_page_has_no_phantom_after_it(*, descending: bool) -> None:
    store, feed = await filled([a_row(n) for n in range(100)])
    assert [len(page) for page in await every_page(feed, limit=100, descending=descending)] == [100]
    assert len(store.stretches) == 1
    assert [len(page) for page in await every_page(feed, limit=50, descending=descending)] == [50, 50]
    assert [len(page) for page in await every_page(feed, limit=99, descending=descending)] == [99, 1]


async def test_fc25_an_exact_page_of_matches_among_others_has_no_phantom() -> None:
    _, feed = await filled([a_row(n, type="rare" if n < 100 else "often") for n in range(2500)])
    assert [len(page) for page in await every_page(feed, type="rare", limit=100)] == [100]
    assert [len(page) for page in await every_page(feed, type="rare", limit=100, descending=True)] == [100]


async def test_fc25_an_empty_or_short_answer_of_the_store_is_not_the_end() -> None:
    class Sparse(WatchedStore):
        """A store that looks at one row a call, whatever it was told."""

        async def find(self, stretch: Stretch, /) -> Found:
            return await super().find(stretch._replace(rows=1))

    store = Sparse()
    await store.record([a_row(n, type="rare" if n % 40 == 39 else "often") for n in range(120)])
    assert await every_page(a_feed(store), type="rare", limit=2) == [[39, 79], [119]]
    assert len(store.stretches) > 120


async def test_a_call_that_would_take_too_long_ends_with_an_honest_cursor() -> None:
    """Its page may be empty, and still nothing is lost and nothing comes twice."""
    store, feed = await filled([a_row(n, type="rare" if n in {700, 2499} else "often") for n in range(2500)])
    bounds = Bounds(reads=3)
    pages = await every_page(feed, bounds, type="rare", limit=50)
    assert [row for page in pages for row in page] == [700, 2499]
    assert pages[0] == []
    assert len(store.stretches) <= 3 * len(pages)
    assert feed.metrics.total("activity_pages_total", outcome="cut") == len(pages) - 1


async def test_reads_grow_no_further_than_a_bound() -> None:
    store, feed = await filled([a_row(n) for n in range(20_000)])
    assert await every_page(feed, type="none", limit=500) == [[]]
    looked_at = [stretch.rows for stretch in store.stretches]
    assert looked_at[:4] == [501, 1002, 2004, 4008]
    assert set(looked_at[4:]) == {MOST_ROWS}


async def test_fc33_a_page_of_many_bytes_ends_early_with_a_cursor() -> None:
    _, feed = await filled([a_row(n, note="x" * 1000) for n in range(25)])
    pages = await every_page(feed, Bounds(page_bytes=10_000), limit=20)
    assert [row for page in pages for row in page] == list(range(25))
    assert {len(page) for page in pages[:-1]} == {8}
    history = a_history(feed, bounds=Bounds(page_bytes=10_000))
    for item in (await history.page(a_query(limit=20))).items:
        assert len(json.dumps(item)) * 8 <= 10_000
    assert [len(page) for page in await every_page(feed, Bounds(page_bytes=10), limit=20)] == [1] * 25


async def test_r404_cursors_are_made_from_the_last_row_handed_out() -> None:
    """Rows that come and go between two calls change nothing for the rows that stay."""
    store, feed = await filled([a_row(n) for n in range(0, 20, 2)])
    history = a_history(feed)
    first = await history.page(a_query(limit=3))
    await store.record([a_row(n) for n in (1, 3, 5, 19)])
    second = await history.page(a_query(limit=50), first.next_cursor)
    assert [item["data"]["number"] for item in second.items] == [5, 6, 8, 10, 12, 14, 16, 18, 19]  # type: ignore[index,call-overload]


async def test_r404_bad_foreign_and_stale_cursors_are_refused() -> None:
    _, feed = await filled([a_row(n) for n in range(10)] + [a_row(n, account="other") for n in range(10, 20)])
    history = a_history(feed)
    cursor = (await history.page(a_query(limit=3))).next_cursor
    assert cursor is not None
    assert (await history.page(a_query(limit=5), cursor)).items
    for query in (
        a_query(account="other"),
        a_query(type="T"),
        a_query(report_id="R"),
        a_query(earliest=START),
        a_query(latest=START),
        a_query(descending=True),
    ):
        with pytest.raises(BadCursor):
            await history.page(query, cursor)
    for text in ("", "no", cursor[:-1], cursor + "A", cursor.swapcase()):
        with pytest.raises(BadCursor):
            await history.page(a_query(), text)
    feed.clock.advance(timedelta(days=8).total_seconds())
    with pytest.raises(BadCursor):
        await history.page(a_query(), cursor)


async def test_without_keys_the_store_keeps_one_for_all_readers() -> None:
    _, feed = await filled([a_row(n) for n in range(10)])
    cursor = (await a_history(feed, keys=None).page(a_query(limit=3))).next_cursor
    assert len((await a_history(feed, keys=None).page(a_query(limit=50), cursor)).items) == 7
    with pytest.raises(BadCursor):
        await a_history(feed).page(a_query(), cursor)


async def test_r401_records_once_and_says_so_of_each() -> None:
    feed = a_feed(MemoryActivityStore())
    good = an_envelope("e1", data={"account": "acme", "number": 1})
    answers = await record(
        feed,
        [
            good,
            an_envelope("e2"),
            good,
            an_envelope("e3", account="acme"),
            an_envelope("e4", time="2026-02-01T00:00:00Z"),
        ],
        account=None,
    )
    assert [answer if isinstance(answer, str) else answer.place for answer in answers] == [
        *("recorded", "account", "duplicate", "recorded", "account")
    ]
    assert isinstance(answers[1], Invalid)
    assert await record(feed, [good]) == ["duplicate"]
    assert await record(feed, [an_envelope("e2")], account="acme") == ["recorded"]
    assert await record(feed, []) == []
    totals = {name: feed.metrics.total("activity_events_total", outcome=name) for name in OUTCOMES}
    assert totals == {"recorded": 3, "duplicate": 2, "rejected": 2}
    page = await a_history(feed).page(a_query())
    assert {str(item["id"]) for item in page.items} == {"e1", "e2", "e3"}


async def test_fc28_json_comes_back_as_equal_json() -> None:
    feed = a_feed(MemoryActivityStore())
    data: JsonValue = {
        "account": "acme",
        "a": 30.40,
        "b": 0.1 + 0.2,
        "c": 1e-7,
        "d": 10**15,
        "e": True,
        "f": "",
        "g": [],
    }
    await record(feed, [an_envelope("e1", data=data, traceparent="00-1")])
    [item] = (await a_history(feed).page(a_query())).items
    assert json.dumps(item["data"]) == json.dumps(data)
    assert item == {
        "specversion": "1.0",
        "id": "e1",
        "source": "/flights/nyc",
        "type": "FlightDelayed",
        "subject": "N14228",
        "time": "2026-01-01T10:00:00.000000Z",
        "traceparent": "00-1",
        "data": data,
    }


async def test_an_event_without_data_has_none() -> None:
    feed = a_feed(MemoryActivityStore())
    bare = an_envelope("e1", account="acme").attributes()
    del bare["data"]
    await record(feed, [an_envelope("e2", account="acme", data=None), type(an_envelope()).model_validate(bare)])
    items = {item["id"]: item for item in (await a_history(feed).page(a_query())).items}
    assert "data" not in items["e1"]
    assert items["e2"]["data"] is None


@pytest.mark.parametrize("size", [1000, 70_000, 409_600, 411_000, 600_000])
async def test_fc33_a_large_event_is_kept_elsewhere_and_comes_back_whole(size: int) -> None:
    payloads = MemoryObjectStore()
    feed = a_feed(MemoryActivityStore(), payloads, inline_bytes=65_536)
    text = "é" * (size // 2)
    envelope = type(an_envelope()).model_validate(
        an_envelope("e1").attributes() | {"data": {"account": "acme", "text": text}}
    )
    assert await record(feed, [envelope, envelope]) == ["recorded", "duplicate"]
    found = await feed.store.find(Stretch(a_query(), None, 1, 1))
    if size < 65_536:
        assert isinstance(found.activities[0].payload, Sealed)
    else:
        pointer = found.activities[0].payload
        assert isinstance(pointer, Pointer)
        assert pointer.size == len(envelope.to_json().encode())
        assert await payloads.get(pointer.key) == envelope.to_json().encode()
    [item] = (await a_history(feed).page(a_query())).items
    assert item["data"] == {"account": "acme", "text": text}


async def test_an_event_of_just_the_inline_size_stays_in_its_row() -> None:
    envelope = an_envelope("e1", data={"account": "acme"})
    size = len(envelope.to_json().encode())
    for limit, kind in ((size, Sealed), (size - 1, Pointer)):
        feed = a_feed(MemoryActivityStore(), inline_bytes=limit)
        await record(feed, [envelope])
        found = await feed.store.find(Stretch(a_query(), None, 1, 1))
        assert isinstance(found.activities[0].payload, kind)


async def test_fc33_a_row_is_written_only_after_its_payload() -> None:
    class Down(MemoryObjectStore):
        async def put(self, key: str, content: bytes, /) -> bool:
            raise Unavailable(f"the store of {key.partition('/')[0]}", f"no room for {len(content)} bytes")

    feed = a_feed(MemoryActivityStore(), Down(), inline_bytes=10)
    with pytest.raises(Unavailable):
        await record(feed, [an_envelope("e1", account="acme")])
    assert (await feed.store.find(Stretch(a_query(), None, 1, 1))).activities == []


@pytest.mark.parametrize("fault", ["gone", "changed", "no store"])
async def test_an_event_whose_payload_is_gone_is_shown_as_that_and_hides_no_other(fault: str) -> None:
    payloads = MemoryObjectStore()
    feed = a_feed(MemoryActivityStore(), payloads, inline_bytes=10)
    await record(feed, [an_envelope(f"e{n}", account="acme", time=f"2026-01-01T10:00:0{n}Z") for n in range(3)])
    second = (await feed.store.find(Stretch(a_query(), None, 3, 3))).activities[1].payload
    assert isinstance(second, Pointer)
    if fault == "changed":
        payloads._objects[second.key] = b'{"data": "somebody else\'s"}'
    else:
        del payloads._objects[second.key]
    items = (await a_history(feed).page(a_query())).items
    assert [item.get("id") for item in items] == ["e0", None, "e2"]
    assert items[1] == {
        "specversion": "1.0",
        "type": "FlightDelayed",
        "time": "2026-01-01T10:00:01.000000Z",
        MISSING: True,
    }


async def test_fc29_reading_redacts_attributes_and_data_and_leaves_the_store_as_it_is() -> None:
    feed = a_feed(MemoryActivityStore())
    envelope = an_envelope(
        "e1",
        source="https://bot:s0-password@example.com/",
        entity="p@example.com",
        token="s1-token",
        data={"account": "acme", "items": [{"email": "p@example.com"}], "x-api-key": "s2-key", "tokenizer": "bpe"},
    )
    await record(feed, [envelope])
    [item] = (await a_history(feed).page(a_query())).items
    text = json.dumps(item)
    for secret in ("s0-password", "p@example.com", "s1-token", "s2-key"):
        assert secret not in text
    assert item["data"]["tokenizer"] == "bpe"  # type: ignore[index,call-overload]
    assert item["data"]["account"] == "acme"  # type: ignore[index,call-overload]
    found = await feed.store.find(Stretch(a_query(), None, 1, 1))
    assert found.activities[0].payload == Sealed(envelope.to_json())


async def test_r403_binary_data_which_nobody_can_look_into_is_emptied() -> None:
    feed = a_feed(MemoryActivityStore())
    attributes = {
        name: value for name, value in an_envelope("e1", account="acme").attributes().items() if name != "data"
    }
    envelope = type(an_envelope()).model_validate({**attributes, "data_base64": "cEBleGFtcGxlLmNvbQ=="})
    await record(feed, [envelope])
    [item] = (await a_history(feed).page(a_query())).items
    assert item["data_base64"] == ""
    assert "data" not in item


async def test_r403_a_row_that_cannot_be_read_is_not_shown_raw() -> None:
    store = MemoryActivityStore()
    await store.record(
        [a_row(1)._replace(payload=Sealed('{"data": "p@example.com"')), a_row(2)._replace(payload=Sealed("[1]"))]
    )
    items = (await a_history(a_feed(store)).page(a_query())).items
    assert [item.keys() for item in items] == [{"specversion", "type", "time", MISSING}] * 2


async def test_the_store_is_asked_from_where_the_cursor_points() -> None:
    store, feed = await filled([a_row(n) for n in range(10)])
    history = a_history(feed)
    page = await history.page(a_query(limit=4))
    await history.page(a_query(limit=4), page.next_cursor)
    assert store.stretches[-1].after == Place(START + timedelta(seconds=3), a_row(3).activity_id)


async def test_r403_a_type_is_masked_too_where_nothing_else_is_left() -> None:
    store = MemoryActivityStore()
    await store.record([a_row(1, type="p@example.com")._replace(payload=Sealed("no JSON"))])
    [item] = (await a_history(a_feed(store)).page(a_query())).items
    assert "p@example.com" not in json.dumps(item)
    assert item[MISSING] is True


async def test_a_large_event_holds_up_nobody_while_it_is_redacted() -> None:
    """Others have their turn meanwhile: it is done beside the event loop."""
    feed = a_feed(MemoryActivityStore(), inline_bytes=2_000_000)
    words = [f"word{number} p{number}@example.com" for number in range(20_000)]
    attributes = an_envelope("e1").attributes() | {"data": {"account": "acme", "words": words}}
    await record(feed, [type(an_envelope()).model_validate(attributes)])
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.001)
            turns += 1

    task = asyncio.create_task(other())
    [item] = (await a_history(feed, bounds=Bounds(page_bytes=10_000_000)).page(a_query())).items
    task.cancel()
    assert "@example.com" not in json.dumps(item)
    assert turns > 5
