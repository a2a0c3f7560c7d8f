"""EventBridge events as envelopes, and back (CONTRACTS § 1, FC-14, FC-21).

EventBridge gives an event an id of its own, cuts its time to seconds and has no room for other attributes. So an
envelope travels in two parts: `data` as the event's detail, and what EventBridge would lose in one member of it,
`cloudevents`. Whoever does not know that member reads an ordinary event; `from_eventbridge` gives back what was sent.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pydantic import JsonValue

from domain.envelope import MAX_EVENT_BYTES, Envelope, envelope_from, framed_digest
from domain.errors import InterlockError, Invalid, Malformed, TooLarge
from domain.json_reader import MAX_DEPTH, read_json, write_json
from domain.times import format_time
from domain.validation import placed

CARRIED: Final = "cloudevents"
"""The member of a detail that holds the attributes for which EventBridge has no room."""
DETAIL_TYPE: Final = "detailtype"
"""The extension that holds a detail type which is no envelope's type, as it came."""
MAX_EVENTBRIDGE_BYTES: Final = 1024 * 1024
"""What EventBridge takes since January 2026 (FC-33)."""
MAX_ENTRIES: Final = 10
MAX_REQUEST_BYTES: Final = 1_000_000
_TIME_BYTES: Final = 14
_MAX_TYPE: Final = 128
_ODD: Final = "odd."
_ODD_DIGITS: Final = 32
_TYPE: Final = re.compile(r"[^\x00-\x1F\x7F-\x9F\uD800-\uDFFF]*")
_OUTSIDE: Final = frozenset({"specversion", "source", "type", "data"})
_ASSERTED: Final = frozenset({"specversion", "source", "type", "account", "region"})
"""What EventBridge says itself, or checks: what a publisher writes elsewhere does not replace it."""


@dataclass(frozen=True, slots=True)
class BusEntry:
    """One entry of PutEvents.

    Attributes:
        source: 1-256 characters, none of which make it begin with `aws.`.
        detail_type: 1-128 characters.
        detail: a JSON object, as text.
        time: when it happened; EventBridge keeps whole seconds. None: when EventBridge takes it.
        resources: what the event concerns.
    """

    source: str
    detail_type: str
    detail: str
    time: datetime | None = None
    resources: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes, as EventBridge counts them (user guide, "Calculating PutEvents event entry size")."""
        texts = (self.source, self.detail_type, self.detail, *self.resources)
        return sum(len(text.encode()) for text in texts) + (0 if self.time is None else _TIME_BYTES)


def from_eventbridge(event: Mapping[str, JsonValue], *, max_bytes: int = MAX_EVENT_BYTES) -> Envelope:
    """Give the envelope of an EventBridge event, whatever its detail type is (FC-21).

    A detail type that no envelope may have (missing, empty, no text, over 128 characters, with control characters) is
    replaced by a name that is made of its digest and that no workflow has; what came is kept under the extension
    `detailtype`. So it reaches the catch-all, and is never raised away. An envelope that `to_entry` wrote comes back
    whole, with what EventBridge says of itself (`account`, `region`) added.

    Raises:
        TooLarge: over `max_bytes` as compact UTF-8.
        Invalid: it breaks another rule of the envelope, such as NaN; the place is EventBridge's own.
    """
    kind = event.get("detail-type")
    if not _is_type(kind):
        text = json.dumps(kind)
        event = {**event, "detail-type": f"{_ODD}{framed_digest('detail-type', text)[:_ODD_DIGITS]}"}
        if kind is not None:
            event[DETAIL_TYPE] = _readable(text)
    envelope = strictly_from_eventbridge(event, max_bytes=max_bytes)
    return _unpacked(envelope, max_bytes) or envelope


def strictly_from_eventbridge(event: Mapping[str, JsonValue], *, max_bytes: int = MAX_EVENT_BYTES) -> Envelope:
    """Map an EventBridge event to the envelope: `type` = detail-type, `data` = detail, the rest extensions.

    The Lambda runtime has read it with a lenient reader, so it is held to the rules of the strict one here.

    Raises:
        TooLarge: over `max_bytes` as compact UTF-8.
        Invalid: with the place of the EventBridge field.
    """
    names = {"id": "id", "source": "source", "detail-type": "type", "time": "time", "detail": "data"}
    attributes: dict[str, JsonValue] = {"specversion": "1.0"}
    for name, value in event.items():
        attributes[names.get(name, name.replace("-", ""))] = value
    attributes.pop("version", None)
    try:
        return envelope_from(read_json(json.dumps(attributes).encode()), max_bytes=max_bytes)
    except RecursionError:
        raise Malformed("", f"is nested deeper than {MAX_DEPTH} levels") from None
    except Invalid as error:
        fields = {attribute: name for name, attribute in names.items()}
        raise placed(error, [fields.get(str(step), step) for step in error.steps[:1]] + [*error.steps[1:]]) from None


def without_wrapping(body: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """Give the event of a queue's message, also where a Lambda function's failure destination wrapped it (FC-20).

    | `requestContext` and `requestPayload` | `detail-type` | the event is |
    |---|---|---|
    | both, the latter an object | absent | the payload: the function raised, and this is its destination's record |
    | any | present | the body: from the rule, or from its dead-letter queue, which keep it as it is |
    | not both | absent | the body, whatever it is |
    """
    payload = body.get("requestPayload")
    if "requestContext" in body and "detail-type" not in body and isinstance(payload, dict):
        return payload
    return body


def to_entry(envelope: Envelope) -> BusEntry:
    """Write an envelope as an entry of PutEvents; `from_eventbridge` reads it back."""
    attributes = envelope.attributes()
    carried = {name: value for name, value in attributes.items() if name not in _OUTSIDE}
    data = attributes.get("data")
    if isinstance(data, dict) and data and CARRIED not in data:
        detail: JsonValue = {**data, CARRIED: carried}
    else:
        detail = {CARRIED: {**carried, "data": data} if "data" in attributes else carried}
    return BusEntry(
        envelope.source, envelope.type, write_json(detail), envelope.occurred_at, _texts(attributes.get("resources"))
    )


def refusal(envelope: Envelope) -> InterlockError | None:
    """Say why EventBridge would refuse an event, before it is asked: stand-ins for it are more lenient (FC-34)."""
    if envelope.source.startswith("aws."):
        return Invalid("source", "EventBridge keeps names that begin with 'aws.' for AWS")
    size = to_entry(envelope).size
    if size > MAX_REQUEST_BYTES:
        return TooLarge("", f"is {size} bytes; EventBridge takes {MAX_REQUEST_BYTES}", size, MAX_REQUEST_BYTES)
    return None


def requests(entries: Sequence[BusEntry]) -> Iterator[list[int]]:
    """Split entries, each small enough, into requests of at most ten and a megabyte, as lists of their positions."""
    request: list[int] = []
    size = 0
    for position, entry in enumerate(entries):
        if request and (len(request) == MAX_ENTRIES or size + entry.size > MAX_REQUEST_BYTES):
            yield request
            request, size = [], 0
        request.append(position)
        size += entry.size
    if request:
        yield request


def delivered(entry: BusEntry, event_id: str, now: datetime) -> dict[str, JsonValue]:
    """Give the event that EventBridge delivers for an entry, for engines that stand in for it.

    Args:
        entry: as it was published.
        event_id: the bus's own, another each time an event is published.
        now: when the bus took it.
    """
    return {
        "version": "0",
        "id": event_id,
        "detail-type": entry.detail_type,
        "source": entry.source,
        "account": "000000000000",
        "time": f"{format_time(entry.time or now)[:19]}Z",
        "region": "local",
        "resources": [*entry.resources],
        "detail": read_json(entry.detail.encode(), wrapping=1),
    }


def _is_type(kind: JsonValue) -> bool:
    return isinstance(kind, str) and 1 <= len(kind) <= _MAX_TYPE and _TYPE.fullmatch(kind) is not None


def _readable(text: str) -> JsonValue:
    """Give the value of a JSON text, or the text itself where no envelope may hold that value, such as NaN."""
    try:
        return read_json(text.encode())
    except Malformed:
        return text


def _unpacked(envelope: Envelope, max_bytes: int) -> Envelope | None:
    """Give the envelope that `to_entry` packed, or None where something else uses the member's name."""
    detail = envelope.data
    carried = detail.get(CARRIED) if isinstance(detail, dict) else None
    if not isinstance(detail, dict) or not isinstance(carried, dict) or "id" not in carried:
        return None
    outer = envelope.attributes()
    data = {name: value for name, value in detail.items() if name != CARRIED}
    if data and "data" in carried:  # `to_entry` never writes both
        return None
    inner = {"data": data} if data else {}
    others = {name: value for name, value in outer.items() if name not in {"id", "data"}}
    asserted = {name: value for name, value in outer.items() if name in _ASSERTED}
    try:
        return envelope_from({**others, **inner, **carried, **asserted}, max_bytes=max_bytes)
    except Invalid:
        return None


def _texts(value: JsonValue) -> tuple[str, ...]:
    items = value if isinstance(value, list) else []
    texts = tuple(item for item in items if isinstance(item, str))
    return texts if len(texts) == len(items) else ()
