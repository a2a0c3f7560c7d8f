"""The daily job's rule: from a line of a raw object to rows of the table and rejections (R-506; ADR 0018).

The same rule runs on one machine and on Spark, and the same line gives the same rows whenever it is read. Of rows
with equal source and id one stays: what the table already holds, else the first by `order_of`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple

from pydantic import JsonValue
from pydantic_core import to_json

from domain.envelope import Envelope
from domain.errors import Invalid
from domain.event_schema import EventSchema
from domain.intake import (
    RawMessage,
    Rejection,
    decode,
    join_lines,
    object_name,
    read_line,
    write_quarantine_line,
)
from domain.typed_columns import compile_schema

Typed = Callable[[JsonValue], dict[str, Any] | None]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Row(NamedTuple):
    """An event as the table holds it: the columns of `domain.event_schema.BASE_COLUMNS`, and the typed ones.

    Attributes:
        source: as it came.
        id: unique for its source.
        type: as it came.
        subject: the entity, if the event names one.
        time: when it happened, or when it arrived where the event does not say.
        datacontenttype: as it came.
        dataschema: as it came.
        data: JSON text; None where the event has none.
        extensions: a JSON object of all other attributes; None where there are none.
        message_id: of the queue message that it came in.
        position: its place among the events of that message, from 0.
        arrived_at: when that message arrived.
        typed: the columns that are declared for its type, or None.
    """

    source: str
    id: str
    type: str
    subject: str | None
    time: datetime
    datacontenttype: str | None
    dataschema: str | None
    data: str | None
    extensions: str | None
    message_id: str
    position: int
    arrived_at: datetime
    typed: dict[str, Any] | None


class Rejected(NamedTuple):
    """A message of which something is not taken."""

    message: RawMessage
    rejections: tuple[Rejection, ...]

    def line(self) -> bytes:
        """Write it for quarantine."""
        return write_quarantine_line(self.message, self.rejections)


class Rule:
    """Makes rows out of lines, by the declared columns of some event types."""

    def __init__(self, schemas: Iterable[EventSchema] = ()) -> None:
        """Prepare the conversions.

        Args:
            schemas: at most one an event type.
        """
        self._typed: Mapping[str, Typed] = {schema.type: compile_schema(schema) for schema in schemas if schema.columns}

    def rows(self, line: bytes) -> tuple[list[Row], Rejected | None]:
        """Read a line.

        Returns:
            A row for each event that holds every rule, and the message with its rejections where some do not.
            Rows and rejections together are the events of the message; a message that cannot be read counts as one.

        Raises:
            Malformed: the line is none of a raw object, so the object is damaged.
        """
        message = read_line(line)
        events, rejections = decode(message.body, message.arrived_at)
        rejected = list(rejections)
        rows: list[Row] = []
        for position, event in zip(_positions(len(events), rejections), events, strict=True):
            try:
                rows.append(self._row(event, message, position))
            except Invalid as error:
                steps = (position, *error.steps) if len(events) + len(rejections) > 1 else error.steps
                rejected.append(Rejection("validate", error.code, steps, error.reason))
        return rows, Rejected(message, tuple(rejected)) if rejected else None

    def _row(self, event: Envelope, message: RawMessage, position: int) -> Row:
        value: dict[str, Any] = vars(event)
        given = event.model_fields_set
        data, extra = value["data"], event.__pydantic_extra__
        typed = self._typed.get(value["type"])
        return Row(
            value["source"],
            value["id"],
            value["type"],
            value["subject"],
            event.occurred_at or message.arrived_at,
            value["datacontenttype"],
            value["dataschema"],
            to_json(data).decode() if data is not None or "data" in given else None,
            to_json(extra).decode() if extra else None,
            message.message_id,
            position,
            message.arrived_at,
            None if typed is None else typed(data),
        )


class PackedObject(NamedTuple):
    """An object as it is kept: its name, and its bytes, which are one zstd frame."""

    name: str
    packed: bytes


class Staged(NamedTuple):
    """What came of some objects.

    Attributes:
        messages: how many lines they have.
        events: how many events; a message that cannot be read counts as one.
        rejects: how many of these are rejected.
        quarantine: for each object of which something is rejected, the object that keeps it, packed.
        damaged: the names of objects that cannot be read, and why; nothing of them is counted or staged.
    """

    messages: int
    events: int
    rejects: int
    quarantine: tuple[PackedObject, ...]
    damaged: tuple[tuple[str, str], ...]


class Committed(NamedTuple):
    """What a commit did.

    Attributes:
        rows: how many rows are new.
        duplicates: how many staged rows were there already, or more than once.
        days: new rows by the day of the event, oldest first.
        version: of the table as it is now; None where it has no rows yet.
        files_added: how many files were written.
        files_replaced: how many small ones of them took the place of.
    """

    rows: int
    duplicates: int
    days: dict[date, int]
    version: str | None
    files_added: int
    files_replaced: int


def quarantine_of(rejected: Iterable[Rejected]) -> tuple[str, bytes]:
    """Give the object that keeps what was rejected of one object: its name, and its lines.

    It is named by the messages, as the processor names its own, so that a rerun meets it again.
    """
    kept = list(rejected)
    name = object_name("quarantine", [one.message for one in kept])
    return name, join_lines(one.line() for one in kept)


def order_of(row: Row) -> tuple[datetime, str, int]:
    """Say which of two copies is the first; where this is equal, so are the rows."""
    return row.arrived_at, row.message_id, row.position


def day_of(row: Row) -> date:
    """Give the row's partition: the UTC day on which the event happened."""
    return row.time.date()


def days_to_load(day: date, back: int) -> list[date]:
    """Give the days of arrival whose objects a run for `day` looks for, oldest first.

    A batch is written after its messages arrived, up to as long after as the queue keeps them: what a run came too
    early for, a later one finds (FC-47).

    Args:
        day: the day that is asked for.
        back: how many days before it.
    """
    return [day - timedelta(days=number) for number in range(back, -1, -1)]


def _positions(events: int, rejections: Sequence[Rejection]) -> Iterable[int]:
    """Give the places of a message's good events: those that no rejection has."""
    if not events or not rejections:
        return range(events)
    taken = {rejection.path[0] for rejection in rejections}
    return [place for place in range(events + len(taken)) if place not in taken]
