"""How domain values are written as DynamoDB items; docs/reference/table.md shows one of each.

Marshalling is by hand: every value is text or one whole number, and the envelope is kept as JSON text, so that
what came in comes out (FC-28). What is None is absent, never null or blank (FC-57).
"""

import hashlib
import zlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from domain.envelope import Envelope
from domain.errors import CorruptHistory, Invalid, TooLarge
from domain.event import Head, Missed, RecordedEvent, Stream, fact_key, list_key
from domain.lifecycle import Transition
from domain.times import format_time, parse_time

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import AttributeValueTypeDef

    Item: TypeAlias = Mapping[str, AttributeValueTypeDef]

# Sort keys of one partition, in their order: `#event` | `+missed#…` | `2013-…Z#0000000001` … | `~head`.
# One query from the second to the last leaves the envelope, by far the largest item, unread.
EVENT_KEY: Final = "#event"
MISSED_PREFIX: Final = "+missed#"
HEAD_KEY: Final = "~head"

MAX_ITEM_BYTES: Final = 400 * 1024
MAX_KEY_BYTES: Final[Mapping[str, int]] = {"pk": 2048, "sk": 1024, "entity": 2048, "state_shard": 2048, "listed": 1024}


def event_item(event: RecordedEvent) -> "Item":
    """Write a recorded envelope."""
    envelope = event.envelope
    return _item(
        pk=event.event_id,
        sk=EVENT_KEY,
        entity=event.entity,
        source=envelope.source,
        type=envelope.type,
        arrived_at=format_time(event.arrived_at),
        envelope=envelope.to_json(),
    )


def event_from(item: "Item") -> RecordedEvent:
    """Read a recorded envelope.

    Raises:
        CorruptHistory: the item is not one that `event_item` writes.
    """
    event_id = _text(item, "pk")
    try:
        envelope = Envelope.model_validate_json(_text(item, "envelope"))
    except ValueError:
        raise CorruptHistory(event_id, "its recorded envelope cannot be read") from None
    return RecordedEvent(event_id, _text(item, "entity"), parse_time(_text(item, "arrived_at")), envelope)


def head_item(head: Head, shards: int) -> "Item":
    """Write a head: the only items with `listed`, and so the only ones in the indexes."""
    return {
        **_item(
            pk=head.event_id,
            sk=HEAD_KEY,
            entity=head.entity,
            type=head.type,
            source=head.source,
            occurred_at=format_time(head.occurred_at),
            state=head.state,
            since=format_time(head.since),
            state_shard=state_shard(head.state, zlib.crc32(head.event_id.encode()) % shards),
            listed=list_key(head.occurred_at, head.event_id),
        ),
        "sequence": {"N": str(head.sequence)},
    }


def head_from(item: "Item") -> Head:
    """Read a head.

    Raises:
        CorruptHistory: the item is not one that `head_item` writes.
    """
    return Head(
        event_id=_text(item, "pk"),
        entity=_text(item, "entity"),
        type=_text(item, "type"),
        source=_text(item, "source"),
        occurred_at=parse_time(_text(item, "occurred_at")),
        state=_text(item, "state"),
        sequence=_number(item, "sequence"),
        since=parse_time(_text(item, "since")),
    )


def fact_item(fact: Transition) -> "Item":
    """Write a fact."""
    return {
        **_item(
            pk=fact.event_id,
            sk=fact_key(fact.at, fact.sequence),
            entity=fact.entity,
            from_state=fact.from_state,
            to_state=fact.to_state,
            at=format_time(fact.at),
            actor=fact.actor,
            reason=fact.reason,
            command_id=fact.command_id,
        ),
        "sequence": {"N": str(fact.sequence)},
    }


def missed_item(missed: Missed) -> "Item":
    """Write a missed move, under a key that its command alone decides."""
    return _item(
        pk=missed.event_id,
        sk=MISSED_PREFIX + hashlib.sha256(missed.command_id.encode(errors="surrogatepass")).hexdigest(),
        command_id=missed.command_id,
        to_state=missed.to,
        at=format_time(missed.at),
        reason=missed.reason,
    )


def stream_from(items: "Iterable[Item]") -> Stream:
    """Read what one partition holds besides the envelope, in the order of its sort keys.

    Raises:
        CorruptHistory: an item is not one that this module writes.
    """
    head: Head | None = None
    history: list[Transition] = []
    missed: list[Missed] = []
    for item in items:
        key = _text(item, "sk")
        if key == HEAD_KEY:
            head = head_from(item)
        elif key.startswith(MISSED_PREFIX):
            missed.append(_missed_from(item))
        else:
            history.append(_fact_from(item))
    missed.sort(key=lambda one: (one.at, one.command_id))
    return Stream(head, tuple(history), tuple(missed))


def state_shard(state: str, shard: int) -> str:
    """Give the partition key of `by_state`: many events share a state, so each state is spread over shards."""
    return f"{state}#{shard}"


def item_size(item: "Item") -> int:
    """Measure an item as DynamoDB does: names and texts as UTF-8, a number as half its digits and one byte.

    Raises:
        Invalid: a text holds half a surrogate pair, which UTF-8 has no bytes for.
    """
    size = 0
    for name, value in item.items():
        text = value.get("S")
        if text is not None:
            size += len(name) + _utf8_length(name, text)
        else:
            size += len(name) + 1 + (len(value.get("N", "")) + 1) // 2
    return size


def checked(item: "Item") -> "Item":
    """Hold an item against DynamoDB's limits before it is sent, as not every engine does (FC-33, FC-34).

    Raises:
        TooLarge: over 400 KB, or a key over its limit; size and limit are named.
        Invalid: a blank key, or half a surrogate pair.
    """
    for name, limit in MAX_KEY_BYTES.items():
        if name in item:
            size = _utf8_length(name, item[name].get("S", ""))
            if size == 0:
                raise Invalid(name, "is a key of the table and must not be empty")
            if size > limit:
                raise TooLarge(name, f"is a key of {size} bytes; the limit is {limit}", size, limit)
    size = item_size(item)
    if size > MAX_ITEM_BYTES:
        raise TooLarge("", f"is an item of {size} bytes; the limit is {MAX_ITEM_BYTES}", size, MAX_ITEM_BYTES)
    return item


def may_be_key(text: str) -> bool:
    """Say whether a text can be a partition key at all; where it cannot, nothing is stored under it."""
    try:
        return 1 <= len(text.encode()) <= MAX_KEY_BYTES["pk"]
    except UnicodeEncodeError:
        return False


def _item(**texts: str | None) -> "dict[str, AttributeValueTypeDef]":
    return {name: {"S": text} for name, text in texts.items() if text is not None}


def _fact_from(item: "Item") -> Transition:
    return Transition(
        event_id=_text(item, "pk"),
        entity=_text(item, "entity"),
        from_state=item.get("from_state", {}).get("S"),
        to_state=_text(item, "to_state"),
        at=parse_time(_text(item, "at")),
        actor=_text(item, "actor"),
        reason=item.get("reason", {}).get("S"),
        command_id=_text(item, "command_id"),
        sequence=_number(item, "sequence"),
    )


def _missed_from(item: "Item") -> Missed:
    return Missed(
        event_id=_text(item, "pk"),
        command_id=_text(item, "command_id"),
        to=_text(item, "to_state"),
        at=parse_time(_text(item, "at")),
        reason=_text(item, "reason"),
    )


def _text(item: "Item", name: str) -> str:
    text = item.get(name, {}).get("S")
    if text is None:
        raise CorruptHistory(item.get("pk", {}).get("S", ""), f"an item has no text {name!r}")
    return text


def _number(item: "Item", name: str) -> int:
    digits = item.get(name, {}).get("N", "")
    if not digits.isdecimal():
        raise CorruptHistory(item.get("pk", {}).get("S", ""), f"an item has no number {name!r}")
    return int(digits)


def _utf8_length(name: str, text: str) -> int:
    try:
        return len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        raise Invalid(name, "holds half a surrogate pair") from None
