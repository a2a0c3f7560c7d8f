"""`GET /v1/router/explain`: where an event would go, and why (R-308)."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from adapters.memory.workflow_catalog import MemoryCatalog
from domain.errors import Unavailable
from domain.routing import Offer
from tests.entrypoints.http_api import Api, an_api, check_problem, pointers
from tests.examples import START

pytestmark = pytest.mark.anyio


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with an_api() as api:
        queues = ("events", "exports")
        names = ("ReportRunCompletedEventWorkflow", "ExportRequestedWorkflow")
        await api.catalog.publish(Offer("w", names, queues, START + timedelta(minutes=5)))
        yield api


async def explained(api: Api, **parameters: str) -> dict[str, str]:
    response = await api.client.get("/v1/router/explain", params=parameters)
    assert response.status_code == 200, response.text
    answer: dict[str, str] = response.json()
    return answer


async def test_r308_a_type_with_a_workflow_is_started(api: Api) -> None:
    assert await explained(api, type="ReportRunCompletedEvent", report_id="R1") == {
        "outcome": "start",
        "workflow": "ReportRunCompletedEventWorkflow",
        "workflow_id": "ReportRunCompletedEventWorkflow-{event_id}",
        "task_queue": "events",
        "why": "a worker serves ReportRunCompletedEventWorkflow on the task queue events",
    }
    assert (await explained(api, type="ExportRequested"))["task_queue"] == "exports"


async def test_r308_a_type_without_one_goes_to_the_catch_all(api: Api) -> None:
    answer = await explained(api, type="Order placed")
    assert (answer["outcome"], answer["workflow"]) == ("catch_all", "UnmatchedEventWorkflow")
    assert answer["workflow_id"].startswith("UnmatchedEventWorkflow-~")
    assert answer["why"] == "no worker serves a workflow for this type of event"


async def test_r308_a_listed_report_is_skipped_and_the_reason_told(api: Api) -> None:
    api.skipped["R1"] = "source is wrong"
    answer = await explained(api, type="ReportRunCompletedEvent", report_id="R1")
    assert (answer["outcome"], answer["why"]) == ("skip", "on the skip list: source is wrong")
    assert (await explained(api, type="ReportRunCompletedEvent", report_id="R2"))["outcome"] == "start"


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("", "/type"),
        ("type=", "/type"),
        (f"type={'x' * 129}", "/type"),
        ("type=a%00b", "/type"),
        ("type=a&report_id=", "/report_id"),
        ("type=a&id=1", "/id"),
        ("type=a&type=b", "/type"),
    ],
)
async def test_r308_a_bad_parameter_is_named(api: Api, query: str, name: str) -> None:
    problem = check_problem(await api.client.get(f"/v1/router/explain?{query}"), 422)
    assert pointers(problem) == [name]


async def test_r308_it_needs_the_scope_to_view(api: Api) -> None:
    token = api.access.issue("operate")
    headers = {"Authorization": f"Bearer {token}"}
    check_problem(await api.client.get("/v1/router/explain?type=a", headers=headers), 403)


async def test_r308_a_catalog_that_never_answered_is_503() -> None:
    class Away(MemoryCatalog):
        async def offers(self) -> list[Offer]:
            raise Unavailable("catalog", "away")

    async with an_api(catalog=Away()) as api:
        problem = check_problem(await api.client.get("/v1/router/explain?type=a"), 503)
        assert "away" not in problem["detail"], "what an adapter says stays in the log"
