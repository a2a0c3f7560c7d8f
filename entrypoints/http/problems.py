"""Errors as problem details (RFC 9457): one table from the error tree to HTTP, and nothing internal in any answer."""

from collections.abc import Callable, Coroutine, Sequence
from http import HTTPStatus
from typing import Any, Final
from uuid import uuid4

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match

from domain.errors import (
    BadCursor,
    Contention,
    Forbidden,
    InterlockError,
    Invalid,
    Malformed,
    MoveRejected,
    NotFound,
    Retryable,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from domain.json_reader import pointer_of
from entrypoints.failures import code_of, reason_of

MEDIA_TYPE: Final = "application/problem+json"
IDEMPOTENCY_KEY: Final = "Idempotency-Key"
STATUSES: Final[Sequence[tuple[type[InterlockError], HTTPStatus, str]]] = (
    (TooLarge, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "Too large"),
    (BadCursor, HTTPStatus.BAD_REQUEST, "Bad cursor"),
    (Malformed, HTTPStatus.BAD_REQUEST, "Malformed JSON"),
    (Invalid, HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid input"),
    (Unauthenticated, HTTPStatus.UNAUTHORIZED, "Not authenticated"),
    (Forbidden, HTTPStatus.FORBIDDEN, "Not allowed"),
    (NotFound, HTTPStatus.NOT_FOUND, "No such event"),
    (MoveRejected, HTTPStatus.CONFLICT, "Move not legal"),
    (Retryable, HTTPStatus.SERVICE_UNAVAILABLE, "Try again"),
)

_CHALLENGE: Final = 'Bearer realm="interlock"'
_RETRY_SECONDS: Final = "1"
_MAX_POINTER: Final = 2000

log = structlog.get_logger("interlock.http")


def problem(
    status: int,
    title: str,
    detail: str,
    *,
    kind: str = "about:blank",
    headers: dict[str, str] | None = None,
    **members: Any,
) -> JSONResponse:
    """Make a problem response; `members` are extension members."""
    about = {"type": kind, "title": title, "status": status, "detail": detail}
    return JSONResponse(about | members, status, headers, MEDIA_TYPE)


def from_error(error: InterlockError) -> JSONResponse:
    """Answer an error of ours."""
    status, title = next(((s, t) for kind, s, t in STATUSES if isinstance(error, kind)), (None, ""))
    if status is None:
        return unexpected(error)
    headers: dict[str, str] = {}
    members: dict[str, Any] = {}
    match error:
        case Invalid():
            members["errors"] = [{"pointer": _pointer(error.steps), "detail": error.reason}]
            if isinstance(error, TooLarge):
                members |= {"size": error.size, "limit": error.limit}
        case Unauthenticated():
            headers["WWW-Authenticate"] = _CHALLENGE + (', error="invalid_token"' if error.token_shown else "")
        case Forbidden():
            headers["WWW-Authenticate"] = f'{_CHALLENGE}, error="insufficient_scope", scope="{error.scope}"'
        case MoveRejected():
            members |= {"current_state": error.current_state, "legal_moves": error.legal_moves}
            if error.reused:
                status, title = HTTPStatus.UNPROCESSABLE_ENTITY, "Idempotency key reused"
                members["errors"] = [{"pointer": f"/{IDEMPOTENCY_KEY}", "detail": public_reason(error)}]
        case Retryable():
            headers["Retry-After"] = _RETRY_SECONDS
            log.warning("not_available", code=error.code, reason=reason_of(error))
        case _:
            pass
    kind = f"urn:interlock:problem:{error.code}"
    return problem(status, title, public_reason(error), kind=kind, headers=headers, **members)


def public_reason(error: InterlockError) -> str:
    """Say why, to a caller: without the reasons of outside systems, which may name what is not for callers."""
    match error:
        case MoveRejected(reused=True):
            return "this key was used for another move of the event; send a new key"
        case Unavailable():
            return f"{error.dependency} is unavailable; send the request again"
        case Invalid() | Contention() | Unauthenticated() | Forbidden() | NotFound() | MoveRejected():
            return str(error)
        case Retryable():
            return "not now; send the request again"
        case _:
            return "the request could not be handled"


def unexpected(error: Exception) -> JSONResponse:
    """Answer a fault of ours: bare, and logged under an id that the answer carries."""
    instance = f"urn:uuid:{uuid4()}"
    log.error("request_failed", instance=instance, code=code_of(error), reason=reason_of(error))
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    return problem(status, status.phrase, "the request failed here; the log has more", instance=instance)


def stopping() -> JSONResponse:
    """Answer a request that the server has no time left for: it is being stopped."""
    status = HTTPStatus.SERVICE_UNAVAILABLE
    detail = "the server is stopping; send the request again"
    return problem(status, status.phrase, detail, headers={"Retry-After": _RETRY_SECONDS})


async def on_interlock_error(_: Request, error: InterlockError) -> JSONResponse:
    """Handle an error of the tree."""
    return from_error(error)


async def on_http_error(request: Request, error: HTTPException) -> JSONResponse:
    """Handle what HTTP itself refuses: no such path, method or media type."""
    status = HTTPStatus(error.status_code)
    headers = dict(error.headers or {})
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(sorted(_methods(request)))
    return problem(status, status.phrase, error.detail, headers=headers)


async def on_disconnect(_: Request, __: ClientDisconnect) -> JSONResponse:
    """Handle a caller that left before its body was complete; nobody reads the answer, but metrics count it."""
    return problem(HTTPStatus.BAD_REQUEST, "Bad Request", "the connection closed before the body was complete")


HANDLERS: Final[dict[int | type[Exception], Callable[[Request, Any], Coroutine[Any, Any, Response]]]] = {
    InterlockError: on_interlock_error,
    HTTPException: on_http_error,
    ClientDisconnect: on_disconnect,
}


def _pointer(steps: Sequence[str | int]) -> str:
    """Give the pointer of a place; of one that would fill the answer, that of the place around it."""
    while len(pointer := pointer_of(steps)) > _MAX_POINTER:
        steps = steps[:-1]
    return pointer


def _methods(request: Request) -> set[str]:
    """Give every method that some route takes on this path."""
    methods: set[str] = set()
    for route in request.app.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            methods |= route.methods or set()
    return methods
