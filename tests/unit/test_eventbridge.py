"""EventBridge events as envelopes, and back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from domain.envelope import MAX_EVENT_BYTES, Envelope, envelope_from
from domain.errors import Invalid, TooLarge
from domain.eventbridge import (
    CARRIED,
    MAX_REQUEST_BYTES,
    BusEntry,
    delivered,
    from_eventbridge,
    refusal,
    requests,
    to_entry,
    without_wrapping,
)
from tests.examples import START, an_envelope

EVENT: dict[str, Any] = {
    "version": "0",
    "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
    "detail-type": "ReportRunCompletedEvent",
    "source": "reports",
    "account": "111122223333",
    "time": "2026-01-01T10:00:00Z",
    "region": "us-west-1",
    "resources": [],
    "detail": {"event_id": "r-7"},
}


def over_the_bus(envelope: Envelope, event_id: str = "bus-1") -> Envelope:
    """Publish and deliver."""
    return from_eventbridge(delivered(to_entry(envelope), event_id, START))


def known(envelope: Envelope) -> dict[str, JsonValue]:
    """Give the attributes without those that the bus adds."""
    return {
        name: value for name, value in envelope.attributes().items() if name not in {"account", "region", "resources"}
    }


@pytest.mark.parametrize("kind", ["order placed", "Order.Placed.v2", "T" * 128, "é", " "], ids=ascii)
def test_fc21_any_text_that_an_envelope_may_have_stays_the_type(kind: str) -> None:
    envelope = from_eventbridge({**EVENT, "detail-type": kind})
    assert (envelope.type, "detailtype" in envelope.attributes()) == (kind, False)


ODD: list[Any] = ["", "T" * 200, 5, 1.5, float("nan"), True, None, ["T"], {"a": "T"}, "a\nb", "\ud800", 10**40]


@pytest.mark.parametrize("kind", ODD, ids=ascii)
def test_fc21_an_odd_detail_type_is_kept_as_data_and_named_by_nothing_of_it(kind: Any) -> None:
    envelope = from_eventbridge({**EVENT, "detail-type": kind})
    assert envelope.type.startswith("odd.")
    assert len(envelope.type) == len("odd.") + 32
    assert envelope.data == EVENT["detail"]
    kept = envelope.attributes().get("detailtype")
    assert kept == ({"nan": "NaN", "'\\ud800'": '"\\ud800"', str(10**40): str(10**40)}.get(ascii(kind), kind))


def test_fc21_a_missing_detail_type_is_odd_too() -> None:
    event = {name: value for name, value in EVENT.items() if name != "detail-type"}
    assert from_eventbridge(event).type == from_eventbridge({**EVENT, "detail-type": None}).type
    assert "detailtype" not in from_eventbridge(event).attributes()


def test_fc21_odd_detail_types_that_differ_get_names_that_differ_always_the_same() -> None:
    names = [from_eventbridge({**EVENT, "detail-type": kind}).type for kind in [*ODD, "5", "null"] if kind != "5"]
    again = [from_eventbridge({**EVENT, "detail-type": kind}).type for kind in [*ODD, "5", "null"] if kind != "5"]
    assert names == again
    assert len(set(names)) == len(names)


def test_other_rules_of_the_envelope_still_hold_for_an_odd_one() -> None:
    with pytest.raises(Invalid) as caught:
        from_eventbridge({**EVENT, "detail-type": "", "detail": {"x": float("inf")}})
    assert caught.value.steps == ("detail", "x")
    with pytest.raises(TooLarge):
        from_eventbridge({**EVENT, "detail-type": 5, "detail": {"x": "x" * MAX_EVENT_BYTES}})


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"data": None},
        {"data": {}},
        {"data": [1, {"a": 2}]},
        {"data": "text"},
        {"data": {CARRIED: {"id": "x"}, "b": 1}},
        {"data": {CARRIED: 1}},
        {"time": "2026-01-01T10:00:00.123456789+02:00"},
        {"traceparent": "00-1-2-01", "dataschema": "/s", "datacontenttype": "application/json", "n": 5},
        {"detailtype": "kept"},
    ],
    ids=repr,
)
def test_what_was_published_comes_back_whole(change: dict[str, Any]) -> None:
    """CONTRACTS § 1: attributes survive a round trip."""
    envelope = an_envelope(**change)
    assert known(over_the_bus(envelope)) == envelope.attributes()


def test_events_without_data_without_time_or_with_binary_data_come_back() -> None:
    bare = envelope_from({"specversion": "1.0", "id": "e1", "source": "/s", "type": "T"})
    assert known(over_the_bus(bare)) == {**bare.attributes(), "time": "2026-01-01T12:00:00Z"}
    binary = envelope_from({**bare.attributes(), "time": "2026-01-01T10:00:00Z", "data_base64": "aGk="})
    assert known(over_the_bus(binary)) == binary.attributes()


def test_fc14_an_event_that_is_published_twice_keeps_its_id() -> None:
    envelope = an_envelope("e1")
    assert over_the_bus(envelope, "bus-1").id == over_the_bus(envelope, "bus-2").id == "e1"


def test_resources_travel_as_resources_and_what_eventbridge_asserts_is_not_replaced() -> None:
    arrived = over_the_bus(an_envelope(resources=["arn:1"], account="forged", region="forged")).attributes()
    assert (arrived["resources"], arrived["account"], arrived["region"]) == (["arn:1"], "000000000000", "local")
    assert to_entry(an_envelope(resources=["arn:1", 5])).resources == ()


@pytest.mark.parametrize(
    "detail",
    [
        {CARRIED: {}},
        {CARRIED: {"id": "x", "data": 1}, "other": 2},
        {CARRIED: {"id": ""}},
        {CARRIED: {"id": "x", "Odd": 1}},
        {CARRIED: "x"},
        {CARRIED: {"id": 5}},
    ],
    ids=repr,
)
def test_a_member_that_is_not_ours_stays_data(detail: dict[str, Any]) -> None:
    envelope = from_eventbridge({**EVENT, "detail": detail})
    assert (envelope.id, envelope.data) == (EVENT["id"], detail)


def test_a_detail_does_not_replace_type_or_source() -> None:
    envelope = from_eventbridge({**EVENT, "detail": {CARRIED: {"id": "x", "type": "Other", "source": "other"}}})
    assert (envelope.id, envelope.type, envelope.source) == ("x", EVENT["detail-type"], EVENT["source"])


def test_fc20_the_messages_of_both_dead_letter_queues_hold_the_event() -> None:
    record: dict[str, Any] = {
        "version": "1.0",
        "timestamp": "2026-01-01T10:03:00Z",
        "requestContext": {"requestId": "r", "condition": "RetriesExhausted", "approximateInvokeCount": 3},
        "requestPayload": EVENT,
        "responseContext": {"statusCode": 200, "functionError": "Unhandled"},
        "responsePayload": {"errorMessage": "down", "errorType": "Unavailable"},
    }
    assert without_wrapping(record) == without_wrapping(EVENT) == EVENT
    odd: dict[str, Any] = {**EVENT, "requestContext": {}, "requestPayload": {}}
    assert without_wrapping(odd) == odd
    for other in ({**record, "requestPayload": "x"}, {"requestPayload": EVENT}, {}):
        assert without_wrapping(other) == other


names = st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=1, max_size=12)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(names, values, max_size=3), values)
def test_any_extension_and_any_data_survive_the_bus(extensions: dict[str, Any], data: Any) -> None:
    extensions = {f"x{name}": value for name, value in extensions.items()}
    envelope = an_envelope(data=data, **extensions)
    assert known(over_the_bus(envelope)) == envelope.attributes()


def test_fc34_what_eventbridge_refuses_is_refused_before_the_call() -> None:
    assert refusal(an_envelope()) is None
    assert isinstance(refusal(an_envelope(source="aws.ec2")), Invalid)
    assert refusal(an_envelope(source="awsome")) is None


def test_an_entry_is_measured_as_eventbridge_does() -> None:
    assert BusEntry("é", "T", "{}", START, ("r",)).size == 2 + 1 + 2 + 14 + 1
    assert BusEntry("s", "T", "{}").size == 4


def test_requests_hold_ten_entries_or_a_megabyte() -> None:
    small, large = BusEntry("s", "T", "{}"), BusEntry("s", "T", "x" * (MAX_REQUEST_BYTES // 2 - 2))
    assert list(requests([small] * 23)) == [list(range(10)), list(range(10, 20)), [20, 21, 22]]
    assert list(requests([large, large, small, large])) == [[0, 1], [2, 3]]
    assert list(requests([])) == []
