"""The OpenAPI document's parts: what FastAPI cannot see, because handlers read their requests themselves."""

from collections.abc import Sequence
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from domain.access import SCOPES, Scope
from domain.activity import MAX_NAME, MAX_TYPE
from domain.envelope import MAX_BATCH, MAX_EVENT_BYTES
from domain.event import DEFAULT_LIMIT, MAX_EVENT_ID, MAX_LIMIT
from entrypoints.http.events import CLOUD_EVENT, CLOUD_EVENTS, JSON, MoveRequest
from entrypoints.http.problems import IDEMPOTENCY_KEY, MEDIA_TYPE
from entrypoints.http.schemas import ANSWERS, Event

Json = dict[str, Any]
Responses = dict[int | str, Json]

_REF: Final = "#/components/schemas/{model}"
_SCHEME: Final = "token"

DESCRIPTION: Final = """Events enter once, move through their lifecycle in order, and keep their whole history.

Errors are problem details (RFC 9457) of the type `application/problem+json`. Times are RFC 3339; answers give them in
UTC with microseconds. Event ids may hold any character; in a path they are percent-encoded, slashes too."""


class DocumentedApp(FastAPI):
    """FastAPI with the schemas and the security scheme of this API in its OpenAPI document."""

    def openapi(self) -> Json:
        """Give the OpenAPI document, made at the first call."""
        if self.openapi_schema is None:
            document = get_openapi(
                title=self.title,
                version=self.version,
                description=self.description,
                openapi_version=self.openapi_version,
                routes=self.routes,
            )
            _, definitions = models_json_schema(
                [(Event, "validation"), (MoveRequest, "validation"), *((model, "serialization") for model in ANSWERS)],
                ref_template=_REF,
            )
            document["components"] = {
                "schemas": definitions["$defs"],
                "securitySchemes": {
                    _SCHEME: {
                        "type": "http",
                        "scheme": "bearer",
                        "description": f"made by `interlock token create`; its scopes are among {', '.join(SCOPES)}",
                    }
                },
            }
            self.openapi_schema = document
        return self.openapi_schema


def ref(model: str) -> Json:
    """Refer to a schema of the document."""
    return {"$ref": _REF.format(model=model)}


def answer(description: str, model: str, media_type: str = JSON) -> Json:
    """Describe a response."""
    return {"description": description, "content": {media_type: {"schema": ref(model)}}}


def problems(*statuses: int, **special: str) -> Responses:
    """Describe the problems that a call may answer with, besides those of every call that needs a token.

    Args:
        statuses: which ones.
        special: schemas other than `Problem`, as `status_409="MoveProblem"`.
    """
    about = {
        400: "the text is not strict JSON, or the cursor is not one of this query's",
        401: "no token, or one that is not valid",
        403: "the token lacks the scope",
        404: "no such event",
        409: "the move is not legal now",
        413: f"the body, or an event of more than {MAX_EVENT_BYTES} bytes, is too large",
        415: "another media type is needed",
        422: "the input breaks a rule; `errors` says where",
        500: "a fault here; the log has more under `instance`",
        503: "not now; send the request again",
    }
    described: Responses = {}
    for status in sorted({401, 403, 500, 503, *statuses}):
        described[status] = answer(about[status], special.get(f"status_{status}", "Problem"), MEDIA_TYPE)
    headers = {401: "WWW-Authenticate", 403: "WWW-Authenticate", 503: "Retry-After"}
    for status, header in headers.items():
        described[status]["headers"] = {header: {"schema": {"type": "string"}}}
    return described


def secured(scope: Scope, *, is_open: bool) -> Json:
    """Name the scope that a call needs; none where the API is open."""
    return {} if is_open else {"security": [{_SCHEME: [scope]}]}


EVENT_ID: Final[Json] = {
    "name": "event_id",
    "in": "path",
    "required": True,
    "description": "percent-encoded, slashes too",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_EVENT_ID},
}

KEY: Final[Json] = {
    "name": IDEMPOTENCY_KEY,
    "in": "header",
    "description": "Repeat a request with the same key and it is done once. Keys belong to the event, whoever sends "
    "them; the transition's `command_id` is the key.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
}

EVENTS_BODY: Final[Json] = {
    "required": True,
    "content": {
        CLOUD_EVENT: {"schema": ref("Event")},
        CLOUD_EVENTS: {"schema": {"type": "array", "items": ref("Event"), "minItems": 1, "maxItems": MAX_BATCH}},
        JSON: {
            "schema": {
                "anyOf": [
                    ref("Event"),
                    {"type": "array", "items": ref("Event"), "minItems": 1, "maxItems": MAX_BATCH},
                ]
            }
        },
    },
}

INTAKE_BODY: Final[Json] = {
    "required": True,
    "description": "An event as in `POST /v1/events`, `subject` or not, or an array of them; at most 1 MiB. With "
    "`Content-Encoding: gzip` the body is gzip of such a text, and at most 768 KiB.",
    "content": {kind: {"schema": {"type": ["object", "array"]}} for kind in (CLOUD_EVENT, CLOUD_EVENTS, JSON)},
}

MOVE_BODY: Final[Json] = {"required": True, "content": {JSON: {"schema": ref("MoveRequest")}}}


def list_parameters(states: Sequence[str]) -> list[Json]:
    """Describe the parameters of a list.

    Args:
        states: of the lifecycle in force.
    """
    return [
        _query("state", {"type": "string", "enum": list(states)}, "events in this state; this or `entity` is needed"),
        _query("entity", {"type": "string", "minLength": 1, "maxLength": 256}, "events of this entity"),
        *_page_parameters("asc"),
    ]


def activity_parameters() -> list[Json]:
    """Describe the parameters of an account's activity."""
    name = {"type": "string", "minLength": 1, "maxLength": MAX_NAME}
    account = _query("account", name, "whose activity: the account that the event names, else the AWS account")
    return [
        {**account, "required": True},
        _query("type", {**name, "maxLength": MAX_TYPE}, "events of this type"),
        _query("report_id", name, "events about this report"),
        *_page_parameters("desc"),
    ]


def _page_parameters(order: str) -> list[Json]:
    time = {"type": "string", "format": "date-time"}
    orders = {"type": "string", "enum": ["asc", "desc"], "default": order}
    return [
        _query("from", time, "the earliest time of an event, itself included; `+` is sent as %2B"),
        _query("to", time, "the latest time of an event, itself included"),
        _query("order", orders, "by time of the event, then id"),
        _query("limit", {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT}, "page size"),
        _query("cursor", {"type": "string"}, "`next_cursor` of the page before, with everything else as it was"),
    ]


def _query(name: str, schema: Json, description: str) -> Json:
    return {"name": name, "in": "query", "description": description, "schema": schema}


EXPLAIN_PARAMETERS: Final = [
    {
        **_query("type", {"type": "string", "minLength": 1, "maxLength": 128}, "the type of the event"),
        "required": True,
    },
    _query("report_id", {"type": "string", "minLength": 1, "maxLength": 256}, "the report that it would be about"),
]
