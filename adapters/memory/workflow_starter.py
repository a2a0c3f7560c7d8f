"""A workflow server that only keeps its books (ports/workflow_starter.py)."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from domain.routing import Started, StartRequest
from ports.clock import Clock
from ports.id_source import IdSource

State = Literal["running", "completed", "failed", "timed_out", "terminated", "cancelled"]

_TAKEN: Final = frozenset({"running", "completed"})


@dataclass(slots=True)
class Run:
    """The last run under an id."""

    run_id: str
    request: StartRequest
    state: State = "running"
    closed_at: datetime | None = None
    starts: int = field(default=1)


class MemoryStarter:
    """Takes each id once, as the real server does; its owner says what became of the runs.

    Attributes:
        runs: the last run under each id.
        calls: how often a start was asked for.
    """

    def __init__(self, clock: Clock, ids: IdSource) -> None:
        """Begin without any run."""
        self.runs: dict[str, Run] = {}
        self.calls = 0
        self._clock = clock
        self._ids = ids

    async def start(self, request: StartRequest, seconds: float, /) -> Started:  # noqa: ARG002 - it answers at once
        """Ask for a workflow to be started; see the port."""
        self.calls += 1
        last = self.runs.get(request.workflow_id)
        if last is not None and last.request.start_id == request.start_id:
            return Started(last.run_id, is_new=True)
        if last is not None and last.state in _TAKEN:
            return Started(last.run_id, is_new=False)
        run = Run(self._ids.new_id(), request, starts=1 if last is None else last.starts + 1)
        self.runs[request.workflow_id] = run
        return Started(run.run_id, is_new=True)

    def close(self, workflow_id: str, state: State) -> None:
        """Say what became of a run."""
        run = self.runs[workflow_id]
        run.state, run.closed_at = state, self._clock.now()

    def continue_as_new(self, workflow_id: str) -> None:
        """Let a run go on as a new one under the same id."""
        self.runs[workflow_id].run_id = self._ids.new_id()

    def forget(self, workflow_id: str) -> None:
        """Forget a closed run, as the server does after its retention."""
        del self.runs[workflow_id]
