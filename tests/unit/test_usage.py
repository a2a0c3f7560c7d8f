"""What the demo sends to its front door: the flights, and twenty ways to be broken, each of them seen (R-504)."""

import json
from collections import Counter

import pytest

from domain.daily import Rule
from domain.event_schema import schema_from
from domain.intake import RawMessage, to_body, write_line
from entrypoints.demo.flights import january
from entrypoints.demo.usage import BROKEN_BODIES, BROKEN_EVENTS, SCHEMA, posts, to_usage, totals
from tests.examples import START

RULE = Rule([schema_from(SCHEMA)])
EXAMPLE = next(filter(None, map(to_usage, january())))


def kept(body: bytes) -> tuple[list[str], int]:
    """Give the ids of the rows that a request becomes, and how many of its events are rejected."""
    rows, rejected = RULE.rows(write_line(RawMessage("m1", START, 1, to_body(body))))
    return [row.id for row in rows], 0 if rejected is None else len(rejected.rejections)


def text(event: object) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()


def test_there_are_twenty_ways() -> None:
    assert len(BROKEN_EVENTS) + len(BROKEN_BODIES) == 20
    assert kept(text(EXAMPLE)) == ([EXAMPLE["id"]], 0)


@pytest.mark.parametrize("way", BROKEN_EVENTS)
def test_r504_an_event_that_is_broken_is_rejected_and_its_neighbours_are_rows(way: str) -> None:
    before, after = {**EXAMPLE, "id": "before"}, {**EXAMPLE, "id": "after"}
    assert kept(text([before, BROKEN_EVENTS[way](EXAMPLE), after])) == (["before", "after"], 1)


@pytest.mark.parametrize("way", BROKEN_BODIES)
def test_r504_a_body_that_is_broken_is_rejected_as_one(way: str) -> None:
    assert kept(BROKEN_BODIES[way](text(EXAMPLE))) == ([], 1)


def test_the_posts_say_what_is_in_them_and_hold_every_flight_that_arrived() -> None:
    ids: Counter[str] = Counter()
    sent = list(posts(january()))
    for post in sent:
        rows, rejected = kept(post.body)
        assert (len(rows), rejected) == (post.good, post.broken)
        ids.update(rows)
    flights = sum(number for number, _, _ in totals(january()).values())
    assert len(ids) == flights == sum(post.good for post in sent if not post.repeats) == 26398
    assert sum(ids.values()) - flights == sum(post.good for post in sent if post.repeats) > 1000
    assert sum(post.broken for post in sent if not post.repeats) == pytest.approx(flights / 100, rel=0.01)
