"""Workflows that tests run on a real Temporal server: each does what its event says."""

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError

from domain.envelope import Envelope


@workflow.defn
class ReportRunCompletedEventWorkflow:
    """Ends as `data.do` says (complete, fail, continue as new, or wait), or as the signal `end` says later."""

    def __init__(self) -> None:
        self._told = ""

    @workflow.signal
    def end(self, how: str) -> None:
        self._told = how

    @workflow.run
    async def run(self, envelope: Envelope) -> str:
        data = envelope.data if isinstance(envelope.data, dict) else {}
        how = str(data.get("do", "complete"))
        if how == "continue":
            if workflow.info().continued_run_id is None:
                workflow.continue_as_new(envelope)
            how = "wait"
        if how == "wait":
            await workflow.wait_condition(lambda: bool(self._told))
            how = self._told
        if how == "fail":
            raise ApplicationError("on purpose", non_retryable=True)
        return envelope.id


@workflow.defn
class ExportRequestedWorkflow:
    """Takes as long as `data.seconds` says, in an activity."""

    @workflow.run
    async def run(self, envelope: dict[str, Any]) -> str:
        seconds = float(envelope["data"].get("seconds", 0))
        await workflow.execute_activity(
            export,
            seconds,
            start_to_close_timeout=timedelta(seconds=60),
            retry_policy=RetryPolicy(maximum_attempts=1),
        )
        return "exported"


@activity.defn
async def export(seconds: float) -> None:
    await asyncio.sleep(seconds)
