"""What operators read: one event, its history, lists (R-103, R-109)."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from application.platform import Platform
from domain.errors import Invalid, NotFound
from domain.event import Head, ListQuery, Stream, check_query, write_cursor


class EventView(NamedTuple):
    """One event now. `state` and `since` are None while its first transition is still on its way."""

    event_id: str
    entity: str
    type: str
    source: str
    state: str | None
    since: datetime | None
    occurred_at: datetime
    sequence: int
    legal_moves: tuple[str, ...]


class Page(NamedTuple):
    """A page of a list, and the cursor to the next one, if there may be more."""

    items: Sequence[Head]
    next_cursor: str | None


async def show(platform: Platform, event_id: str) -> EventView:
    """Give where an event stands and where it may go, up to date.

    Raises:
        NotFound: no such event.
        Unavailable: the store did not answer.
    """
    head = await platform.store.head(event_id)
    if head is not None:
        return EventView(
            head.event_id,
            head.entity,
            head.type,
            head.source,
            head.state,
            head.since,
            head.occurred_at,
            head.sequence,
            platform.definition.legal_moves(head.state),
        )
    event = await platform.store.event(event_id)
    if event is None:
        raise NotFound(event_id)
    envelope = event.envelope
    occurred_at = envelope.occurred_at or event.arrived_at
    return EventView(event_id, event.entity, envelope.type, envelope.source, None, None, occurred_at, 0, ())


async def history(platform: Platform, event_id: str) -> Stream:
    """Give every transition of an event, oldest first, and the moves that it missed.

    Raises:
        NotFound: no such event.
        Unavailable: the store did not answer.
    """
    stream = await platform.store.stream(event_id)
    if stream.head is None and await platform.store.event(event_id) is None:
        raise NotFound(event_id)
    return stream


async def list_events(platform: Platform, query: ListQuery) -> Page:
    """Give a page of events, in order of their time.

    Reads one row more than the page, to know whether there is a next one: a full last page has no cursor.

    Raises:
        Invalid: a query that no index answers, or out of range; `place` names the parameter. A state that the
            lifecycle does not have is one, unless events still stand in it: a definition that lost it hides nobody.
        Unavailable: the store did not answer.
    """
    check_query(query)
    found = await platform.store.list_heads(query._replace(limit=query.limit + 1))
    states = platform.definition.states
    if not found and query.after is None and query.state is not None and query.state not in states:
        raise Invalid("state", f"is not a state of this lifecycle: {', '.join(states)}")
    page = found[: query.limit]
    return Page(page, write_cursor(query, page[-1]) if len(found) > query.limit else None)
