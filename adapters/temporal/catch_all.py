"""The workflow for events that have none (R-303): it records the event where `interlock router caught` finds it.

The record outlives the run, which Temporal forgets after its retention. While the store is away, Temporal tries again.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from temporalio import activity, workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from adapters.temporal.workflow_starter import WHY
    from domain.envelope import envelope_from
    from domain.errors import Invalid, Malformed, TooLarge
    from domain.routing import CATCH_ALL, Caught
    from domain.times import format_time, parse_time
    from ports.caught_events import CaughtEvents

RECORD: Final = "interlock.record_caught_event"
ATTEMPT: Final = timedelta(seconds=30)
HOPELESS: Final = [kind.__name__ for kind in (Invalid, Malformed, TooLarge)]
RETRY: Final = RetryPolicy(maximum_interval=timedelta(minutes=1), non_retryable_error_types=HOPELESS)


@workflow.defn(name=CATCH_ALL)
class UnmatchedEventWorkflow:
    """Records one event."""

    @workflow.run
    async def run(self, envelope: dict[str, Any]) -> None:
        """Record the event, however long the store takes to answer."""
        info = workflow.info()
        why = workflow.memo_value(WHY, "", type_hint=str)
        arguments = [envelope, info.workflow_id, format_time(info.workflow_start_time), why]
        await workflow.execute_activity(RECORD, args=arguments, start_to_close_timeout=ATTEMPT, retry_policy=RETRY)


@dataclass(frozen=True, slots=True)
class CatchAllActivities:
    """What the workflow asks the outside for."""

    caught: CaughtEvents

    @activity.defn(name=RECORD)
    async def record(self, envelope: dict[str, Any], workflow_id: str, caught_at: str, why: str) -> None:
        """Keep the event under the workflow's id; once more changes nothing."""
        event = envelope_from(envelope, max_bytes=None)
        await self.caught.record(Caught(workflow_id, parse_time(caught_at, "caught_at"), event, why))
