"""What goes in as an event comes out as the same event, whatever it carries."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.envelope import Envelope, envelope_from, read_batch, read_envelope, with_time
from domain.errors import Invalid
from domain.event import event_ids, fact_key, ingest_command_id, list_key
from domain.messages import EventIngested, ingested_message, read_message
from domain.times import EARLIEST, LATEST, format_time, parse_time
from tests.properties.test_json_reader import values

plain = st.characters(exclude_categories=["Cs", "Cc"])
ids = st.text(plain, min_size=1, max_size=128)
sources = st.text("abzAZ09-._~:/?#[]@!$&'()*+,;=", min_size=1, max_size=256) | st.just("/%C3%A9")
known = {"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema", "data"}
extension_names = st.text("abcxyz0189", min_size=1, max_size=20).filter(lambda name: name not in known)
moments = st.datetimes(EARLIEST.replace(tzinfo=None), LATEST.replace(tzinfo=None)).map(
    lambda moment: moment.replace(tzinfo=UTC)
)


@st.composite
def time_texts(draw: st.DrawFn) -> str:
    """Give a legal RFC 3339 time in one of its spellings."""
    zone = timezone(timedelta(minutes=draw(st.integers(-1439, 1439))))
    inside = st.datetimes(datetime(1970, 1, 2), datetime(2200, 12, 30))  # noqa: DTZ001 - the zone is put on below
    moment = draw(inside).replace(tzinfo=zone)
    text = moment.isoformat(timespec="seconds")[:19]
    fraction = draw(st.sampled_from(["", ".0", ".5", ".123456", ".1234567", ".999999999"]))
    offset = draw(st.sampled_from(["Z", "z", "-00:00", moment.isoformat()[-6:]]))
    return text.replace("T", draw(st.sampled_from("Tt"))) + fraction + offset


@st.composite
def events(draw: st.DrawFn) -> dict[str, Any]:
    """Give a legal event with any attributes, in any order."""
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": draw(ids),
        "source": draw(sources),
        "type": draw(ids),
        "subject": draw(st.text(plain, min_size=1, max_size=256)),
    }
    optional: dict[str, st.SearchStrategy[Any]] = {
        "time": st.none() | time_texts(),
        "data": values,
        "datacontenttype": st.none() | st.just("application/json"),
        "dataschema": st.none() | sources,
    }
    for name, strategy in optional.items():
        if draw(st.booleans()):
            event[name] = draw(strategy)
    event.update(draw(st.dictionaries(extension_names, values, max_size=3)))
    return dict(draw(st.permutations(list(event.items()))))


def shown(envelope: Envelope) -> str:
    """Write the attributes with their types, in one order."""
    return repr(sorted(envelope.attributes().items()))


@settings(deadline=None, max_examples=120)
@given(event=events(), ascii_only=st.booleans())
def test_an_event_survives_every_way_in_and_out(event: dict[str, Any], *, ascii_only: bool) -> None:
    raw = json.dumps(event, ensure_ascii=ascii_only).encode()
    envelope = read_envelope(raw)
    expected = repr(sorted(event.items()))
    assert shown(envelope) == expected
    assert shown(envelope_from(event)) == expected
    assert shown(envelope_from(read_batch(b"[" + raw + b"]")[0])) == expected
    assert shown(read_envelope(envelope.to_json().encode())) == expected
    message = read_message(ingested_message(envelope).body)
    assert isinstance(message, EventIngested)
    assert shown(message.event) == expected
    wrapped = read_message(json.dumps({"Type": "Notification", "Message": ingested_message(envelope).body}))
    assert wrapped == message


@settings(deadline=None, max_examples=120)
@given(events(), st.data())
def test_an_event_with_one_name_twice_is_refused(event: dict[str, Any], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(event)))
    text = json.dumps(event, ensure_ascii=data.draw(st.booleans()))
    again = f"{text[:-1]}, {json.dumps(name)} : {json.dumps(data.draw(values))}}}"
    with pytest.raises(Invalid, match="is a duplicate key") as caught:
        read_envelope(again.encode())
    assert caught.value.steps == (name,)


@settings(deadline=None, max_examples=120)
@given(time_texts())
def test_fc54_every_spelling_of_a_time_becomes_one_of_27_characters(text: str) -> None:
    moment = parse_time(text)
    written = format_time(moment)
    assert len(written) == 27
    assert parse_time(written) == moment


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(moments, st.integers(1, 10**10 - 1)), min_size=2, max_size=6), st.lists(ids, min_size=6))
def test_fc54_order_by_text_is_order_by_time_and_tie(points: list[tuple[datetime, int]], names: list[str]) -> None:
    assert sorted(points) == sorted(points, key=lambda point: fact_key(*point))
    rows = [(moment, names[index]) for index, (moment, _) in enumerate(points)]
    assert sorted(rows) == sorted(rows, key=lambda row: list_key(*row))


@settings(deadline=None, max_examples=100)
@given(events(), moments)
def test_only_an_absent_time_is_filled_in(event: dict[str, Any], arrived_at: datetime) -> None:
    envelope = envelope_from(event)
    filled = with_time(envelope, arrived_at)
    assert shown(with_time(filled, LATEST)) == shown(filled)
    assert filled.time == (event.get("time") or format_time(arrived_at))
    rest = {name: value for name, value in filled.attributes().items() if name != "time"}
    assert repr(sorted(rest.items())) == repr(sorted((name, value) for name, value in event.items() if name != "time"))


@settings(deadline=None, max_examples=120)
@given(st.tuples(sources, ids), st.tuples(sources, ids))
def test_ids_of_different_events_never_meet(one: tuple[str, str], other: tuple[str, str]) -> None:
    first, second = (
        Envelope(specversion="1.0", source=source, id=event_id, type="T") for source, event_id in (one, other)
    )
    assert (event_ids(first)[1] == event_ids(second)[1]) == (one == other)
    assert (ingest_command_id(first) == ingest_command_id(second)) == (one == other)
    assert event_ids(first)[1] not in (first.id, second.id)
