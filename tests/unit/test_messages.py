import hashlib
import json
import re
from typing import Any

import pytest

from domain.errors import Invalid
from domain.event import ingest_command_id
from domain.lifecycle import Move
from domain.messages import EventIngested, TransitionRequested, ingested_message, read_message, requested_message
from tests.examples import an_envelope

REQUEST: dict[str, Any] = {
    "kind": "transition_requested",
    "event_id": "e1",
    "entity": "N14228",
    "to": "open",
    "actor": "ada",
    "reason": "seen",
    "command_id": "c1",
    "requested_at": "2026-01-01T10:00:00Z",
}


def by_sns(body: str) -> str:
    return json.dumps(
        {
            "Type": "Notification",
            "MessageId": "8a1b2c3d",
            "SequenceNumber": "10000000000000000000",
            "TopicArn": "arn:aws:sns:us-east-1:111122223333:lifecycle.fifo",
            "Message": body,
            "Timestamp": "2026-01-01T10:00:00.000Z",
            "UnsubscribeURL": "https://example.org/",
            "MessageAttributes": {},
        }
    )


def ingested(**changes: Any) -> str:
    return json.dumps({"kind": "event_ingested", "event": {**an_envelope().attributes(), **changes}})


def requested(**changes: Any) -> str:
    return json.dumps({name: value for name, value in {**REQUEST, **changes}.items() if value != "ABSENT"})


BODIES = [ingested(), requested()]


@pytest.mark.parametrize("body", BODIES, ids=["ingested", "requested"])
def test_fc60_raw_and_wrapped_read_alike(body: str) -> None:
    """FC-60: straight from the queue, by an operator or by raw delivery, and in the envelope of SNS."""
    assert read_message(body) == read_message(by_sns(body))


@pytest.mark.parametrize("body", BODIES, ids=["ingested", "requested"])
def test_fc60_wrapped_twice_is_malformed_not_half_read(body: str) -> None:
    with pytest.raises(Invalid, match="wrapped by SNS twice") as caught:
        read_message(by_sns(by_sns(body)))
    assert caught.value.place == "Message"


@pytest.mark.parametrize(
    ("body", "place", "reason"),
    [
        (by_sns("not JSON"), "Message", "is not a JSON message"),
        (by_sns(""), "Message", "is not a JSON message"),
        (by_sns('{"kind":"event_ingested","kind":"x"}'), "Message", "is not a JSON message: kind: is a duplicate key"),
        (by_sns("[]"), "", "must be a JSON object"),
        (by_sns("{}"), "kind", "must be event_ingested or transition_requested"),
        (json.dumps({"Type": "Notification"}), "Message", "holds no text"),
        (json.dumps({"Type": "Notification", "Message": {"kind": "event_ingested"}}), "Message", "holds no text"),
        (json.dumps({"Type": "SubscriptionConfirmation", "Message": "x"}), "kind", "must be event_ingested"),
    ],
)
def test_fc60_an_sns_envelope_around_no_message_of_ours_says_so(body: str, place: str, reason: str) -> None:
    with pytest.raises(Invalid, match=re.escape(reason)) as caught:
        read_message(body)
    assert caught.value.place == place


def test_fc60_a_payload_with_the_names_of_sns_is_still_a_payload() -> None:
    """FC-60: Type, Message and TopicArn inside the event are data, wherever they stand."""
    names = {"Type": "Notification", "Message": "{}", "TopicArn": "arn:x"}
    for body in (ingested(data=names), by_sns(ingested(data=names))):
        message = read_message(body)
        assert isinstance(message, EventIngested)
        assert message.event.data == names
    beside = json.dumps({**json.loads(ingested()), **names})
    with pytest.raises(Invalid, match="is not a field of this message") as caught:
        read_message(beside)
    assert caught.value.place == "Message"


def test_an_ingested_message_round_trips_with_everything_the_envelope_holds() -> None:
    envelope = an_envelope(data={"a": [1, 2.5, "日本\ufffe"]}, traceparent="00-1", resources=["x"])
    out = ingested_message(envelope)
    assert read_message(out.body) == EventIngested(envelope)
    assert out.group_id == "N14228"
    framed = '["event_ingested","/flights/nyc","e1"]'
    assert out.deduplication_id == hashlib.sha256(framed.encode()).hexdigest() == ingest_command_id(envelope)


def test_a_requested_message_round_trips() -> None:
    request = TransitionRequested.model_validate(REQUEST)
    out = requested_message(request)
    assert read_message(out.body) == request
    assert json.loads(out.body) == REQUEST
    assert out.group_id == "N14228"
    assert out.deduplication_id == hashlib.sha256(b'["transition_requested","c1"]').hexdigest()
    assert request.move() == Move("e1", "N14228", "open", "ada", "c1", "seen")


def test_an_event_without_a_subject_makes_no_message() -> None:
    with pytest.raises(Invalid, match="is required"):
        ingested_message(an_envelope(subject=None))


@pytest.mark.parametrize(
    ("change", "place", "reason"),
    [
        ({"kind": "ABSENT"}, "kind", "must be event_ingested or transition_requested"),
        ({"kind": "transition_done"}, "kind", "must be event_ingested or transition_requested"),
        ({"kind": None}, "kind", "must be event_ingested or transition_requested"),
        ({"event_id": "ABSENT"}, "event_id", "is required"),
        ({"event_id": ""}, "event_id", "must not be empty"),
        ({"event_id": "x" * 130}, "event_id", "must have at most 129 characters"),
        ({"event_id": 5}, "event_id", "must be a string"),
        ({"entity": "ABSENT"}, "entity", "is required"),
        ({"entity": ""}, "entity", "must not be empty"),
        ({"entity": "x" * 257}, "entity", "must have at most 256 characters"),
        ({"entity": "a\n"}, "entity", "must not hold control characters"),
        ({"to": "ABSENT"}, "to", "is required"),
        ({"to": ""}, "to", "must not be empty"),
        ({"to": "x" * 64}, "to", "must have at most 63 characters"),
        ({"actor": ""}, "actor", "must not be empty"),
        ({"actor": "x" * 257}, "actor", "must have at most 256 characters"),
        ({"reason": "x" * 2001}, "reason", "must have at most 2000 characters"),
        ({"reason": 5}, "reason", "must be a string"),
        ({"command_id": ""}, "command_id", "must not be empty"),
        ({"command_id": "x" * 257}, "command_id", "must have at most 256 characters"),
        ({"requested_at": 1654646400}, "requested_at", "must be a string"),
        ({"requested_at": "now"}, "requested_at", "must be an RFC 3339 time"),
        ({"extra": 1}, "extra", "is not a field here"),
    ],
    ids=lambda value: ascii(value)[:50] if isinstance(value, dict) else "",
)
def test_each_rule_of_a_request_broken_alone(change: dict[str, Any], place: str, reason: str) -> None:
    with pytest.raises(Invalid, match=re.escape(reason)) as caught:
        read_message(requested(**change))
    assert caught.value.place == place


@pytest.mark.parametrize(
    "change",
    [
        {"event_id": "~" + "f" * 128},
        {"entity": "😀" * 256},
        {"reason": "ABSENT"},
        {"reason": None},
        {"reason": "x" * 2000},
        {"command_id": "x" * 256},
        {"requested_at": "2026-01-01t10:00:00-00:00"},
    ],
    ids=lambda value: ascii(value)[:50],
)
def test_boundaries_of_a_request_are_taken(change: dict[str, Any]) -> None:
    message = read_message(requested(**change))
    assert isinstance(message, TransitionRequested)
    for name, value in change.items():
        assert getattr(message, name) == (None if value == "ABSENT" else value)


@pytest.mark.parametrize(
    ("body", "place", "reason"),
    [
        (ingested(id=""), "event.id", "must not be empty"),
        (ingested(subject=None), "event.subject", "is required"),
        (ingested(Odd=1), "event.Odd", "is no attribute name"),
        ('{"kind":"event_ingested"}', "event", "must be a JSON object"),
        ('{"kind":"event_ingested","event":[]}', "event", "must be a JSON object"),
        ('{"kind":"event_ingested","event":{},"more":1}', "more", "is not a field of this message"),
        ('{"kind":"event_ingested","event":{"data":{"a b":NaN}}}', 'event.data["a b"]', "NaN and Infinity"),
        ("[]", "", "must be a JSON object"),
        ('"text"', "", "must be a JSON object"),
        ("null", "", "must be a JSON object"),
    ],
)
def test_each_rule_of_a_notification_broken_alone(body: str, place: str, reason: str) -> None:
    with pytest.raises(Invalid, match=re.escape(reason)) as caught:
        read_message(body)
    assert caught.value.place == place
    assert not caught.value.steps or caught.value.steps[0] == place.partition(".")[0]


@pytest.mark.parametrize("reason", ["line one\nline\ttwo\r\n", "", "日本😀"])
def test_reasons_may_have_several_lines(reason: str) -> None:
    message = read_message(body_of(reason))
    assert isinstance(message, TransitionRequested)
    assert message.reason == reason


@pytest.mark.parametrize("reason", ["a\x00b", "\x1b[31m", "\x85", "\x7f"], ids=ascii)
def test_reasons_hold_no_control_characters_but_tabs_and_line_ends(reason: str) -> None:
    with pytest.raises(Invalid, match="control characters") as caught:
        read_message(body_of(reason))
    assert caught.value.place == "reason"


def body_of(reason: str) -> str:
    return json.dumps(
        {
            "kind": "transition_requested",
            "event_id": "e1",
            "entity": "N1",
            "to": "open",
            "actor": "ada",
            "reason": reason,
            "command_id": "c1",
            "requested_at": "2026-01-01T00:00:00Z",
        }
    )
