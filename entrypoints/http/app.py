"""The application: routes, their documentation, and what stands around them."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from importlib.metadata import version
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from application.activity_history import ActivityHistory
from application.explain import Explain
from application.platform import Platform
from entrypoints.http import document, health
from entrypoints.http.activity import ActivityCalls
from entrypoints.http.document import (
    DocumentedApp,
    Responses,
    activity_parameters,
    answer,
    list_parameters,
    problems,
    secured,
)
from entrypoints.http.edge import Edge
from entrypoints.http.events import EventCalls
from entrypoints.http.intake import IntakeCalls
from entrypoints.http.problems import HANDLERS, MEDIA_TYPE
from entrypoints.http.router import RouterCalls
from ports.access import Access
from ports.intake_queue import IntakeQueue

MAX_BODY_BYTES: Final = 8 * 1024 * 1024
_NO_CHECKS: Final[Mapping[str, health.Check]] = MappingProxyType({})

Handler = Callable[[Request], Awaitable[Response]]


class DirectRoute(APIRoute):
    """A documented route whose handler gets the request itself: FastAPI's own reading costs as much as a whole call."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        """Give the handler as it is."""
        handler: Callable[[Request], Any] = self.endpoint
        return handler


class Beside(NamedTuple):
    """What the API serves beside the lifecycle; the calls of what is None are left out.

    Attributes:
        activity: the reader of accounts' activity.
        intake: the front door's queue.
        explain: says where an event would go.
    """

    activity: ActivityHistory | None = None
    intake: IntakeQueue | None = None
    explain: Explain | None = None


_NOTHING: Final = Beside()


def create_app(
    platform: Platform,
    *,
    access: Access | None,
    beside: Beside = _NOTHING,
    metrics_text: Callable[[], bytes] | None = None,
    readiness: Mapping[str, health.Check] = _NO_CHECKS,
    max_body_bytes: int = MAX_BODY_BYTES,
) -> FastAPI:
    """Make the HTTP application.

    Args:
        platform: the ports and rules.
        access: who may call; None lets everybody do everything as the actor `local`, for development on loopback.
        beside: the other systems.
        metrics_text: gives the figures for `/metrics`; None leaves that path out.
        readiness: checks by the name of what they check; each raises when that does not answer.
        max_body_bytes: the largest request body.
    """
    app = DocumentedApp(
        title="Interlock",
        version=version("interlock-platform"),
        description=document.DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        middleware=[Middleware(Edge, metrics=platform.metrics)],
        exception_handlers=HANDLERS,
    )
    app.router.route_class = DirectRoute
    _add_event_calls(app, EventCalls(platform, access, max_body_bytes), is_open=access is None)
    if beside.explain is not None:
        _add_router_calls(app, RouterCalls(beside.explain, access, platform.clock), is_open=access is None)
    if beside.activity is not None:
        _add_activity_call(app, ActivityCalls(beside.activity, access, platform.clock), is_open=access is None)
    if beside.intake is not None:
        calls = IntakeCalls(beside.intake, access, platform.clock, platform.metrics, max_body_bytes)
        _add_intake_call(app, calls, is_open=access is None)
    _add(app, "GET", "/healthz", health.healthz, "Liveness", {200: answer("the process answers", "Health")})
    not_ready = answer("something does not answer", "ReadinessProblem", MEDIA_TYPE)
    ready: Responses = {200: answer("everything that the process needs answers", "Readiness"), 503: not_ready}
    _add(app, "GET", "/readyz", health.readyz(readiness), "Readiness, with each dependency", ready)
    if metrics_text is not None:
        text = {"description": "Prometheus text", "content": {"text/plain": {"schema": {"type": "string"}}}}
        _add(app, "GET", "/metrics", health.metrics(metrics_text), "Figures of this process", {200: text})
    return app


def _add_intake_call(app: FastAPI, calls: IntakeCalls, *, is_open: bool) -> None:
    _add(
        app,
        "POST",
        "/v1/intake",
        calls.post_intake,
        "Leave one event or a batch at the front door",
        {202: answer("the message is durable", "Intake"), **problems(400, 413, 415)},
        "The body is kept byte for byte, and read later: what is wrong with an event is not told here, and keeps no "
        "other event back. Sending an event again is safe: copies are recognised by `source` and `id`.",
        **secured("ingest", is_open=is_open),
        requestBody=document.INTAKE_BODY,
    )


def _add_event_calls(app: FastAPI, calls: EventCalls, *, is_open: bool) -> None:
    view = secured("view", is_open=is_open)
    one = {**view, "parameters": [document.EVENT_ID]}
    _add(
        app,
        "POST",
        "/v1/events",
        calls.post_events,
        "Take in one event or a batch",
        {202: answer("what became of the events", "Ingestion"), **problems(400, 413, 415, 422)},
        "A single event that breaks a rule is answered with a problem; in a batch it is listed under `rejected`, and "
        "the others are taken in. Sending an event again is safe: copies are recognised by `source` and `id`.",
        **secured("ingest", is_open=is_open),
        requestBody=document.EVENTS_BODY,
    )
    _add(
        app,
        "GET",
        "/v1/events",
        calls.get_events,
        "List events by state, entity, or both",
        {200: answer("a page", "EventPage"), **problems(400, 422)},
        "In order of the time of the event; both ends of the window are included. Lists may lag behind moves by a "
        "moment. A move checks where the event stands, so that acting on a list is safe.",
        **view,
        parameters=list_parameters(calls.platform.definition.states),
    )
    _add(
        app,
        "GET",
        "/v1/events/{event_id}",
        calls.get_event,
        "One event as it stands now, with its legal moves",
        {200: answer("the event", "EventDetail"), **problems(404, 422)},
        "Up to date, also right after a move. `state` is null while the event's first transition is on its way.",
        **one,
    )
    _add(
        app,
        "GET",
        "/v1/events/{event_id}/history",
        calls.get_history,
        "Every transition of an event, oldest first",
        {200: answer("the history", "History"), **problems(404, 422)},
        "`missed` lists moves that were asked for and never became transitions, with the reason.",
        **one,
    )
    _add(
        app,
        "POST",
        "/v1/events/{event_id}/transitions",
        calls.post_transition,
        "Move an event",
        {
            200: answer("the transition that this key made before", "Transition"),
            201: answer("the transition", "Transition"),
            **problems(400, 404, 409, 413, 415, 422, status_409="MoveProblem"),
        },
        "Decided on where the event stands at that moment. A 409 says where it stands and what is legal.",
        **secured("operate", is_open=is_open),
        parameters=[document.EVENT_ID, document.KEY],
        requestBody=document.MOVE_BODY,
    )


def _add_router_calls(app: FastAPI, calls: RouterCalls, *, is_open: bool) -> None:
    _add(
        app,
        "GET",
        "/v1/router/explain",
        calls.get_explanation,
        "Where an event would go, and why",
        {200: answer("the decision", "Explanation"), **problems(422)},
        "Decided by the workflows that workers serve now and the reports that are skipped now; nothing is started.",
        **secured("view", is_open=is_open),
        parameters=document.EXPLAIN_PARAMETERS,
    )


def _add_activity_call(app: FastAPI, calls: ActivityCalls, *, is_open: bool) -> None:
    _add(
        app,
        "GET",
        "/v1/activity",
        calls.get_activity,
        "List an account's activity, redacted",
        {200: answer("a page", "ActivityPage"), **problems(400, 422)},
        "Every event that matches, in order of its time; both ends of the window are included. What is personal or "
        "secret is masked in whatever place it stands.",
        **secured("view", is_open=is_open),
        parameters=activity_parameters(),
    )


def _add(
    app: FastAPI,
    method: str,
    path: str,
    handler: Handler,
    summary: str,
    responses: Responses,
    description: str = "",
    **openapi: Any,
) -> None:
    app.add_api_route(
        path,
        handler,
        methods=[method],
        status_code=max(int(status) for status in responses if int(status) < HTTPStatus.BAD_REQUEST),
        response_model=None,
        summary=summary,
        description=description,
        responses=responses,
        openapi_extra=openapi,
        operation_id=f"{method.lower()}_{path.strip('/').removeprefix('v1/').replace('/', '_').translate(_NO_BRACES)}",
    )


_NO_BRACES: Final = str.maketrans("", "", "{}")
