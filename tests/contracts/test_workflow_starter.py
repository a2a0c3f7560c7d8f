"""The server in memory keeps the same contract as the real one, state by state."""

import uuid
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.common import WorkflowIDReusePolicy
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from adapters.memory.clock import ManualClock
from adapters.memory.workflow_history import MemoryHistory
from adapters.memory.workflow_starter import MemoryStarter
from adapters.memory.workflow_starter import State as MemoryState
from adapters.system.clock import SystemClock
from adapters.system.id_source import RandomIds
from adapters.temporal.connection import Target, Temporal, connect
from adapters.temporal.workflow_history import TemporalHistory
from adapters.temporal.workflow_starter import TemporalStarter
from domain.envelope import Envelope
from domain.routing import CATCH_ALL, StartRequest
from tests.contracts.workflow_history import WorkflowHistoryContract
from tests.contracts.workflow_starter import WORKFLOW, State, WorkflowStarterContract
from tests.examples import START, an_envelope
from tests.temporal_workflows import ReportRunCompletedEventWorkflow
from tests.waiting import until

pytestmark = pytest.mark.anyio


class MemoryServer:
    """Has the server in memory note what became of runs."""

    def __init__(self, starter: MemoryStarter) -> None:
        self._starter = starter

    async def bring_to(self, workflow_id: str, state: State) -> None:
        if state == "continued":
            self._starter.continue_as_new(workflow_id)
        elif state != "running":
            closed: MemoryState = state
            self._starter.close(workflow_id, closed)

    async def runs(self, workflow_id: str) -> int:
        return self._starter.runs[workflow_id].starts

    async def input_of(self, workflow_id: str) -> Envelope:
        return self._starter.runs[workflow_id].request.envelope


class RealServer:
    """Does to runs on the real server what brings them into a state."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._added: dict[str, int] = {}

    async def bring_to(self, workflow_id: str, state: State) -> None:
        handle = self._client.get_workflow_handle(workflow_id)
        match state:
            case "running":
                return
            case "completed":
                await handle.signal("end", "complete")
                await handle.result()
            case "failed":
                await handle.signal("end", "fail")
            case "terminated":
                await handle.terminate()
            case "cancelled":
                await handle.cancel()
            case "timed_out":
                # A run cannot be told to time out, so another one under this id does.
                await self._client.start_workflow(
                    WORKFLOW,
                    id=workflow_id,
                    task_queue="nobody",
                    run_timeout=timedelta(seconds=1),
                    id_reuse_policy=WorkflowIDReusePolicy.TERMINATE_IF_RUNNING,
                )
                self._added[workflow_id] = 1
            case "continued":
                first = (await handle.describe()).run_id

                async def went_on() -> bool:
                    return (await handle.describe()).run_id != first

                await until(went_on)
                return
        if state != "completed":
            with pytest.raises(WorkflowFailureError):
                await self._client.get_workflow_handle(workflow_id).result()

    async def runs(self, workflow_id: str) -> int:
        latest = (await self._client.get_workflow_handle(workflow_id).describe()).run_id
        found: dict[str, WorkflowExecutionStatus | None] = {}

        async def listed() -> bool:
            async for run in self._client.list_workflows(f"WorkflowId = '{workflow_id}'"):
                found[run.run_id] = run.status
            return latest in found

        await until(listed)
        began = [status for status in found.values() if status is not WorkflowExecutionStatus.CONTINUED_AS_NEW]
        return len(began) - self._added.get(workflow_id, 0)

    async def input_of(self, workflow_id: str) -> Envelope:
        history = await self._client.get_workflow_handle(workflow_id).fetch_history()
        (payload,) = history.events[0].workflow_execution_started_event_attributes.input.payloads
        (envelope,) = await self._client.data_converter.decode([payload], [Envelope])
        assert isinstance(envelope, Envelope)
        return envelope


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


class TestMemoryStarter(WorkflowStarterContract):
    adapter = "adapters.memory.workflow_starter"

    @pytest.fixture
    def starter(self, clock: ManualClock) -> MemoryStarter:
        return MemoryStarter(clock, RandomIds())

    @pytest.fixture
    def server(self, starter: MemoryStarter) -> MemoryServer:
        return MemoryServer(starter)


class TestMemoryHistory(WorkflowHistoryContract):
    adapter = "adapters.memory.workflow_history"

    @pytest.fixture
    def starter(self, clock: ManualClock) -> MemoryStarter:
        return MemoryStarter(clock, RandomIds())

    @pytest.fixture
    def server(self, starter: MemoryStarter) -> MemoryServer:
        return MemoryServer(starter)

    @pytest.fixture
    def history(self, starter: MemoryStarter) -> MemoryHistory:
        return MemoryHistory(starter)


@pytest.fixture(scope="module")
async def real(temporal_address: str) -> AsyncIterator[Client]:
    """A client of the real server, and a worker that runs what the tests start."""
    client = await connect(Target(temporal_address), lazy=False)
    async with Worker(
        client,
        task_queue="contract",
        workflows=[ReportRunCompletedEventWorkflow],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        yield client


@pytest.fixture
def temporal(temporal_address: str) -> Temporal:
    return Temporal(Target(temporal_address))


class TestTemporalStarter(WorkflowStarterContract):
    adapter = "adapters.temporal.workflow_starter"

    @pytest.fixture
    def starter(self, temporal: Temporal) -> TemporalStarter:
        return TemporalStarter(temporal)

    @pytest.fixture
    def server(self, real: Client) -> RealServer:
        return RealServer(real)

    async def test_the_memo_and_the_names_are_those_of_the_contract(
        self, starter: TemporalStarter, server: RealServer, real: Client
    ) -> None:
        event_id = uuid.uuid4().hex
        request = StartRequest(
            CATCH_ALL, f"{CATCH_ALL}-t-{event_id}", "nobody", an_envelope("e1"), event_id, "s", "because"
        )
        await starter.start(request, 10)
        run = await real.get_workflow_handle(request.workflow_id).describe()
        assert (run.workflow_type, run.task_queue) == (CATCH_ALL, "nobody")
        assert await run.memo() == {
            "interlock.event_id": event_id,
            "interlock.source": "/flights/nyc",
            "interlock.type": "FlightDelayed",
            "interlock.why": "because",
        }
        assert run.status is WorkflowExecutionStatus.RUNNING
        await real.get_workflow_handle(request.workflow_id).terminate()
        assert await server.runs(request.workflow_id) == 1


class TestTemporalHistory(WorkflowHistoryContract):
    adapter = "adapters.temporal.workflow_history"

    @pytest.fixture
    def clock(self) -> SystemClock:
        return SystemClock()

    @pytest.fixture
    def starter(self, temporal: Temporal) -> TemporalStarter:
        return TemporalStarter(temporal)

    @pytest.fixture
    def server(self, real: Client) -> RealServer:
        return RealServer(real)

    @pytest.fixture
    def history(self, temporal: Temporal) -> TemporalHistory:
        return TemporalHistory(temporal)
