"""The shapes of answers, for the OpenAPI document. Handlers write plain dicts; tests hold the two equal."""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, WithJsonSchema

from domain.envelope import Text128, Text256, UriReference
from domain.event import MAX_LIMIT

Timestamp = Annotated[
    str,
    WithJsonSchema(
        {
            "type": "string",
            "format": "date-time",
            "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$",
            "examples": ["2013-01-01T10:15:00.000000Z"],
            "description": "RFC 3339 in UTC, with microseconds",
        }
    ),
]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Event(BaseModel):
    """A CloudEvent 1.0 in JSON, structured mode; extension attributes are kept as they came."""

    model_config = ConfigDict(extra="allow")

    specversion: Literal["1.0"]
    id: Text128 = Field(description="unique within `source`")
    source: UriReference = Field(description="a URI reference", examples=["/feeds/bts"])
    type: Text128 = Field(examples=["FlightDelayedEvent"])
    subject: Text256 = Field(description="the entity that the event concerns", examples=["N14228"])
    time: Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})] | None = Field(
        default=None,
        description="RFC 3339 with an offset, years 1970-2200, at most 24 h ahead; without it, the time of arrival",
    )
    datacontenttype: Text256 | None = None
    dataschema: UriReference | None = None
    data: JsonValue = None


class RejectedEvent(_Shape):
    """An event of a batch that was not taken in."""

    index: int = Field(ge=0, description="its place in the batch, from 0")
    reason: str


class Ingestion(_Shape):
    """What became of the events; copies of earlier ones are accepted too."""

    accepted: list[str] = Field(description="event ids, in the order of the request")
    rejected: list[RejectedEvent]


class Intake(_Shape):
    """What the front door keeps; one body is one message."""

    message_ids: list[str] = Field(description="ids under which the queue has it", min_length=1)


class EventItem(_Shape):
    """Where an event stands."""

    event_id: str
    entity: str
    type: str
    source: str
    state: str | None = Field(description="null while the first transition is on its way")
    since: Timestamp | None
    occurred_at: Timestamp
    sequence: int = Field(ge=0, description="how many transitions there were")


class EventDetail(EventItem):
    """Where an event stands, and where it may go."""

    legal_moves: list[str]


class EventPage(_Shape):
    """A page of a list."""

    items: list[EventItem] = Field(max_length=MAX_LIMIT)
    next_cursor: str | None = Field(description="for the next page; null on the last")


class Transition(_Shape):
    """A move that happened."""

    event_id: str
    entity: str
    from_: str | None = Field(alias="from", description="null in the first transition")
    to: str
    at: Timestamp
    actor: str
    reason: str | None
    command_id: str
    sequence: int = Field(ge=1)


class MissedMove(_Shape):
    """A move that was asked for and never became a transition."""

    command_id: str
    to: str
    at: Timestamp
    reason: str


class History(_Shape):
    """All that happened to an event, oldest first."""

    items: list[Transition]
    missed: list[MissedMove]


class Explanation(_Shape):
    """Where an event would go."""

    outcome: Literal["start", "catch_all", "skip"]
    workflow: str = Field(description="that would be started; for `skip`, that would have been")
    workflow_id: str = Field(description="with `{event_id}` in the place of the event's id")
    task_queue: str
    why: str


class ActivityEvent(BaseModel):
    """A redacted event; its extension attributes are there too, redacted like the rest."""

    model_config = ConfigDict(extra="allow")

    specversion: Literal["1.0"] = "1.0"
    type: str
    time: Timestamp
    id: str | None = None
    source: str | None = None
    subject: str | None = None
    data: JsonValue = None
    payloadmissing: bool | None = Field(
        default=None, description="true where the event is no longer kept: then there is no more than this of it"
    )


class ActivityPage(_Shape):
    """A page of an account's activity."""

    items: list[ActivityEvent] = Field(max_length=MAX_LIMIT)
    next_cursor: str | None = Field(
        description="for the next page; null on the last. A page may be short, or empty, and have one: looking for "
        "more would have taken too long, and the next call goes on"
    )


class BadInput(_Shape):
    """One thing that is wrong with a request."""

    pointer: str = Field(description="JSON pointer (RFC 6901) into the body; `/name` for a parameter or header")
    detail: str


class Problem(BaseModel):
    """Problem details (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    instance: str | None = Field(default=None, description="names the log line of an unexpected error")
    errors: list[BadInput] | None = None
    size: int | None = Field(default=None, description="bytes that were too many")
    limit: int | None = Field(default=None, description="bytes that are allowed")


class MoveProblem(Problem):
    """Why a move was refused, and what is legal now."""

    current_state: str | None
    legal_moves: list[str]


class Health(_Shape):
    """The process answers."""

    status: str = Field(pattern="^ok$")


class Readiness(_Shape):
    """Everything that the process needs answers."""

    status: str = Field(pattern="^ok$")
    dependencies: dict[str, str]


class ReadinessProblem(Problem):
    """Something that the process needs does not answer."""

    dependencies: dict[str, str] = Field(description="`ok` or `failed`, by name")


ANSWERS: Final = (
    Ingestion,
    Intake,
    EventPage,
    EventDetail,
    History,
    ActivityPage,
    Transition,
    Explanation,
    Problem,
    MoveProblem,
    Health,
    Readiness,
    ReadinessProblem,
)
