"""Example workflows for the flights of the demo: one class a type of event, named as the type and `Workflow`.

`interlock worker temporal --workflows entrypoints.demo.workflows` runs them. `FlightDiverted` has none, on purpose.
"""

import asyncio
from datetime import timedelta
from typing import Final

from temporalio import activity, workflow

from domain.envelope import Envelope

EXPORT_SECONDS: Final = 1.0


@workflow.defn
class FlightDelayedWorkflow:
    """Says how bad a delay is."""

    @workflow.run
    async def run(self, event: Envelope) -> str:
        """Read the minutes, and sort them."""
        minutes = event.data.get("arr_delay") if isinstance(event.data, dict) else None
        if not isinstance(minutes, int | float):
            return "unknown"
        return "long" if minutes > 60 else "short"  # noqa: PLR2004 - an hour


@workflow.defn
class FlightCancelledWorkflow:
    """Says who has to look for another flight."""

    @workflow.run
    async def run(self, event: Envelope) -> str:
        """Name what was cancelled."""
        return f"passengers of {event.subject}"


@workflow.defn
class ExportFlightRequestedWorkflow:
    """Writes an export: slow, and so on the task queue for exports, where nothing else waits for it (R-306)."""

    @workflow.run
    async def run(self, event: Envelope) -> int:
        """Have the export written."""
        return await workflow.execute_activity(
            write_export, event.id, start_to_close_timeout=timedelta(seconds=EXPORT_SECONDS * 30)
        )


@activity.defn
async def write_export(event_id: str) -> int:
    """Take the time that an export takes, and give its size in bytes."""
    await asyncio.sleep(EXPORT_SECONDS)
    return len(event_id.encode())
