"""Messages of the front door, whatever is in them (domain/intake.py, application/intake.py)."""

import asyncio
import base64
import gzip
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from adapters.memory.clock import ManualClock
from adapters.memory.metrics import MemoryMetrics
from adapters.memory.object_store import MemoryObjectStore
from application.intake import Intake, store_batch
from domain.envelope import Envelope, envelope_from
from domain.errors import Invalid, Unavailable
from domain.intake import (
    RawMessage,
    decode,
    join_lines,
    object_name,
    partition_of,
    read_line,
    split_lines,
    to_body,
    write_line,
)
from domain.messages import Received
from domain.objects import check_object_name
from tests.examples import START, an_envelope

EVENT: dict[str, Any] = json.loads(an_envelope("e1").to_json())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
# An event with some of its attributes replaced by whatever there may be, or taken away.
EVENTS = st.dictionaries(st.sampled_from([*EVENT, "data", "ext", "Bad-name"]), JSON, max_size=3).map(
    lambda changes: {**EVENT, **changes}
) | st.sampled_from([*EVENT]).map(lambda name: {key: value for key, value in EVENT.items() if key != name})
PACKS = st.sampled_from(
    [
        lambda text: text,
        lambda text: base64.b64encode(text.encode()).decode(),
        lambda text: base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode(),
    ]
)
BODIES = st.text(max_size=20) | st.binary(max_size=20).map(lambda raw: base64.b64encode(raw).decode())


def judged(value: Any) -> Envelope | Invalid:
    try:
        return envelope_from(value, START)
    except Invalid as error:
        return error


@given(st.lists(EVENTS | JSON, min_size=1, max_size=6), PACKS)
def test_each_event_of_a_batch_is_taken_or_rejected_as_it_would_be_alone(values: list[Any], pack: Any) -> None:
    decoded = decode(pack(json.dumps(values)), START)
    assert len(decoded.events) + len(decoded.rejections) == len(values)
    good = iter(decoded.events)
    rejected = {rejection.path[0]: rejection for rejection in decoded.rejections}
    for number, value in enumerate(values):
        alone = judged(value)
        if isinstance(alone, Invalid):
            assert (rejected[number].path[1:], rejected[number].reason) == (alone.steps, alone.reason)
        else:
            assert next(good) == alone
            assert partition_of(alone, START).type == alone.type


@given(EVENTS, PACKS)
def test_an_event_alone_is_read_as_in_a_batch(value: dict[str, Any], pack: Any) -> None:
    alone, batch = decode(pack(json.dumps(value)), START), decode(json.dumps([value]), START)
    assert alone.events == batch.events
    assert [(one.path, one.reason) for one in alone.rejections] == [
        (one.path[1:], one.reason) for one in batch.rejections
    ]


@given(BODIES | st.binary(max_size=30).map(to_body))
def test_any_text_at_all_is_decoded_or_rejected_and_kept_whole(body: str) -> None:
    decoded = decode(body, START)
    assert bool(decoded.events) or len(decoded.rejections) >= 1
    message = RawMessage("m", START, 1, body)
    assert split_lines(join_lines([write_line(message)])) == [write_line(message)]
    assert read_line(write_line(message)) == message


@given(st.text(st.characters(codec="utf-8"), max_size=30))
def test_a_posted_text_is_decoded_as_it_would_be_unpacked(text: str) -> None:
    """Except that base64 is looked through, which is what a text in the queue may be."""
    posted = decode(to_body(text.encode()), START)
    assert posted.events == decode(text, START).events


@given(st.lists(st.lists(st.text(max_size=3), min_size=1, max_size=4, unique=True), min_size=2, max_size=6))
def test_fc43_names_are_equal_for_equal_sets_of_ids_only_and_always_safe(batches: list[list[str]]) -> None:
    names: dict[str, frozenset[str]] = {}
    for ids in batches:
        name = object_name("raw", [RawMessage(one, START, 1, "") for one in ids])
        check_object_name(name)
        assert names.setdefault(name, frozenset(ids)) == frozenset(ids)
    assert len(names) == len({frozenset(ids) for ids in batches})


class Picky(MemoryObjectStore):
    """A store that refuses objects with certain messages, for now or for good."""

    def __init__(self, refused: set[str], error: Exception) -> None:
        super().__init__()
        self._refused = refused
        self._error = error

    async def put(self, name: str, data: bytes, /) -> bool:
        if any(read_line(line).message_id in self._refused for line in split_lines(data)):
            raise self._error
        return await super().put(name, data)


@given(
    st.lists(st.booleans(), min_size=1, max_size=40),
    st.sets(st.integers(0, 39)),
    st.sampled_from([Invalid("object", "for good"), Unavailable("store", "for now")]),
    st.data(),
)
def test_received_is_stored_and_quarantined_and_returned_whatever_the_store_refuses(
    good: list[bool], refused: set[int], error: Exception, data: st.DataObject
) -> None:
    bodies = [an_envelope(f"e{number}").to_json() if one else "{" for number, one in enumerate(good)]
    batch = [Received(f"m{number}", None, body, "r", 1, START) for number, body in enumerate(bodies)]
    batch += data.draw(st.lists(st.sampled_from(batch), max_size=3))
    bad = {f"m{number}" for number in refused}
    objects = Picky(bad, error)
    intake = Intake(objects, ManualClock(START), MemoryMetrics())
    report = asyncio.run(store_batch(intake, batch))
    assert report.received == len(good) == report.stored + report.quarantined + len(report.returned)
    lines = {
        read_line(line).message_id: name.split("/")[0]
        for name, content in objects._objects.items()
        for line in split_lines(content)
    }
    assert len(lines) == report.stored + report.quarantined
    for number, one in enumerate(good):
        message_id = f"m{number}"
        assert (message_id in report.returned) != (message_id in lines)
        assert message_id not in lines or lines[message_id] == ("raw" if one else "quarantine")
    if isinstance(error, Invalid) or len(bad & {f"m{number}" for number in range(len(good))}) <= 1:
        assert set(report.returned) == bad & {f"m{number}" for number in range(len(good))}, "no neighbour pays"
    assert list(report.returned) == [f"m{n}" for n in range(len(good)) if f"m{n}" in report.returned]
