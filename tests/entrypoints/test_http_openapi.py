"""The OpenAPI document, held to what the API does."""

import asyncio
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import settings
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis.checks import CheckFunction, not_a_server_error
from schemathesis.specs.openapi import checks

from domain.envelope import Envelope
from domain.gateway import ROUTES
from entrypoints.http.activity import PARAMETERS
from entrypoints.http.events import LIST_PARAMETERS
from entrypoints.http.problems import STATUSES
from entrypoints.http.router import EXPLAIN_PARAMETERS
from entrypoints.http.schemas import Event
from tests.activity import a_row
from tests.entrypoints.http_api import Api, a_server, an_api

HELD: Final[list[CheckFunction]] = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
HELD_AT_LENGTH: Final[list[CheckFunction]] = [*HELD, checks.ignored_auth, checks.unsupported_method]


async def an_api_with_events() -> Api:
    async with an_api() as api:
        await api.ingest("e1", "e2", "e3")
        await api.client.post("/v1/events/e2/transitions", json={"to": "open"})
        await api.feed.store.record([a_row(number, account="0") for number in range(3)])
        return api


API = asyncio.run(an_api_with_events())
DOCUMENT = API.app.openapi()
CALLS = schemathesis.openapi.from_dict(DOCUMENT)
HEADERS = {"Authorization": API.client.headers["Authorization"]}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A real server, with events in several states."""
    with a_server(API.app) as address:
        yield address


@CALLS.parametrize()
@settings(max_examples=8, deadline=None, derandomize=True)
def test_the_api_does_what_its_document_says(case: schemathesis.Case[Any], url: str) -> None:
    """A batch is answered with 202 whatever its events are worth, and the front door reads no body at all."""
    takes_anything = isinstance(case.body, list) or case.path == "/v1/intake"
    refused: list[CheckFunction] = [] if takes_anything else [checks.negative_data_rejection]
    case.call_and_validate(url, checks=[*HELD_AT_LENGTH, *refused], headers=HEADERS)


@CALLS.include(path_regex="event_id").parametrize()
@settings(max_examples=5, deadline=None, derandomize=True)
def test_the_api_does_what_its_document_says_of_events_that_are_there(case: schemathesis.Case[Any], url: str) -> None:
    case.path_parameters["event_id"] = "e2"
    case.call_and_validate(url, checks=HELD, headers=HEADERS)


def test_the_document_is_openapi_3_1() -> None:
    assert DOCUMENT["openapi"].startswith("3.1.")
    OpenAPIV31SpecValidator(DOCUMENT).validate()


def test_every_call_of_the_contract_is_described() -> None:
    """CONTRACTS § 4."""
    assert {(method, path) for path, item in DOCUMENT["paths"].items() for method in item} == {
        ("post", "/v1/intake"),
        ("post", "/v1/events"),
        ("get", "/v1/events"),
        ("get", "/v1/events/{event_id}"),
        ("get", "/v1/events/{event_id}/history"),
        ("post", "/v1/events/{event_id}/transitions"),
        ("get", "/v1/router/explain"),
        ("get", "/v1/activity"),
        ("get", "/healthz"),
        ("get", "/readyz"),
        ("get", "/metrics"),
    }


def test_every_call_names_its_scope_and_its_refusals() -> None:
    scopes = {}
    for path, item in DOCUMENT["paths"].items():
        for method, call in item.items():
            if path.startswith("/v1/"):
                ((scopes[method, path],),) = [next(iter(need.values())) for need in call["security"]]
                for status, response in call["responses"].items():
                    media = "application/json" if status.startswith("2") else "application/problem+json"
                    assert list(response["content"]) == [media]
                    assert response["content"][media]["schema"].keys() == {"$ref"}
                assert {"401", "403", "500", "503"} <= call["responses"].keys()
    assert scopes == {
        ("post", "/v1/intake"): "ingest",
        ("post", "/v1/events"): "ingest",
        ("get", "/v1/events"): "view",
        ("get", "/v1/events/{event_id}"): "view",
        ("get", "/v1/events/{event_id}/history"): "view",
        ("post", "/v1/events/{event_id}/transitions"): "operate",
        ("get", "/v1/router/explain"): "view",
        ("get", "/v1/activity"): "view",
    }


def test_fc37_the_gateways_policy_opens_each_call_to_its_scope_and_to_no_other() -> None:
    for path, item in DOCUMENT["paths"].items():
        for method, call in item.items():
            if path.startswith("/v1/"):
                ((scope,),) = [next(iter(need.values())) for need in call["security"]]
                called = f"{method.upper()}{path.replace('{event_id}', 'a%2Fb')}"
                opened = {of for of, routes in ROUTES.items() if any(fnmatchcase(called, route) for route in routes)}
                assert opened == {scope}, called


def test_the_parameters_of_a_list_are_described() -> None:
    described = DOCUMENT["paths"]["/v1/events"]["get"]["parameters"]
    assert tuple(parameter["name"] for parameter in described) == LIST_PARAMETERS
    assert described[0]["schema"]["enum"] == ["to_review", "open", "scheduled", "under_watch", "closed"]
    described = DOCUMENT["paths"]["/v1/activity"]["get"]["parameters"]
    assert tuple(parameter["name"] for parameter in described) == PARAMETERS


def test_the_described_event_is_the_envelope() -> None:
    """The document's schema and the reader have the same attributes, with the same lengths and patterns."""
    assert Event.model_fields.keys() == Envelope.model_fields.keys()
    ours, read = Event.model_json_schema()["properties"], Envelope.model_json_schema()["properties"]
    for name in ("specversion", "id", "source", "type"):
        rules = {"const", "minLength", "maxLength", "pattern", "type"}
        assert {rule: ours[name][rule] for rule in rules & ours[name].keys()} == {
            rule: read[name][rule] for rule in rules & read[name].keys()
        }


def test_the_reference_page_names_every_call_parameter_and_problem() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "http-api.md").read_text(encoding="utf-8")
    calls = {f"`{method.upper()} {path}`" for path, item in DOCUMENT["paths"].items() for method in item}
    codes = {kind.code for kind, _, _ in STATUSES} | {"unavailable", "contention"}
    kinds = {f"`urn:interlock:problem:{code}`" for code in codes - {"retryable"}}
    parameters = {f"`{name}`" for name in (*LIST_PARAMETERS, *PARAMETERS, *EXPLAIN_PARAMETERS, "Idempotency-Key")}
    assert not [name for name in calls | kinds | parameters if name not in page]
