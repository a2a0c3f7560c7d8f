"""The operator API as a function behind API Gateway, REST and HTTP APIs (CONTRACTS §§ 4 and 6; R-108)."""

import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

import pytest

from adapters.file.token_file import add_token
from application.consume import apply_batch
from domain.access import issue_token
from domain.errors import Misconfigured
from entrypoints.aws_lambda import operator_api
from entrypoints.aws_lambda.runtime import Runtime
from tests.entrypoints.lambda_events import Context
from tests.examples import an_envelope

CLOUDEVENT = {"Content-Type": "application/cloudevents+json"}

Gateway = Callable[..., dict[str, Any]]


def rest_api(
    method: str, path: str, query: str = "", headers: dict[str, str] | None = None, body: str | None = None, **more: Any
) -> dict[str, Any]:
    """Payload 1.0 of a REST API: the path as it was sent, without the stage."""
    pairs = parse_qsl(query, keep_blank_values=True)
    headers = headers or {}
    return {
        "resource": "/{proxy+}",
        "path": path,
        "httpMethod": method,
        "headers": headers,
        "multiValueHeaders": {name: [value] for name, value in headers.items()},
        "queryStringParameters": dict(pairs) or None,
        "multiValueQueryStringParameters": {name: [v for n, v in pairs if n == name] for name, _ in pairs} or None,
        "pathParameters": {"proxy": path[1:]},
        "requestContext": {"stage": "prod", "path": f"/prod{path}", "identity": {"sourceIp": "192.0.2.1"}},
        "body": body,
        "isBase64Encoded": False,
        **more,
    }


def http_api(
    method: str,
    path: str,
    query: str = "",
    headers: dict[str, str] | None = None,
    body: str | None = None,
    stage: str = "$default",
    **more: Any,
) -> dict[str, Any]:
    """Payload 2.0 of an HTTP API: the path decoded, behind the stage unless that is the default one."""
    where = unquote(path) if stage == "$default" else f"/{stage}{unquote(path)}"
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": where,
        "rawQueryString": query,
        "headers": {name.lower(): value for name, value in (headers or {}).items()},
        "requestContext": {
            "stage": stage,
            "domainName": "api.example",
            "http": {"method": method, "path": where, "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1"},
        },
        "isBase64Encoded": False,
        **({} if body is None else {"body": body}),
        **more,
    }


def http_api_on_a_stage(method: str, path: str, query: str = "", **more: Any) -> dict[str, Any]:
    return http_api(method, path, query, stage="prod", **more)


@pytest.fixture(params=[rest_api, http_api, http_api_on_a_stage])
def gateway(request: pytest.FixtureRequest) -> Gateway:
    """Each kind of API in turn."""
    kind: Gateway = request.param
    return kind


class Function:
    """A container of the function, and a token that opens everything."""

    def __init__(self, runtime: Runtime, token: str) -> None:
        self.runtime = runtime
        self.headers = {"Authorization": f"Bearer {token}"}

    def __call__(self, event: dict[str, Any]) -> tuple[int, Any]:
        answer = operator_api.handler(event, Context())
        body = answer["body"]
        assert answer["isBase64Encoded"] is False, "a REST API hands base64 on as it is"
        return answer["statusCode"], json.loads(body)

    def apply(self) -> None:
        """Work through the queue."""

        async def work() -> None:
            queue = self.runtime.engine.queue
            await queue.delete(messages := await queue.receive(100, 0))
            await apply_batch(self.runtime.platform, messages, max_receives=5)

        self.runtime.run(lambda _: work())


@pytest.fixture
def function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Function]:
    """One container, in memory."""
    token = issue_token("ada", ("ingest", "view", "operate"), datetime.now(UTC) + timedelta(hours=1), bytes(40))
    add_token(tmp_path / "tokens.json", token.record)
    variables = {"INTERLOCK_ENGINE": "memory", "INTERLOCK_AUTH__TOKENS_FILE": str(tmp_path / "tokens.json")}
    runtime = Runtime(publishing=True, variables=variables)
    monkeypatch.setattr(operator_api, "RUNTIME", runtime)
    yield Function(runtime, token.text.get_secret_value())
    runtime.close()


@pytest.mark.parametrize("event_id", ["e1", "a/b", "ü %2F?#&=+", "100%", "-.~_", "a b", "x/history", "v1/events/x"])
def test_an_event_goes_in_moves_and_comes_out_whatever_its_id(
    event_id: str, gateway: Gateway, function: Function
) -> None:
    body = an_envelope(event_id, entity="A").to_json()
    status, answer = function(gateway("POST", "/v1/events", headers=function.headers | CLOUDEVENT, body=body))
    assert (status, answer) == (202, {"accepted": [event_id], "rejected": []})
    function.apply()
    path = f"/v1/events/{quote(event_id, safe='')}"
    status, answer = function(gateway("GET", path, headers=function.headers))
    if event_id == "x/history" and gateway is not rest_api:
        # HTTP APIs hand over the path decoded: this id cannot be told from the history of `x`.
        assert (status, answer["detail"]) == (404, "no event 'x'")
        return
    assert (status, answer["event_id"], answer["state"]) == (200, event_id, "to_review")
    move = json.dumps({"to": "open", "reason": "called"})
    headers = function.headers | {"Content-Type": "application/json", "Idempotency-Key": "key-1"}
    for expected in (201, 200):
        status, answer = function(gateway("POST", f"{path}/transitions", headers=headers, body=move))
        assert (status, answer["from"], answer["to"], answer["actor"]) == (expected, "to_review", "open", "ada")
    status, answer = function(gateway("GET", f"{path}/history", headers=function.headers))
    assert (status, [item["to"] for item in answer["items"]]) == (200, ["to_review", "open"])


def test_query_parameters_arrive_decoded_once(gateway: Gateway, function: Function) -> None:
    entity = "a&b=c+d %2F ü"
    body = an_envelope("e1", entity=entity).to_json()
    function(gateway("POST", "/v1/events", headers=function.headers | CLOUDEVENT, body=body))
    function.apply()
    query = f"entity={quote(entity, safe='')}&from=2026-01-01T11%3A00%3A00%2B01%3A00&limit=1"
    status, answer = function(gateway("GET", "/v1/events", query, headers=function.headers))
    assert (status, [item["entity"] for item in answer["items"]]) == (200, [entity])


def test_a_body_may_come_in_base64(gateway: Gateway, function: Function) -> None:
    body = base64.b64encode(an_envelope("ü1").to_json().encode()).decode()
    event = gateway("POST", "/v1/events", headers=function.headers | CLOUDEVENT, body=body, isBase64Encoded=True)
    assert function(event) == (202, {"accepted": ["ü1"], "rejected": []})


@pytest.mark.parametrize(
    ("method", "path", "with_token", "status"),
    [
        ("GET", "/v1/events/e1", False, 401),
        ("GET", "/v1/events/missing", True, 404),
        ("GET", "/v1/events", True, 422),
        ("GET", "/nowhere", True, 404),
        ("DELETE", "/v1/events/e1", True, 405),
        ("POST", "/v1/events", True, 415),
    ],
)
def test_refusals_are_problems(
    *, method: str, path: str, with_token: bool, status: int, gateway: Gateway, function: Function
) -> None:
    answered, problem = function(gateway(method, path, headers=function.headers if with_token else {}))
    assert (answered, problem["status"]) == (status, status)


def test_fc22_calls_in_one_container_share_loop_and_clients(gateway: Gateway, function: Function) -> None:
    answers = [function(gateway("GET", "/readyz", headers=function.headers)) for _ in range(3)]
    assert [status for status, _ in answers] == [200, 200, 200]
    loop = function.runtime.runner.get_loop()
    function.runtime.run(lambda platform: platform.store.head("e1"))
    assert function(gateway("GET", "/readyz", headers=function.headers))[0] == 200
    assert function.runtime.runner.get_loop() is loop


def test_without_a_tokens_file_the_function_lets_nobody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime(publishing=True, variables={"INTERLOCK_ENGINE": "memory"})
    monkeypatch.setattr(operator_api, "RUNTIME", runtime)
    for _ in range(2):
        with pytest.raises(Misconfigured, match="INTERLOCK_AUTH__TOKENS_FILE: is not set"):
            operator_api.handler(rest_api("GET", "/healthz"), Context())
    runtime.close()
