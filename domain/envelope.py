"""The event envelope: CloudEvents 1.0, JSON, structured mode (CONTRACTS § 1).

Known attributes are checked; legal extension attributes are kept as they came. `data` may be any JSON value.
"""

import hashlib
import json
import re
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from domain.errors import Invalid, TooLarge
from domain.json_reader import count_strings, is_proven, read_json, refuse, write_json
from domain.times import check_not_ahead, format_time, parse_time
from domain.validation import PLAIN_TEXT, URI_REFERENCE, invalid_from

MAX_EVENT_BYTES: Final = 256 * 1024
MAX_BATCH: Final = 1000

BINARY_DATA: Final = "data_base64"
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", re.ASCII)
_EXTENSION_NAME = re.compile(r"[a-z0-9]+", re.ASCII)


def _time_text(text: str) -> str:
    try:
        parse_time(text)
    except Invalid as error:
        raise ValueError(error.reason) from None
    return text


TimeText = Annotated[str, AfterValidator(_time_text)]
Text128 = Annotated[str, Field(min_length=1, max_length=128, pattern=PLAIN_TEXT)]
Text256 = Annotated[str, Field(min_length=1, max_length=256, pattern=PLAIN_TEXT)]
UriReference = Annotated[str, Field(min_length=1, max_length=256, pattern=URI_REFERENCE)]


class Envelope(BaseModel):
    """One event.

    Attributes:
        id: 1-128 characters, unique per `source`.
        source: a URI reference of 1-256 characters.
        type: 1-128 characters; the router's event name.
        subject: the entity that the event concerns; required on the lifecycle path.
        time: RFC 3339 with an offset, kept as it came; see `occurred_at`.
        data: any JSON value. Binary data comes as base64 text under `data_base64` instead (CloudEvents JSON § 3.1).
    """

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    specversion: Literal["1.0"]
    id: Text128
    source: UriReference
    type: Text128
    subject: Text256 | None = None
    time: TimeText | None = None
    datacontenttype: Text256 | None = None
    dataschema: UriReference | None = None
    data: JsonValue = None

    @model_validator(mode="after")
    def _extensions_are_legal(self) -> Self:
        for name, value in (self.__pydantic_extra__ or {}).items():
            if name == BINARY_DATA:
                if not isinstance(value, str) or _BASE64.fullmatch(value) is None:
                    raise PydanticCustomError("binary_data", "must be base64 text (RFC 4648 § 4)", {"below": (name,)})
                if "data" in self.model_fields_set:
                    raise PydanticCustomError("binary_data", "excludes 'data'; send one of them", {"below": (name,)})
            elif _EXTENSION_NAME.fullmatch(name) is None:
                reason = "is no attribute name: use lower-case letters and digits only"
                raise PydanticCustomError("attribute_name", reason, {"below": (name,)})
        return self

    @property
    def occurred_at(self) -> datetime | None:
        """When it happened, in UTC, or None where the envelope does not say."""
        return None if self.time is None else parse_time(self.time)

    def attributes(self) -> dict[str, JsonValue]:
        """Give the attributes as they came, extensions included and nothing added."""
        return {name: value for name, value in self if name in self.model_fields_set}

    def to_json(self) -> str:
        """Write the wire form, compact."""
        return write_json(self.attributes())


_REQUIRED: Final = sum(field.is_required() for field in Envelope.model_fields.values())
# What `model_validate_json` calls, without its Python frame.
_validate_json: Callable[[bytes], Envelope] = Envelope.__pydantic_validator__.validate_json


def read_envelope(raw: bytes, now: datetime | None = None) -> Envelope:
    """Read one envelope from its wire form, strictly.

    Args:
        raw: UTF-8 JSON of at most 256 KiB.
        now: the clock, to refuse times more than 24 h ahead; None leaves that rule out.

    Raises:
        TooLarge: over 256 KiB.
        Invalid: with the place and the rule that is broken.
    """
    if len(raw) > MAX_EVENT_BYTES:
        check_size(len(raw))
    try:
        envelope = _validate_json(raw)
    except ValidationError as error:
        refuse(raw)
        raise invalid_from(error) from None
    strings = _count_strings(envelope)
    if raw.count(b'"') != 2 * strings and not is_proven(raw, strings):
        refuse(raw)
    if now is not None:
        _check_clock(envelope, now)
    return envelope


def _count_strings(envelope: Envelope) -> int:
    """Count the strings of an envelope's text as `count_strings` does: keys, then values."""
    value: dict[str, JsonValue] = vars(envelope)
    extra: dict[str, JsonValue] | None = envelope.__pydantic_extra__
    count = len(envelope.__pydantic_fields_set__) + _REQUIRED
    if value["subject"] is not None:
        count += 1
    if value["time"] is not None:
        count += 1
    if value["datacontenttype"] is not None:
        count += 1
    if value["dataschema"] is not None:
        count += 1
    data = value["data"]
    if isinstance(data, dict):
        count += count_strings(data, 2)
    elif data is not None:
        count += count_strings([data])
    if extra:
        for child in extra.values():
            count += 1 if type(child) is str else count_strings([child])
    return count


def envelope_from(
    value: JsonValue, now: datetime | None = None, *, max_bytes: int | None = MAX_EVENT_BYTES
) -> Envelope:
    """Check one envelope that `read_json` has read, for instance out of a batch.

    Args:
        value: the JSON object.
        now: the clock, to refuse times more than 24 h ahead; None leaves that rule out.
        max_bytes: how large it may be as compact UTF-8. None: it was checked as it came; since then the time of
            arrival was added and numbers were written out, so that it may be larger now.

    Raises:
        TooLarge: over `max_bytes`.
        Invalid: with the place and the rule that is broken.
    """
    if not isinstance(value, dict):
        raise Invalid("", "an event must be a JSON object")
    try:
        envelope = Envelope.model_validate(value)
    except ValidationError as error:
        raise invalid_from(error) from None
    if max_bytes is not None:
        check_size(len(envelope.to_json().encode()), max_bytes)
    if now is not None:
        _check_clock(envelope, now)
    return envelope


def read_batch(raw: bytes) -> list[JsonValue]:
    """Read a JSON array of envelopes, to be checked one by one with `envelope_from`.

    Raises:
        Invalid: not an array, empty, or more than 1,000 events.
    """
    value = read_json(raw, wrapping=1)
    if not isinstance(value, list):
        raise Invalid("", "a batch must be a JSON array of events")
    if not 1 <= len(value) <= MAX_BATCH:
        raise Invalid("", f"a batch must hold 1 to {MAX_BATCH} events, not {len(value)}")
    return value


def require_subject(envelope: Envelope) -> str:
    """Give the entity of an event on the lifecycle path.

    Raises:
        Invalid: when the event names none.
    """
    if envelope.subject is None:
        raise Invalid("subject", "is required: the entity that the event concerns")
    return envelope.subject


def with_time(envelope: Envelope, arrived_at: datetime) -> Envelope:
    """Give the event the time of its arrival where it has none (CONTRACTS § 1)."""
    if envelope.time is not None:
        return envelope
    return Envelope.model_validate({**envelope.attributes(), "time": format_time(arrived_at)})


def framed_digest(*parts: str) -> str:
    r"""Digest parts so that no two lists of parts meet: SHA-256 hex of their JSON array (CONTRACTS § 5).

    The array is written compactly (no white space), as UTF-8, without \\u escapes for printable text.
    """
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


def check_size(size: int, limit: int = MAX_EVENT_BYTES) -> None:
    """Hold an event's size against a limit, both in bytes.

    Raises:
        TooLarge: naming size and limit.
    """
    if size > limit:
        raise TooLarge("", f"is {size} bytes; the limit is {limit}", size, limit)


def _check_clock(envelope: Envelope, now: datetime) -> None:
    occurred_at = envelope.occurred_at
    if occurred_at is not None:
        check_not_ahead(occurred_at, now)
