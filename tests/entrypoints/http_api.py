"""The HTTP API over the in-memory engine, for tests that talk to it."""

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from time import monotonic, sleep
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from pydantic import JsonValue, SecretStr

from adapters.embedded.intake_queue import EmbeddedIntakeQueue
from adapters.memory.activity_store import MemoryActivityStore
from adapters.memory.clock import ManualClock
from adapters.memory.event_store import MemoryEventStore
from adapters.memory.id_source import CountingIds
from adapters.memory.message_queue import MemoryQueue
from adapters.memory.metrics import MemoryMetrics
from adapters.memory.publisher import MemoryPublisher
from adapters.memory.workflow_catalog import MemoryCatalog
from application.catalog import CatalogReader
from application.consume import apply_batch
from application.explain import explain
from application.platform import Platform
from domain.access import SCOPES, Caller, Scope, TokenRecord, issue_token, verify
from domain.routing import RouteDecision, RoutingRules
from entrypoints.http.app import Beside, create_app
from ports.event_store import EventStore
from ports.intake_queue import IntakeQueue
from ports.publisher import Publisher
from ports.workflow_catalog import WorkflowCatalog
from tests.activity import WatchedFeed, a_feed, a_history
from tests.examples import START, an_envelope

JSON = {"Content-Type": "application/json"}
PROBLEM = "application/problem+json"


@dataclass
class MemoryAccess:
    """Tokens in a dict."""

    records: dict[str, TokenRecord] = field(default_factory=dict)

    async def identify(self, token: SecretStr, now: datetime, /) -> Caller:
        return verify(self.records, token, now)

    def issue(self, *scopes: Scope, name: str = "ada", expires_at: datetime = START + timedelta(days=1)) -> str:
        """Issue a token and give its text."""
        number = len(self.records)
        token = issue_token(name, scopes, expires_at, bytes([number]) * 40)
        self.records[token.record.id] = token.record
        return token.text.get_secret_value()


@dataclass
class ListedReports:
    """Reasons by report id, for every type."""

    reasons: dict[str, str]

    async def reason(self, event_type: str, report_id: str | None, /) -> str | None:  # noqa: ARG002 - see the class
        return None if report_id is None else self.reasons.get(report_id)


@dataclass
class Api:
    """The API and what stands behind it."""

    app: FastAPI
    client: httpx.AsyncClient
    platform: Platform
    queue: MemoryQueue
    intake: MemoryQueue
    clock: ManualClock
    metrics: MemoryMetrics
    access: MemoryAccess
    catalog: WorkflowCatalog
    skipped: dict[str, str]
    feed: WatchedFeed

    async def ingest(self, *event_ids: str) -> None:
        """Ingest events and work off the queue, so that they are in their first state."""
        for event_id in event_ids:
            response = await self.client.post("/v1/events", content=an_envelope(event_id).to_json(), headers=JSON)
            assert response.status_code == 202, response.text
        await self.settle()

    def client_again(self) -> httpx.AsyncClient:
        """Give a client like `client`, for another event loop."""
        transport = httpx.ASGITransport(self.app)
        return httpx.AsyncClient(transport=transport, base_url="http://interlock", headers=self.client.headers)

    async def settle(self) -> None:
        """Work off the queue."""
        while batch := await self.queue.receive(10, 0):
            report = await apply_batch(self.platform, batch, max_receives=5)
            assert not report.failures
            await self.queue.delete(batch)


@asynccontextmanager
async def an_api(
    *,
    store: EventStore | None = None,
    catalog: WorkflowCatalog | None = None,
    publisher: Publisher | None = None,
    intake: IntakeQueue | None = None,
    readiness: Mapping[str, Callable[[], Awaitable[None]]] | None = None,
    max_body_bytes: int = 1024 * 1024,
    **changes: Any,
) -> AsyncIterator[Api]:
    """Give an API whose client shows a token with every scope; `changes` are made to its platform."""
    clock, ids, metrics, access = ManualClock(START), CountingIds(), MemoryMetrics(), MemoryAccess()
    queue, front_door = MemoryQueue(clock, ids), MemoryQueue(clock, ids)
    platform = Platform(store or MemoryEventStore(), publisher or MemoryPublisher(queue), clock, ids, metrics)
    platform = replace(platform, **changes)
    offers = catalog or MemoryCatalog()
    skipped: dict[str, str] = {}
    known = CatalogReader(offers, clock, metrics)

    async def explain_now(event_type: str, report_id: str | None) -> RouteDecision:
        return await explain(known, ListedReports(skipped), RoutingRules(), event_type, None, report_id)

    feed = a_feed(MemoryActivityStore())
    app = create_app(
        platform,
        access=access,
        beside=Beside(
            a_history(feed), intake or EmbeddedIntakeQueue(MemoryPublisher(front_door), front_door, ids), explain_now
        ),
        metrics_text=lambda: b"figures 1\n",
        readiness=readiness or {},
        max_body_bytes=max_body_bytes,
    )
    headers = {"Authorization": f"Bearer {access.issue(*SCOPES)}"}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://interlock", headers=headers) as client:
        yield Api(app, client, platform, queue, front_door, clock, metrics, access, offers, skipped, feed)


def check_problem(response: httpx.Response, status: int) -> dict[str, Any]:
    """Hold a response to be a problem of this status, and give it."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == PROBLEM
    problem: dict[str, Any] = response.json()
    assert problem["status"] == status
    assert all(isinstance(problem[member], str) and problem[member] for member in ("type", "title", "detail"))
    return problem


def pointers(problem: Mapping[str, Any]) -> list[str]:
    """Give the pointers of a problem's errors, each of which has a detail."""
    errors: list[dict[str, JsonValue]] = problem["errors"]
    assert all(error.keys() == {"pointer", "detail"} and error["detail"] for error in errors)
    return [str(error["pointer"]) for error in errors]


@contextmanager
def a_server(app: FastAPI) -> Iterator[str]:
    """Run an app on a free port of loopback, and give its URL."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        deadline = monotonic() + 10
        while not server.started:
            assert thread.is_alive()
            assert monotonic() < deadline
            sleep(0.01)
        host, port = server.servers[0].sockets[0].getsockname()
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        thread.join(10)
    assert not thread.is_alive()
