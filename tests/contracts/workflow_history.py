"""What every history of workflows promises (ports/workflow_history.py). Subclass it, and provide the fixtures."""

from datetime import UTC, datetime
from typing import ClassVar

from domain.routing import Handled
from ports.clock import Clock
from ports.workflow_history import WorkflowHistory
from ports.workflow_starter import WorkflowStarter
from tests.contracts.workflow_starter import SECONDS, Server, State, a_request
from tests.waiting import until

LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class WorkflowHistoryContract:
    """One class of tests an adapter."""

    adapter: ClassVar[str]

    async def test_r304_it_lists_what_has_completed_and_nothing_else(
        self, history: WorkflowHistory, starter: WorkflowStarter, server: Server, clock: Clock
    ) -> None:
        states: list[State] = ["completed", "failed", "terminated", "cancelled", "running", "completed"]
        requests = [a_request() for _ in states]
        ids = {request.workflow_id for request in requests}
        begun = clock.now()
        runs = {}
        for request, state in zip(requests, states, strict=True):
            runs[request.workflow_id] = (await starter.start(request, SECONDS)).run_id
            await server.bring_to(request.workflow_id, state)
        wanted = {(request.workflow_id, runs[request.workflow_id]) for request in (requests[0], requests[-1])}
        found: list[Handled] = []

        async def all_listed() -> bool:
            found[:] = [one async for one in history.completed(begun) if one.workflow_id in ids]
            return len(found) >= len(wanted)

        await until(all_listed)
        assert {(one.workflow_id, one.run_id) for one in found} == wanted
        assert all(begun <= one.completed_at <= clock.now() for one in found)

    async def test_r304_it_begins_at_the_time_that_is_asked_for(
        self, history: WorkflowHistory, starter: WorkflowStarter, server: Server
    ) -> None:
        request = a_request()
        await starter.start(request, SECONDS)
        await server.bring_to(request.workflow_id, "completed")
        found: list[Handled] = []

        async def listed() -> bool:
            found[:] = [one async for one in history.completed(LONG_AGO) if one.workflow_id == request.workflow_id]
            return bool(found)

        await until(listed)
        (one,) = found
        assert one.workflow_id in {same.workflow_id async for same in history.completed(one.completed_at)}
        later = one.completed_at.replace(year=one.completed_at.year + 1)
        assert one.workflow_id not in {other.workflow_id async for other in history.completed(later)}
