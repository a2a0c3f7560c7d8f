"""What is kept of an account's activity, and how it is asked for (R-401 to R-404).

**Whose an event is.** The first of these that is a text of 1 to 256 characters without control characters:

1. `data.account_id`
2. `data.account`
3. the envelope's `account`, which is where EventBridge says the AWS account that published it (CONTRACTS § 1)

An event that names its account itself belongs to that one, because one AWS account publishes for many. What `data`
holds under these names and is no such text is passed over.

**Which report it is about.** `data.report_id`, a text of 1 to 256 characters or a whole number, which is taken as text.

**In which order.** By the event's time, then by a digest of its source and id. The digest tells events of one instant
apart, and can be shown in a cursor: what a writer put into an id cannot.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple, NoReturn

from pydantic import JsonValue

from domain.envelope import Envelope, framed_digest
from domain.errors import Invalid
from domain.event import DEFAULT_LIMIT, MAX_LIMIT
from domain.times import check_not_ahead, format_time
from domain.validation import PLAIN_TEXT

MAX_NAME: Final = 256
MAX_TYPE: Final = 128
ACTIVITY_ID_LENGTH: Final = 32

_PLAIN: Final = re.compile(PLAIN_TEXT)


class Sealed:
    """The text of an envelope as its writer sent it. It prints as nothing and no encoder can write it (R-403).

    Stores and the one reader open it with `unsealed`; a test holds that nobody else does.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        """Say how long it is."""
        return f"Sealed({self.size} characters)"

    @property
    def size(self) -> int:
        """How many characters it has."""
        return len(self._text)

    def __eq__(self, other: object) -> bool:
        """Compare what is sealed."""
        return isinstance(other, Sealed) and self._text == other._text

    def __hash__(self) -> int:
        """Agree with equality."""
        return hash(self._text)

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied out of the process."""
        raise TypeError("a sealed payload is not pickled")


def unsealed(payload: Sealed) -> str:
    """Give the text that was sealed, to a store that writes it or to the reader that redacts it."""
    return payload._text  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - the one place


class Pointer(NamedTuple):
    """Where an envelope is kept that is too large for a row.

    Attributes:
        key: of the payload store; it ends with the SHA-256 of the content.
        size: bytes of the content.
    """

    key: str
    size: int


class Activity(NamedTuple):
    """One row: an event of an account."""

    account: str
    occurred_at: datetime
    activity_id: str
    type: str
    report_id: str | None
    payload: Sealed | Pointer


class Place(NamedTuple):
    """A place in an account's activity: at the row with this time and id, whether it is still there or not."""

    occurred_at: datetime
    activity_id: str


class ActivityQuery(NamedTuple):
    """What somebody asks of an account's activity; both ends of the window are included."""

    account: str
    type: str | None = None
    report_id: str | None = None
    earliest: datetime | None = None
    latest: datetime | None = None
    descending: bool = True
    limit: int = DEFAULT_LIMIT

    def bound(self) -> list[str]:
        """Give what a cursor of this query belongs to: everything but the size of the page."""
        window = [format_time(moment) if moment else "" for moment in (self.earliest, self.latest)]
        return ["activity", self.account, self.type or "", self.report_id or "", *window, str(self.descending)]


class Stretch(NamedTuple):
    """A part of a query that a store looks through at a time.

    Attributes:
        after: where to go on; None: at the start.
        wanted: how many matches are enough.
        rows: how many rows to look at, matches or not. A store may look at fewer, but at one at least.
    """

    query: ActivityQuery
    after: Place | None
    wanted: int
    rows: int


class Found(NamedTuple):
    """What a stretch held.

    Attributes:
        activities: the matches, in order; there may be none although there are more further on (FC-25).
        next: where to go on: at the last row that was looked at, or at the last match that was wanted. None: the data
            ends, and only this says so.
    """

    activities: Sequence[Activity]
    next: Place | None


def activity_of(envelope: Envelope, now: datetime, *, account: str | None = None) -> Activity:
    """Make the row of an event.

    Args:
        envelope: a checked one.
        now: the clock: the time of an event that says none.
        account: whose it is where it does not say; None refuses such an event.

    Raises:
        Invalid: it says no account, or a time more than 24 h ahead of the clock.
    """
    owner = account_of(envelope) or account
    if owner is None:
        raise Invalid("account", "is missing: the event names none as `account`, `data.account_id` or `data.account`")
    occurred_at = envelope.occurred_at or now
    check_not_ahead(occurred_at, now)
    return Activity(
        owner,
        occurred_at,
        activity_id(envelope),
        envelope.type,
        report_of(envelope),
        Sealed(envelope.to_json()),
    )


def activity_id(envelope: Envelope) -> str:
    """Give the id of an event's row, the same for every copy of the event: 32 hex digits."""
    return framed_digest("activity", envelope.source, envelope.id)[:ACTIVITY_ID_LENGTH]


def account_of(envelope: Envelope) -> str | None:
    """Give whose an event is, by the rule above; None where it does not say."""
    extensions: dict[str, JsonValue] = envelope.__pydantic_extra__ or {}
    said = [*_data(envelope, "account_id", "account"), extensions.get("account")]
    return next((name for name in said if isinstance(name, str) and _is_name(name)), None)


def report_of(envelope: Envelope) -> str | None:
    """Give which report an event is about, by the rule above; None where it does not say."""
    [report] = _data(envelope, "report_id")
    if isinstance(report, int) and not isinstance(report, bool):
        report = str(report)
    return report if isinstance(report, str) and _is_name(report) else None


def place_of(activity: Activity) -> Place:
    """Give where a row stands."""
    return Place(activity.occurred_at, activity.activity_id)


def place_key(place: Place) -> str:
    """Give a place as text of one width, so that order by text is order by place (FC-54)."""
    return f"{format_time(place.occurred_at)}#{place.activity_id}"


def check_query(query: ActivityQuery) -> None:
    """Refuse a query that can have no answer.

    Raises:
        Invalid: with the name of the parameter.
    """
    for name, text, longest in (
        ("account", query.account, MAX_NAME),
        ("type", query.type, MAX_TYPE),
        ("report_id", query.report_id, MAX_NAME),
    ):
        if text is not None and not 1 <= len(text) <= longest:
            raise Invalid(name, f"must have 1 to {longest} characters")
    if not 1 <= query.limit <= MAX_LIMIT:
        raise Invalid("limit", f"must lie between 1 and {MAX_LIMIT}")
    if query.earliest and query.latest and query.earliest > query.latest:
        raise Invalid("from", "must not be later than 'to'")


def matches(query: ActivityQuery, type_: str, report_id: str | None) -> bool:
    """Say whether a row of the query's account and window is asked for."""
    return query.type in {None, type_} and query.report_id in {None, report_id}


def _data(envelope: Envelope, *names: str) -> list[JsonValue]:
    data = envelope.data
    return [data.get(name) for name in names] if isinstance(data, dict) else [None] * len(names)


def _is_name(text: str) -> bool:
    return 1 <= len(text) <= MAX_NAME and _PLAIN.fullmatch(text) is not None
