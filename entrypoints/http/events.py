"""The lifecycle's calls: ingest, list, show, history, move (CONTRACTS § 4)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse

from application import queries
from application.ingest import Ingested, ingest
from application.move import move
from application.platform import Platform
from domain.access import Caller, Scope
from domain.envelope import Envelope, envelope_from, read_batch, read_envelope
from domain.errors import InterlockError, Invalid, Retryable
from domain.event import DEFAULT_LIMIT, ListQuery, read_cursor
from domain.json_reader import read_json
from domain.lifecycle import Accepted, Move, StateName
from domain.messages import Reason
from domain.times import parse_time
from domain.validation import invalid_from
from entrypoints import shapes
from entrypoints.http.problems import public_reason
from entrypoints.http.reading import (
    idempotency_key,
    identify,
    media_type,
    parse,
    path_event_id,
    query_parameters,
    read_body,
)
from ports.access import Access

JSON: Final = "application/json"
CLOUD_EVENT: Final = "application/cloudevents+json"
CLOUD_EVENTS: Final = "application/cloudevents-batch+json"
LIST_PARAMETERS: Final = ("state", "entity", "from", "to", "order", "limit", "cursor")

_ARRAY: Final = re.compile(rb"[ \t\r\n]*\[")
_LIMIT: Final = re.compile(r"[0-9]{1,4}", re.ASCII)


class MoveRequest(BaseModel):
    """A move that someone asks for."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    to: StateName = Field(description="the state to move to", examples=["open"])
    reason: Reason | None = Field(default=None, description="why, for the history")
    expected_state: StateName | None = Field(
        default=None, description="the state that the caller saw; in any other the move is refused"
    )


@dataclass(frozen=True, slots=True)
class EventCalls:
    """The handlers; each takes a request and gives its response, and raises errors of the tree."""

    platform: Platform
    access: Access | None
    max_body_bytes: int

    async def post_events(self, request: Request) -> JSONResponse:
        """Take in one event or a batch (R-105)."""
        await self._caller(request, "ingest")
        query_parameters(request, ())
        kind = media_type(request, (CLOUD_EVENT, CLOUD_EVENTS, JSON))
        raw = await read_body(request, self.max_body_bytes)
        now = self.platform.clock.now()
        if kind == CLOUD_EVENTS or (kind == JSON and _ARRAY.match(raw)):
            return accepted(await self._ingest_batch(await parse(partial(_read_events, now=now), raw)))
        (answer,) = await ingest(self.platform, [await parse(partial(read_envelope, now=now), raw)])
        if isinstance(answer, InterlockError):
            raise answer
        return accepted([answer])

    async def _ingest_batch(self, events: Sequence[Envelope | Invalid]) -> list[Ingested | InterlockError]:
        answers = iter(await ingest(self.platform, [event for event in events if isinstance(event, Envelope)]))
        merged = [event if isinstance(event, Invalid) else next(answers) for event in events]
        if all(isinstance(answer, Retryable) for answer in merged):
            raise next(answer for answer in merged if isinstance(answer, Retryable))
        return merged

    async def get_events(self, request: Request) -> JSONResponse:
        """Give a page of events by state, entity, or both (R-109)."""
        await self._caller(request, "view")
        page = await queries.list_events(self.platform, list_query(query_parameters(request, LIST_PARAMETERS)))
        return JSONResponse(shapes.page(page))

    async def get_event(self, request: Request) -> JSONResponse:
        """Give one event as it stands now."""
        await self._caller(request, "view")
        query_parameters(request, ())
        view = await queries.show(self.platform, path_event_id(request))
        return JSONResponse(shapes.event(view))

    async def get_history(self, request: Request) -> JSONResponse:
        """Give every transition of an event, oldest first (R-103)."""
        await self._caller(request, "view")
        query_parameters(request, ())
        stream = await queries.history(self.platform, path_event_id(request))
        return JSONResponse(shapes.history(stream))

    async def post_transition(self, request: Request) -> JSONResponse:
        """Move an event, once for each `Idempotency-Key` (R-101, R-110)."""
        caller = await self._caller(request, "operate")
        query_parameters(request, ())
        media_type(request, (JSON,))
        key = idempotency_key(request)
        asked = read_move(await read_body(request, self.max_body_bytes))
        decision = await move(
            self.platform,
            Move(
                event_id=path_event_id(request),
                entity="",
                to=asked.to,
                actor=caller.name,
                command_id=self.platform.ids.new_id() if key is None else shapes.command_id_of(key),
                reason=asked.reason,
                expected_state=asked.expected_state,
            ),
        )
        return JSONResponse(shapes.transition(decision.transition), 201 if isinstance(decision, Accepted) else 200)

    async def _caller(self, request: Request, scope: Scope) -> Caller:
        return await identify(request, self.access, self.platform.clock.now(), scope)


def _read_events(raw: bytes, now: datetime) -> list[Envelope | Invalid]:
    """Read a batch: each event, or what is wrong with it."""
    events: list[Envelope | Invalid] = []
    for value in read_batch(raw):
        try:
            events.append(envelope_from(value, now))
        except Invalid as error:
            events.append(error)
    return events


def read_move(raw: bytes) -> MoveRequest:
    """Read the body of a move.

    Raises:
        Invalid: with the place and the rule that is broken.
    """
    try:
        return MoveRequest.model_validate(read_json(raw))
    except ValidationError as error:
        raise invalid_from(error) from None


def list_query(given: dict[str, str]) -> ListQuery:
    """Make the query that parameters ask for.

    Raises:
        Invalid: naming the parameter.
        BadCursor: the cursor is of another query, or none of ours.
    """
    limit, order = given.get("limit", str(DEFAULT_LIMIT)), given.get("order", "asc")
    if _LIMIT.fullmatch(limit) is None:
        raise Invalid("limit", "must be a whole number")
    if order not in {"asc", "desc"}:
        raise Invalid("order", "must be asc or desc")
    query = ListQuery(
        state=given.get("state"),
        entity=given.get("entity"),
        earliest=parse_time(given["from"], "from") if "from" in given else None,
        latest=parse_time(given["to"], "to") if "to" in given else None,
        descending=order == "desc",
        limit=int(limit),
    )
    return read_cursor(query, given["cursor"]) if "cursor" in given else query


def accepted(answers: Sequence[Ingested | InterlockError]) -> JSONResponse:
    """Say which events of a request are taken in, and why the others are not."""
    return JSONResponse(
        {
            "accepted": [answer.event_id for answer in answers if isinstance(answer, Ingested)],
            "rejected": [
                {"index": index, "reason": public_reason(answer)}
                for index, answer in enumerate(answers)
                if isinstance(answer, InterlockError)
            ],
        },
        202,
    )
