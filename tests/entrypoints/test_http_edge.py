"""The middleware alone: paths as they were sent, and faults after an answer has begun."""

from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from adapters.memory.metrics import MemoryMetrics
from entrypoints.http.edge import Edge, encoded_path

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ({"raw_path": b"/v1/events/a%2Fb", "path": "/v1/events/a/b"}, "/v1/events/a%2Fb"),
        ({"raw_path": b"/v1/events/\xc3\xa9", "path": "/v1/events/é"}, "/v1/events/\xc3\xa9"),
        ({"raw_path": None, "path": "/v1/events/a/b"}, "/v1/events/a%2Fb"),
        ({"path": "/v1/events/a/b/history"}, "/v1/events/a%2Fb/history"),
        ({"path": "/v1/events/a/b/transitions"}, "/v1/events/a%2Fb/transitions"),
        ({"path": "/v1/events/100%25/é\n"}, "/v1/events/100%2525%2F%C3%A9%0A"),
        ({"path": "/v1/events/history"}, "/v1/events/history"),
        ({"path": "/v1/events"}, "/v1/events"),
        ({"path": "/v1/events/"}, "/v1/events/"),
        ({"path": "/healthz"}, "/healthz"),
    ],
)
def test_ids_stay_apart_from_the_path(scope: Scope, expected: str) -> None:
    """A gateway that hands over only a decoded path gets what lies between as the id."""
    assert encoded_path(scope) == expected


async def run(app: Any, kind: str = "http") -> tuple[list[Message], MemoryMetrics]:
    sent: list[Message] = []
    metrics = MemoryMetrics()

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    try:
        await Edge(app, metrics)({"type": kind, "path": "/", "method": "GET"}, receive, send)
    except ZeroDivisionError:
        sent.append({"type": "raised"})
    return sent, metrics


async def test_a_fault_before_the_answer_becomes_a_bare_500() -> None:
    async def app(_: Scope, __: Receive, ___: Send) -> None:
        raise ZeroDivisionError

    sent, metrics = await run(app)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[0]["status"] == 500
    assert (b"x-content-type-options", b"nosniff") in sent[0]["headers"]
    assert [dict(labels)["status"] for _, labels in metrics.measurements] == ["500"]


async def test_a_fault_after_the_answer_began_is_left_to_the_server() -> None:
    """It must close the connection: a second answer would be read as part of the first."""

    async def app(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ZeroDivisionError

    sent, _ = await run(app)
    assert [message["type"] for message in sent] == ["http.response.start", "raised"]


async def test_what_is_not_http_passes_untouched() -> None:
    async def app(scope: Scope, _: Receive, send: Send) -> None:
        await send({"type": scope["type"]})

    sent, metrics = await run(app, "lifespan")
    assert sent == [{"type": "lifespan"}]
    assert not metrics.measurements
