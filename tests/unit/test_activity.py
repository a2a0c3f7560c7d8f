"""Whose an event is, where it stands, and that nobody shows it by mistake (R-401, R-403)."""

import copy
import json
import pickle
from datetime import timedelta
from typing import Any

import pytest
from fastapi.encoders import jsonable_encoder
from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from domain.activity import (
    ActivityQuery,
    Place,
    Pointer,
    Sealed,
    account_of,
    activity_id,
    activity_of,
    check_query,
    place_key,
    place_of,
    report_of,
    unsealed,
)
from domain.errors import Invalid
from domain.eventbridge import MAX_EVENTBRIDGE_BYTES, from_eventbridge
from tests.activity import a_query, a_row
from tests.examples import START, an_envelope


@pytest.mark.parametrize(
    ("data", "extension", "account"),
    [
        ({"account_id": "acme", "account": "other"}, "111122223333", "acme"),
        ({"account": "other"}, "111122223333", "other"),
        ({"account": {"id": 1}}, "111122223333", "111122223333"),
        ({"account_id": "", "account": 5}, "111122223333", "111122223333"),
        ({"account_id": "x" * 256}, None, "x" * 256),
        ({"account_id": "x" * 257}, None, None),
        ({"account_id": "a\nb"}, None, None),
        ({"account_id": "a\n"}, None, None),
        ({"account_id": "日本 😀"}, None, "日本 😀"),
        ({"account_id": True}, None, None),
        (["account_id"], "111122223333", "111122223333"),
        (None, "111122223333", "111122223333"),
        ("account", None, None),
        (None, 5, None),
    ],
)
def test_r401_whose_an_event_is(data: JsonValue, extension: JsonValue, account: str | None) -> None:
    envelope = an_envelope(data=data, **({} if extension is None else {"account": extension}))  # type: ignore[arg-type]
    assert account_of(envelope) == account
    if account is None:
        with pytest.raises(Invalid) as caught:
            activity_of(envelope, START)
        assert caught.value.place == "account"
        assert activity_of(envelope, START, account="local").account == "local"
    else:
        assert activity_of(envelope, START, account="local").account == account


@pytest.mark.parametrize(
    ("data", "report"),
    [
        ({"report_id": "R1"}, "R1"),
        ({"report_id": 42}, "42"),
        ({"report_id": True}, None),
        ({"report_id": 4.5}, None),
        ({"report_id": ""}, None),
        ({"report_id": None}, None),
        ({"report_id": ["R1"]}, None),
        ({"reportid": "R1"}, None),
        ([], None),
        (None, None),
    ],
)
def test_which_report_an_event_is_about(data: JsonValue, report: str | None) -> None:
    assert report_of(an_envelope(data=data)) == report


def test_an_eventbridge_event_belongs_to_the_account_that_published_it() -> None:
    event: dict[str, JsonValue] = {
        "id": "1",
        "detail-type": "T",
        "source": "s",
        "account": "111122223333",
        "time": "2026-01-01T10:00:00Z",
        "detail": {"n": 1},
    }
    assert account_of(from_eventbridge(event)) == "111122223333"
    assert account_of(from_eventbridge({**event, "detail": {"account_id": "acme"}})) == "acme"


def test_fc33_an_eventbridge_event_may_have_a_megabyte_and_no_more() -> None:
    event: dict[str, JsonValue] = {"id": "1", "detail-type": "T", "source": "s", "detail": "x" * 600_000}
    assert from_eventbridge(event, max_bytes=MAX_EVENTBRIDGE_BYTES).data == "x" * 600_000
    with pytest.raises(Invalid, match=f"the limit is {MAX_EVENTBRIDGE_BYTES}"):
        from_eventbridge({**event, "detail": "é" * 524_288}, max_bytes=MAX_EVENTBRIDGE_BYTES)


def test_an_event_stands_at_its_time_or_at_that_of_its_arrival() -> None:
    assert activity_of(an_envelope(time="2026-01-01T10:00:00+02:00"), START, account="a").occurred_at == (
        START - timedelta(hours=4)
    )
    assert activity_of(an_envelope(time=None), START, account="a").occurred_at == START
    with pytest.raises(Invalid, match="24 hours ahead"):
        activity_of(an_envelope(time="2026-01-02T12:00:01Z"), START, account="a")


def test_events_of_two_sources_with_one_id_are_two() -> None:
    ids = {activity_id(an_envelope(source=source)) for source in ("/a", "/b")}
    assert len(ids) == 2
    assert activity_id(an_envelope(source="/a", data="copy")) in ids


def test_fc54_places_as_text_are_in_order() -> None:
    moments = [START, START + timedelta(microseconds=1), START + timedelta(seconds=1), START + timedelta(days=4000)]
    places = [Place(moment, digit * 32) for moment in moments for digit in "09af"]
    assert [place_key(place) for place in places] == sorted(place_key(place) for place in places)
    assert {len(place_key(place)) for place in places} == {60}
    assert place_of(a_row(1)) == Place(START + timedelta(seconds=1), a_row(1).activity_id)


ENCODERS = [
    json.dumps,
    lambda value: json.dumps(value, default=vars),
    to_json,
    TypeAdapter(Any).dump_python,
    TypeAdapter(Any).dump_json,
    jsonable_encoder,
    pickle.dumps,
    copy.deepcopy,
    vars,
    iter,
    bytes,
    dict,
]


@pytest.mark.parametrize("encode", ENCODERS, ids=lambda encode: encode.__qualname__)
def test_r403_no_encoder_writes_a_sealed_payload(encode: Any) -> None:
    secret = "hunter2 p@example.com"
    for value in (Sealed(secret), a_row(1, note=secret), [a_row(1, note=secret)]):
        try:
            written = encode(value)
        except (TypeError, ValueError, PydanticSerializationError):
            continue
        assert secret not in repr(written)
        assert secret.encode() not in (written if isinstance(written, bytes) else b"")


def test_r403_no_model_takes_a_sealed_payload() -> None:
    class Answer(BaseModel):
        payload: str

    with pytest.raises(ValidationError):
        Answer(payload=Sealed("hunter2"))  # type: ignore[arg-type]


def test_r403_a_sealed_payload_prints_as_nothing() -> None:
    payload = Sealed("hunter2")
    for text in (repr(payload), str(payload), f"{payload}", f"{payload!r:>40}", repr(a_row(1, note="hunter2"))):
        assert "hunter2" not in text
    assert unsealed(payload) == "hunter2"
    assert payload == Sealed("hunter2")
    assert payload != Sealed("hunter3")
    assert payload != "hunter2"
    assert len({payload, Sealed("hunter2"), Pointer("k", 1)}) == 2


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"account": ""}, "account"),
        ({"account": "x" * 257}, "account"),
        ({"type": ""}, "type"),
        ({"type": "x" * 129}, "type"),
        ({"report_id": ""}, "report_id"),
        ({"report_id": "x" * 257}, "report_id"),
        ({"limit": 0}, "limit"),
        ({"limit": 501}, "limit"),
        ({"earliest": START, "latest": START - timedelta(microseconds=1)}, "from"),
    ],
)
def test_a_query_that_can_have_no_answer_is_refused(change: dict[str, Any], place: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_query(a_query(**change))
    assert caught.value.place == place
    check_query(ActivityQuery("x" * 256, "x" * 128, "x" * 256, START, START, limit=500))
