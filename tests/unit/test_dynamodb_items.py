"""Items as they are stored: what goes in comes out, sorted as the one query needs, and never null (FC-57)."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.dynamodb.items import (
    EVENT_KEY,
    HEAD_KEY,
    event_from,
    event_item,
    fact_item,
    head_from,
    head_item,
    item_size,
    missed_item,
    stream_from,
)
from domain.errors import CorruptHistory
from domain.event import Head, Missed, RecordedEvent
from domain.lifecycle import Transition
from domain.times import EARLIEST, LATEST
from tests.examples import START, a_record, an_envelope

if TYPE_CHECKING:
    from adapters.dynamodb.items import Item

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
times = st.datetimes(EARLIEST.replace(tzinfo=None), LATEST.replace(tzinfo=None), timezones=st.just(UTC))
heads = st.builds(Head, texts, texts, texts, texts, times, texts, st.integers(1, 10**10 - 1), times)
facts = st.builds(
    Transition,
    texts,
    texts,
    st.none() | texts,
    texts,
    times,
    texts,
    st.none() | texts,
    texts,
    st.integers(1, 10**10 - 1),
)
missed_moves = st.builds(Missed, texts, texts, texts, times, texts)


def text(item: "Item", name: str) -> str:
    return item[name].get("S", "")


@given(heads, st.integers(1, 9))
def test_a_head_comes_back_as_it_was(head: Head, shards: int) -> None:
    item = head_item(head, shards)
    assert head_from(item) == head
    assert stream_from([item]) == (head, (), ())
    assert text(item, "listed").endswith(f"#{head.event_id}")


@given(facts, missed_moves)
def test_facts_and_missed_moves_come_back_as_they_were(fact: Transition, missed: Missed) -> None:
    assert stream_from([missed_item(missed), fact_item(fact)]) == (None, (fact,), (missed,))


@given(facts, missed_moves, heads)
def test_r103_one_range_of_keys_holds_all_but_the_envelope(fact: Transition, missed: Missed, head: Head) -> None:
    order = [EVENT_KEY] + [text(item, "sk") for item in (missed_item(missed), fact_item(fact), head_item(head, 1))]
    assert order == sorted(order)
    assert order[-1] == HEAD_KEY


@given(facts, times, st.integers(1, 10**10 - 1))
def test_r103_keys_of_facts_sort_by_time_then_sequence(fact: Transition, at: datetime, sequence: int) -> None:
    other = fact._replace(at=at, sequence=sequence)
    in_order = (fact.at, fact.sequence) < (at, sequence)
    assert (text(fact_item(fact), "sk") < text(fact_item(other), "sk")) == in_order


def test_the_heads_of_a_state_are_spread_over_all_shards() -> None:
    spread = {
        text(head_item(Head(f"e{number}", "N1", "T", "/s", START, "open", 1, START), 4), "state_shard")
        for number in range(100)
    }
    assert spread == {"open#0", "open#1", "open#2", "open#3"}


def test_fc57_what_is_none_is_absent_and_heads_alone_are_listed() -> None:
    first = Transition("e1", "N1", None, "to_review", START, "ada", None, "c1", 1)
    head = Head("e1", "N1", "T", "/s", START, "to_review", 1, START)
    items = [
        fact_item(first),
        head_item(head, 4),
        event_item(a_record()),
        missed_item(Missed("e1", "c", "x", START, "")),
    ]
    assert not {"from_state", "reason"} & items[0].keys()
    for item in items:
        assert all(set(value) in ({"S"}, {"N"}) for value in item.values())
    assert [("listed" in item, "state_shard" in item) for item in items] == [(False, False), (True, True)] + [
        (False, False)
    ] * 2


def test_fc28_the_envelope_is_text_so_no_number_changes() -> None:
    data = [30.40, 0.1 + 0.2, 1e-7, 2**53, True, "", [], {}, {"7": None}]
    record = a_record()._replace(envelope=an_envelope(data=data, subject="N14228", count=5))
    found = event_from(event_item(record))
    assert found == record
    assert found.envelope.to_json() == record.envelope.to_json()


def test_events_with_a_time_of_microseconds_and_an_offset_keep_the_moment() -> None:
    record = a_record(arrived_at=START + timedelta(microseconds=1))
    assert event_from(event_item(record)).arrived_at == record.arrived_at


@pytest.mark.parametrize(
    ("item", "size"),
    [
        ({"pk": {"S": "a"}, "sk": {"S": "b"}}, 6),
        ({"pk": {"S": "é"}, "sk": {"S": "日😀"}}, 2 + 2 + 2 + 7),
        ({"n": {"N": "1"}}, 1 + 2),
        ({"n": {"N": "1234"}}, 1 + 3),
    ],
)
def test_fc33_sizes_are_names_and_values_in_utf8(item: dict[str, dict[str, str]], size: int) -> None:
    assert item_size(item) == size  # type: ignore[arg-type]


def test_an_item_that_is_not_ours_is_called_corrupt() -> None:
    head = head_item(Head("e1", "N1", "T", "/s", START, "open", 1, START), 1)
    broken_ones: list[Item] = [{**head, "sequence": {"S": "1"}}, {name: head[name] for name in head if name != "state"}]
    for broken in broken_ones:
        with pytest.raises(CorruptHistory, match="'e1'"):
            head_from(broken)


def test_the_table_page_shows_items_as_they_are_written() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/table.md").read_text(encoding="utf-8")
    shown = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    event_id, entity, at = "2013-01-01-UA-1714-LGA-0529", "N24211", START + timedelta(minutes=10)
    envelope = an_envelope(event_id, entity=entity, time="2013-01-01T10:29:00Z", data={"arr_delay": 20})
    refused = "cannot move from 'to_review' to 'closed'; legal now: open"
    occurred_at = envelope.occurred_at
    assert occurred_at is not None
    head = Head(event_id, entity, "FlightDelayed", "/flights/nyc", occurred_at, "open", 2, at)
    assert shown == [
        event_item(RecordedEvent(event_id, entity, START, envelope)),
        missed_item(Missed(event_id, "close-1", "closed", START + timedelta(minutes=5), refused)),
        fact_item(Transition(event_id, entity, "to_review", "open", at, "ada", "looked at it", "open-1", 2)),
        head_item(head, 4),
    ]
