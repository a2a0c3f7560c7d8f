"""What the workflow server in memory says of completed workflows (ports/workflow_history.py)."""

from collections.abc import AsyncIterator
from datetime import datetime

from adapters.memory.workflow_starter import MemoryStarter
from domain.routing import Handled


class MemoryHistory:
    """Reads the books of a `MemoryStarter`."""

    def __init__(self, server: MemoryStarter) -> None:
        """Read these books."""
        self._server = server

    async def completed(self, since: datetime, /) -> AsyncIterator[Handled]:
        """Give the workflows that have completed since a time; see the port."""
        for workflow_id, run in list(self._server.runs.items()):
            if run.state == "completed" and run.closed_at is not None and run.closed_at >= since:
                yield Handled(workflow_id, run.run_id, run.closed_at)
