"""Bearer tokens at the API, and what never leaves it."""

import io
import json
import logging
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
import structlog

from adapters.file.token_file import TokenFile, add_token
from adapters.memory.event_store import MemoryEventStore
from domain.access import SCOPES, Scope, issue_token
from domain.errors import CorruptHistory
from domain.event import Head, Stream
from entrypoints import logs
from entrypoints.http.app import create_app
from tests.entrypoints.http_api import Api, an_api, check_problem
from tests.examples import START, an_envelope

pytestmark = pytest.mark.anyio

CALLS: list[tuple[Scope, str, str]] = [
    ("ingest", "POST", "/v1/events"),
    ("view", "GET", "/v1/events?state=open"),
    ("view", "GET", "/v1/events/e1"),
    ("ingest", "POST", "/v1/intake"),
    ("view", "GET", "/v1/events/e1/history"),
    ("operate", "POST", "/v1/events/e1/transitions"),
]


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with an_api() as running:
        yield running


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """Everything that is logged, as processes log it."""
    root, before = logging.getLogger(), logging.getLogger().handlers
    level, configured = root.level, structlog.get_config()
    stream = io.StringIO()
    logs.set_up(stream, level=logging.DEBUG)
    yield stream
    root.handlers = before
    root.setLevel(level)
    structlog.configure(**configured)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def call(api: Api, method: str, path: str, token: str) -> httpx.Response:
    body = an_envelope("e1").attributes() if path == "/v1/events" else {"to": "open"}
    return await api.client.request(method, path, json=body if method == "POST" else None, headers=bearer(token))


@pytest.mark.parametrize(("scope", "method", "path"), CALLS)
async def test_each_call_needs_its_scope_and_no_other(api: Api, scope: Scope, method: str, path: str) -> None:
    await api.ingest("e1")
    for held in SCOPES:
        response = await call(api, method, path, api.access.issue(held))
        if held == scope:
            assert response.status_code in {200, 201, 202}
        else:
            problem = check_problem(response, 403)
            assert scope in problem["detail"]
            assert f'error="insufficient_scope", scope="{scope}"' in response.headers["www-authenticate"]


@pytest.mark.parametrize(("scope", "method", "path"), CALLS)
async def test_an_expired_token_opens_nothing(api: Api, scope: Scope, method: str, path: str) -> None:
    token = api.access.issue(scope, expires_at=START + timedelta(seconds=10))
    await api.ingest("e1")
    assert (await call(api, method, path, token)).is_success
    api.clock.advance(10)
    check_problem(await call(api, method, path, token), 401)


@pytest.mark.parametrize(
    ("headers", "challenge"),
    [
        ([], 'Bearer realm="interlock"'),
        ([("Authorization", "")], 'Bearer realm="interlock", error="invalid_token"'),
        ([("Authorization", "Bearer")], 'Bearer realm="interlock", error="invalid_token"'),
        ([("Authorization", "Bearer x")], 'Bearer realm="interlock", error="invalid_token"'),
        ([("Authorization", "Basic eDp5")], 'Bearer realm="interlock", error="invalid_token"'),
        ([("Authorization", "Bearer x y")], 'Bearer realm="interlock", error="invalid_token"'),
    ],
)
async def test_without_a_good_token_the_answer_says_what_is_needed(
    api: Api, headers: list[tuple[str, str]], challenge: str
) -> None:
    del api.client.headers["Authorization"]
    for _, method, path in CALLS:
        response = await api.client.request(method, path, headers=headers)
        check_problem(response, 401)
        assert response.headers["www-authenticate"] == challenge


async def test_the_scheme_is_read_in_any_case_and_two_headers_are_refused(api: Api) -> None:
    token = api.access.issue("view")
    del api.client.headers["Authorization"]
    for scheme in ("bearer", "BEARER"):
        response = await api.client.get("/v1/events?state=open", headers={"Authorization": f"{scheme} {token}"})
        assert response.status_code == 200
    twice = [("Authorization", f"Bearer {token}")] * 2
    check_problem(await api.client.get("/v1/events?state=open", headers=twice), 401)


async def test_who_may_not_call_is_told_before_anything_is_read(api: Api) -> None:
    taken = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal taken
        taken += 1
        yield b"{"

    for token, status in (("x", 401), (api.access.issue("view"), 403)):
        check_problem(await api.client.post("/v1/events", content=chunks(), headers=bearer(token)), status)
    assert taken == 0


async def test_the_actor_of_a_move_is_the_name_of_the_token(api: Api) -> None:
    await api.ingest("e1")
    token = api.access.issue("operate", name="Zoë B.")
    moved = await call(api, "POST", "/v1/events/e1/transitions", token)
    assert moved.json()["actor"] == "Zoë B."


async def test_without_tokens_the_api_is_open_to_the_actor_local(api: Api) -> None:
    """For development on loopback only; the document then asks for no token."""
    await api.ingest("e1")
    app = create_app(api.platform, access=None)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://interlock") as client:
        moved = await client.post("/v1/events/e1/transitions", json={"to": "open"})
        assert (moved.status_code, moved.json()["actor"]) == (201, "local")
        assert "security" not in (await client.get("/openapi.json")).json()["paths"]["/v1/events"]["get"]
        check_problem(await client.get("/metrics"), 404)


async def test_a_tokens_file_that_cannot_be_read_lets_nobody_in(api: Api, tmp_path: Path, logged: io.StringIO) -> None:
    """Fails closed, and the log says why."""
    path = tmp_path / "tokens.json"
    token = issue_token("ada", SCOPES, START + timedelta(days=1), bytes(40))
    app = create_app(api.platform, access=TokenFile(path))
    headers = bearer(token.text.get_secret_value())
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://interlock", headers=headers
    ) as client:
        response = await client.get("/v1/events?state=open")
        check_problem(response, 503)
        assert "No such file" in logged.getvalue()
        assert "No such file" not in response.text
        add_token(path, token.record)
        assert (await client.get("/v1/events?state=open")).status_code == 200


class Broken(MemoryEventStore):
    """A store with faults whose messages hold what nobody may read."""

    async def head(self, _: str, /) -> Head | None:
        raise RuntimeError("payload-4711")

    async def stream(self, event_id: str, /) -> Stream:
        raise CorruptHistory(event_id, "transition 3 does not follow 1")


async def test_a_fault_is_answered_bare_and_logged_under_its_id(logged: io.StringIO) -> None:
    async with an_api(store=Broken()) as api:
        for path in ("/v1/events/e1", "/v1/events/e1/history"):
            response = await api.client.get(path)
            problem = check_problem(response, 500)
            assert problem.keys() == {"type", "title", "status", "detail", "instance"}
            assert not [word for word in ("payload", "Traceback", "transition 3", ".py") if word in response.text]
            (line,) = (line for line in logged.getvalue().splitlines() if problem["instance"] in line)
            assert json.loads(line)["reason"]
        assert "payload-4711" not in logged.getvalue()
        measured = {dict(labels)["status"] for _, labels in api.metrics.measurements}
        assert measured == {"500"}


async def test_a_planted_token_is_in_no_answer_and_in_no_log(logged: io.StringIO) -> None:
    """Good, wrong, expired, without the scope, in the wrong place; in faults, refusals and conflicts."""
    async with an_api(store=Broken()) as api:
        good = api.access.issue("view")
        expired = api.access.issue(*SCOPES, expires_at=START)
        wrong = good[:-4] + "0000"
        answers: list[httpx.Response] = []
        for token in (good, expired, wrong, "x" + good):
            answers += [await call(api, method, path, token) for _, method, path in CALLS]
            answers += [await api.client.get("/nowhere", headers=bearer(token))]
            answers += [await api.client.get("/v1/events", headers={"Authorization": token})]
        seen = logged.getvalue() + "".join(answer.text + str(answer.headers) for answer in answers)
        assert {answer.status_code for answer in answers} >= {200, 401, 403, 404, 500}
        assert not [token for token in (good, expired, wrong) if token[21:] in seen or token[4:20] in seen]
