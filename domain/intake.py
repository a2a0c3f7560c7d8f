"""The front door's messages: what one may hold, and how they are kept (CONTRACTS § 1; R-502, R-504; ADR 0016).

A message is the text of one queue message. It is one event or a batch, as JSON, as base64 of JSON, or as base64 of
gzip of JSON. It is kept as it came, one line of an object each:

    raw/date=2026-01-31/<digest>.jsonl.zst          {"message_id", "arrived_at", "receive_count", "body"}
    quarantine/date=2026-01-31/<digest>.jsonl.zst   the same and {"reason", "stage"}

`date` is the UTC day of the earliest arrival in the object, and the digest is of its message ids: an equal batch meets
its name again, and no other does. Whoever reads a line decodes it by the same rule, held against the time of arrival.
"""

import binascii
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, date, datetime
from json import encoder, loads
from typing import Any, Final, Literal, NamedTuple

from pydantic_core import from_json

from domain.envelope import Envelope, envelope_from, framed_digest, read_batch, read_envelope
from domain.errors import Invalid, Malformed, TooLarge
from domain.json_reader import place_of, read_json
from domain.times import format_time, parse_time
from domain.validation import placed

MAX_MESSAGE_BYTES: Final = 1024 * 1024
"""What SQS takes, in bytes of UTF-8."""

MAX_DECODED_BYTES: Final = 8 * 1024 * 1024
"""How large a message may be once unpacked."""

MAX_GZIP_MEMBERS: Final = 64

RAW: Final = "raw"
QUARANTINE: Final = "quarantine"
SUFFIX: Final = ".jsonl.zst"

Stage = Literal["decode", "validate"]
Kind = Literal["raw", "quarantine"]

_GZIP: Final = b"\x1f\x8b"
_GZIP_WINDOW: Final = 31
_JSON_STARTS: Final = (b"{", b"[")
_SPACE: Final = b" \t\r\n"
_BASE64 = re.compile(rb"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
# What XML 1.0 does not know, as a list: its complement takes ten times as long to compile, in each cold start.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_ATTRIBUTES: Final = frozenset(Envelope.model_fields)
# The standard library's own writers of strings, in C: whole dicts through a `JSONEncoder` cost half as much again.
_quote: Callable[[str], str] = vars(encoder)["encode_basestring"]
_quote_ascii: Callable[[str], str] = vars(encoder)["encode_basestring_ascii"]


class RawMessage(NamedTuple):
    """A message as it is kept.

    Attributes:
        message_id: the queue's own.
        arrived_at: when the queue took it, in UTC.
        receive_count: how often the queue had handed it out when it was kept.
        body: the text as it came.
    """

    message_id: str
    arrived_at: datetime
    receive_count: int
    body: str


class Rejection(NamedTuple):
    """Why a message, or one event of it, is not taken.

    Attributes:
        stage: `decode`: the text is no strict JSON, whichever way it was packed; `validate`: an event breaks a rule.
        code: of the error: `malformed`, `too_large`, `invalid`.
        path: the steps to the place; the first is the number of the event where the message is a batch.
        reason: the rule. It holds no content; the path may, as keys are the sender's.
    """

    stage: Stage
    code: str
    path: tuple[str | int, ...]
    reason: str

    def __str__(self) -> str:
        """Name the place, then the reason."""
        place = place_of(self.path)
        return f"{place}: {self.reason}" if place else self.reason

    def without_content(self) -> str:
        """Say the same for a log: keys that are the sender's own are written `*`."""
        steps = [step if isinstance(step, int) or step in _ATTRIBUTES else "*" for step in self.path]
        return str(self._replace(path=tuple(steps))).replace('["*"]', ".*").removeprefix(".")


class Decoded(NamedTuple):
    """What a message holds: events, and rejections of others of its events, or of all of it."""

    events: Sequence[Envelope]
    rejections: Sequence[Rejection]


class Partition(NamedTuple):
    """Where an event belongs: the UTC day on which it happened, and its type."""

    day: date
    type: str


def decode(body: str, arrived_at: datetime) -> Decoded:
    """Read and check one message.

    Args:
        body: the text of the queue message.
        arrived_at: when it arrived; times may be at most 24 h ahead of it. So a message means the same whenever it is
            read.

    Returns:
        The events in order, and a rejection for each that breaks a rule; or one rejection of the whole.
    """
    try:
        raw = body.encode(errors="surrogatepass")
        if not raw.startswith(b"{"):
            raw = _unpack(raw)
            if raw.lstrip(_SPACE).startswith(b"["):
                return _check_each(read_batch(raw), arrived_at)
        return Decoded((read_envelope(raw, arrived_at),), ())
    except Invalid as error:
        return Decoded((), (_rejection(error),))


def partition_of(event: Envelope, arrived_at: datetime) -> Partition:
    """Give the partition of a checked event; one without a time happened when it arrived (CONTRACTS § 1)."""
    return Partition((event.occurred_at or arrived_at).astimezone(UTC).date(), event.type)


def to_body(raw: bytes) -> str:
    """Make the text of a queue message out of what a client sent: itself where a queue carries it, else base64.

    Queues carry text of the characters that XML 1.0 knows. Bytes such as gzip, and U+FFFE, are packed; `decode` sees.
    """
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return binascii.b2a_base64(raw, newline=False).decode()
    return text if text and _NOT_XML.search(text) is None else binascii.b2a_base64(raw, newline=False).decode()


def check_body(body: str) -> None:
    """Hold a text against what a queue carries (FC-34).

    Raises:
        TooLarge: over 1 MiB as UTF-8.
        Invalid: empty, or with a character that XML 1.0 does not know.
    """
    if not body:
        raise Invalid("", "is empty")
    if _NOT_XML.search(body) is not None:
        raise Invalid("", "holds a character that queues do not carry; send it as base64")
    size = len(body.encode())
    if size > MAX_MESSAGE_BYTES:
        raise TooLarge("", f"is {size} bytes; the limit is {MAX_MESSAGE_BYTES}", size, MAX_MESSAGE_BYTES)


def check_bodies(bodies: Sequence[str]) -> None:
    """Hold each text against what a queue carries.

    Raises:
        TooLarge, Invalid: the place starts with the number of the text.
    """
    for number, body in enumerate(bodies):
        try:
            check_body(body)
        except Invalid as error:
            raise placed(error, (number, *error.steps)) from None


def object_name(kind: Kind, messages: Collection[RawMessage]) -> str:
    """Name the object of a batch: equal for equal batches in whatever order, and for no others (FC-43).

    Ids may hold anything: only their digest is in the name.
    """
    day = min(message.arrived_at for message in messages).astimezone(UTC).date()
    digest = framed_digest(*sorted({message.message_id for message in messages}))
    return f"{prefix_of(kind, day)}{digest}{SUFFIX}"


def prefix_of(kind: Kind, day: date) -> str:
    """Give what the names of a day's objects start with."""
    return f"{kind}/date={day.isoformat()}/"


def write_line(message: RawMessage) -> bytes:
    """Write a message as a line of JSON, without the line end."""
    return _line(message, "")


def write_quarantine_line(message: RawMessage, rejections: Sequence[Rejection]) -> bytes:
    """Write a rejected message as a line of JSON, with the first of its rejections and the number of the others."""
    first, others = rejections[0], len(rejections) - 1
    reason = str(first) + (f" (and {others} more events)" if others else "")
    return _line(message, f',"reason":{_quote_ascii(reason)},"stage":"{first.stage}"')


def read_line(line: bytes) -> RawMessage:
    """Read a line of either kind of object.

    Raises:
        Malformed: it is none.
    """
    try:
        value = _loads(line)
        message_id, receive_count, body = value["message_id"], value["receive_count"], value["body"]
        arrived_at = parse_time(value["arrived_at"], "arrived_at")
    except (ValueError, LookupError, TypeError, RecursionError):
        raise Malformed("", "is no line of a raw object") from None
    except Invalid as error:
        raise Malformed(error.place, error.reason) from None
    if not (isinstance(message_id, str) and isinstance(body, str) and type(receive_count) is int):
        raise Malformed("", "is no line of a raw object")
    return RawMessage(message_id, arrived_at, receive_count, body)


def _loads(line: bytes) -> Any:
    """Read JSON: by pydantic's reader, and what it refuses, such as half of a surrogate pair, by Python's."""
    try:
        return from_json(line)
    except ValueError:
        return loads(line.decode())


def join_lines(lines: Iterable[bytes]) -> bytes:
    """Put lines together; each ends with a line feed."""
    return b"\n".join([*lines, b""])


def split_lines(data: bytes) -> list[bytes]:
    """Take them apart again."""
    return [line for line in data.split(b"\n") if line]


def _check_each(values: Sequence[Any], arrived_at: datetime) -> Decoded:
    events: list[Envelope] = []
    rejections: list[Rejection] = []
    for index, value in enumerate(values):
        try:
            events.append(envelope_from(value, arrived_at))
        except Invalid as error:
            rejections.append(_rejection(placed(error, (index, *error.steps))))
    return Decoded(tuple(events), tuple(rejections))


def _rejection(error: Invalid) -> Rejection:
    in_text = isinstance(error, Malformed)
    return Rejection("decode" if in_text else "validate", error.code, error.steps, error.reason)


def _unpack(raw: bytes) -> bytes:
    """Give the JSON object or array of a message.

    | the text is | it is |
    |---|---|
    | `{…` or `[…` | taken as it is |
    | base64 of `{…` or `[…` | unpacked |
    | base64 of gzip | unpacked twice; what comes out must start with `{` or `[` |
    | anything else | refused |

    Raises:
        Malformed: with what is wrong.
    """
    text = raw.strip(_SPACE)
    if text.startswith(_JSON_STARTS):
        return raw
    if not text:
        raise Malformed("", "is empty")
    if len(text) % 4 == 0 and _BASE64.fullmatch(text):
        inner = binascii.a2b_base64(text)
        if inner.startswith(_GZIP):
            inner = _gunzip(inner)
            if not inner.lstrip(_SPACE).startswith(_JSON_STARTS):
                raise Malformed("", "is gzip, but not of a JSON object or array")
            return inner
        if inner.lstrip(_SPACE).startswith(_JSON_STARTS):
            return inner
    read_json(raw)
    raise Malformed("", "must be a JSON object or array")


def _gunzip(packed: bytes) -> bytes:
    """Unpack gzip of one or a few members, and never more than `MAX_DECODED_BYTES`."""
    found = bytearray()
    for _ in range(MAX_GZIP_MEMBERS):
        reader = zlib.decompressobj(_GZIP_WINDOW)
        try:
            found += reader.decompress(packed, MAX_DECODED_BYTES + 1 - len(found))
        except zlib.error:
            raise Malformed("", "is gzip that is damaged, or has other bytes after it") from None
        if len(found) > MAX_DECODED_BYTES:
            raise Malformed("", f"unpacks to more than {MAX_DECODED_BYTES} bytes")
        if not reader.eof:
            raise Malformed("", "is gzip that was cut short")
        packed = reader.unused_data
        if not packed:
            return bytes(found)
    raise Malformed("", f"is gzip of more than {MAX_GZIP_MEMBERS} members")


def _line(message: RawMessage, more: str) -> bytes:
    head = f'"arrived_at":"{format_time(message.arrived_at)}","receive_count":{message.receive_count}'
    try:
        return f'{{"message_id":{_quote(message.message_id)},{head},"body":{_quote(message.body)}{more}}}'.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can carry
        message_id, body = _quote_ascii(message.message_id), _quote_ascii(message.body)
        return f'{{"message_id":{message_id},{head},"body":{body}{more}}}'.encode()
