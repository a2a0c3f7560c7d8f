"""Which workflows have completed, from Temporal's own list (ports/workflow_history.py)."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Final

from temporalio.service import RPCError

from adapters.temporal.connection import Temporal, translate
from adapters.temporal.workflow_starter import EVENT_ID
from domain.routing import Handled
from domain.times import format_time

PAGE: Final = 1000


class TemporalHistory:
    """Asks for closed workflows; those that the router started bear its memo."""

    def __init__(self, temporal: Temporal) -> None:
        """Ask this server."""
        self._temporal = temporal

    async def completed(self, since: datetime, /) -> AsyncIterator[Handled]:
        """Give the routed workflows that have completed since a time; see the port."""
        client = await self._temporal.client()
        query = f"ExecutionStatus = 'Completed' AND CloseTime >= '{format_time(since)}'"
        try:
            async for run in client.list_workflows(query, page_size=PAGE):
                if run.close_time is not None and EVENT_ID in run.raw_info.memo.fields:
                    yield Handled(run.id, run.run_id, run.close_time.astimezone(UTC))
        except (RPCError, RuntimeError) as error:
            raise translate(error) from error
