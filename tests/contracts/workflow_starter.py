"""What every workflow starter promises (ports/workflow_starter.py). Subclass it and provide `starter` and `server`."""

import asyncio
import uuid
from typing import ClassVar, Literal, Protocol

import pytest

from domain.envelope import Envelope
from domain.routing import CATCH_ALL, Started, StartRequest
from ports.workflow_starter import WorkflowStarter
from tests.examples import an_envelope

State = Literal["running", "completed", "failed", "timed_out", "terminated", "cancelled", "continued"]

WORKFLOW = "ReportRunCompletedEventWorkflow"
SECONDS = 10.0


class Server(Protocol):
    """What the suite needs to do with the server behind a starter."""

    async def bring_to(self, workflow_id: str, state: State) -> None:
        """Bring the run under an id, which runs, into a state."""
        ...

    async def runs(self, workflow_id: str) -> int:
        """Count the runs that were ever started under an id, not those that they continued as."""
        ...

    async def input_of(self, workflow_id: str) -> Envelope:
        """Give the one argument of the run under an id, as a workflow reads it."""
        ...


def a_request(workflow_id: str | None = None, start_id: str | None = None, **data: object) -> StartRequest:
    """Give a start of a workflow that runs until something is done to it."""
    event_id = uuid.uuid4().hex
    return StartRequest(
        workflow=WORKFLOW,
        workflow_id=workflow_id or f"{WORKFLOW}-{event_id}",
        task_queue="contract",
        envelope=an_envelope(event_id, type="ReportRunCompletedEvent", data={"do": "wait", **data}),
        event_id=event_id,
        start_id=start_id or uuid.uuid4().hex,
        why="a test",
    )


class WorkflowStarterContract:
    """One class of tests an adapter."""

    adapter: ClassVar[str]

    async def test_r304_a_first_start_is_new_and_hands_over_the_envelope(
        self, starter: WorkflowStarter, server: Server
    ) -> None:
        request = a_request(nested={"a": [1, 2.5, None, "é😀"]})
        started = await starter.start(request, SECONDS)
        assert started.is_new
        assert started.run_id
        assert await server.runs(request.workflow_id) == 1
        assert (await server.input_of(request.workflow_id)).attributes() == request.envelope.attributes()

    @pytest.mark.parametrize("state", ["running", "completed", "continued"])
    async def test_r304_an_id_that_runs_or_has_completed_is_not_started_again(
        self, starter: WorkflowStarter, server: Server, state: State
    ) -> None:
        request = a_request(do="continue") if state == "continued" else a_request()
        first = await starter.start(request, SECONDS)
        await server.bring_to(request.workflow_id, state)
        second = await starter.start(a_request(request.workflow_id), SECONDS)
        assert not second.is_new
        assert second.run_id
        if state != "continued":
            assert second.run_id == first.run_id
        assert await server.runs(request.workflow_id) == 1

    @pytest.mark.parametrize("state", ["failed", "timed_out", "terminated", "cancelled"])
    async def test_r304_an_id_that_failed_is_started_again(
        self, starter: WorkflowStarter, server: Server, state: State
    ) -> None:
        request = a_request()
        first = await starter.start(request, SECONDS)
        await server.bring_to(request.workflow_id, state)
        second = await starter.start(a_request(request.workflow_id), SECONDS)
        assert second.is_new
        assert second.run_id != first.run_id
        third = await starter.start(a_request(request.workflow_id), SECONDS)
        assert third == Started(second.run_id, is_new=False)
        assert await server.runs(request.workflow_id) == 2

    @pytest.mark.parametrize("state", ["running", "completed", "failed"])
    async def test_r304_a_start_whose_answer_was_lost_is_recognised_and_stays_new(
        self, starter: WorkflowStarter, server: Server, state: State
    ) -> None:
        request = a_request()
        first = await starter.start(request, SECONDS)
        await server.bring_to(request.workflow_id, state)
        assert await starter.start(request, SECONDS) == Started(first.run_id, is_new=True)
        assert await server.runs(request.workflow_id) == 1

    async def test_r304_of_many_copies_at_once_one_is_new(self, starter: WorkflowStarter, server: Server) -> None:
        workflow_id = a_request().workflow_id
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(starter.start(a_request(workflow_id), SECONDS)) for _ in range(40)]
        answers = [task.result() for task in asked]
        assert [answer.is_new for answer in answers].count(True) == 1
        assert len({answer.run_id for answer in answers}) == 1
        assert await server.runs(workflow_id) == 1

    async def test_r304_ids_differ_by_case_and_by_every_character(
        self, starter: WorkflowStarter, server: Server
    ) -> None:
        base = uuid.uuid4().hex
        ids = [
            f"A-{base}",
            f"a-{base}",
            f"A-{base}.",
            f"A-{base}:",
            f"A-{base}_",
            f"A-~{base}",
            f"{CATCH_ALL}-A-{base}",
        ]
        for workflow_id in ids:
            assert (await starter.start(a_request(workflow_id), SECONDS)).is_new
        assert [await server.runs(workflow_id) for workflow_id in ids] == [1] * len(ids)
