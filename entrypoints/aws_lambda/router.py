"""The event router: an EventBridge event in, its workflow started once (R-301 to R-307).

Imports no more than it needs: a test lists what it must not load (goal G19). It raises where the start failed for good,
so that EventBridge's own retries and the function's dead-letter queue take over (FC-20).
"""

import json
import os
import time
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from application.route import Router, RouteResult
from domain.errors import Invalid
from domain.eventbridge import from_eventbridge
from domain.times import format_time
from entrypoints import routed
from entrypoints.aws_lambda.runtime import Context, Warm, log, write_line
from entrypoints.engines.router import RouterStores, make_router, make_starter, open_stores
from entrypoints.engines.skip_list import SkipListEngine
from entrypoints.failures import code_of, reason_of
from ports.workflow_starter import WorkflowStarter

MARGIN_SECONDS: Final = 1.0
"""Kept of the function's time, at most: to raise, and to write logs and figures, before AWS ends it."""

MARGIN_PART: Final = 0.2


class RouterRuntime(Warm):
    """A container's loop, stores and router, made at the first call and kept (FC-22).

    Args:
        variables: the environment.

    Raises:
        Misconfigured: a variable cannot work.
    """

    def __init__(self, variables: Mapping[str, str] = os.environ) -> None:
        super().__init__(variables)
        if self.settings.engine == "aws":
            # It makes no call. All that it needs is loaded here, while AWS starts the container at full speed.
            _ = self.router

    @cached_property
    def stores(self) -> RouterStores:
        """Catalog and ledger."""
        return open_stores(self.settings)

    @cached_property
    def starter(self) -> WorkflowStarter:
        """The Temporal server."""
        return make_starter(self.settings)

    @cached_property
    def skip_list(self) -> SkipListEngine:
        """The skip list."""
        return SkipListEngine(self.settings, self.metrics, _tell_failed_reading)

    @cached_property
    def router(self) -> Router:
        """The router."""
        return make_router(self.settings, self.stores, self.starter, self.skip_list.reader, self.metrics)

    def route(self, event: object, context: Context) -> RouteResult:
        """Route one event on the loop; then write the figures, also where it failed."""
        if not isinstance(event, dict):
            raise Invalid("", "is no event of EventBridge")
        left = context.get_remaining_time_in_millis() / 1000
        end = time.monotonic() + left - min(MARGIN_SECONDS, left * MARGIN_PART)
        return self.run_once(lambda: self.router.route(from_eventbridge(event), lambda: end - time.monotonic()))

    def close(self) -> None:
        """Close stores and loop, as at the end of a container."""
        self.runner.run(self.skip_list.aclose())
        self.runner.run(self.stores.aclose())
        super().close()


def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Start the workflow of an event.

    Args:
        event: from EventBridge.
        context: of the invocation.

    Returns:
        `{"outcome": "started" | "already_started" | "skipped" | "caught", "workflow", "workflow_id", "run_id",
        "task_queue", "attempts"}` (CONTRACTS § 6).

    Raises:
        Unavailable: Temporal or a store did not answer within the function's time.
        TooLarge: the event does not fit.
        Invalid: no event of EventBridge, or one that breaks a rule of the envelope; or Temporal refused it.
        Misconfigured: Temporal does not know the namespace or the key, or a store is not set up.
    """
    try:
        result = RUNTIME.route(event, context)
    except Exception as error:
        log("error", "event not routed", context, code=code_of(error), reason=reason_of(error))
        raise
    _tell(result, context)
    return routed.outcome(result)


def _tell(result: RouteResult, context: Context) -> None:
    """Log what became of an event; and where its id was found, because a republish changes the envelope's (FC-14)."""
    log("info", "event routed", context, **routed.outcome(result), why=result.why, event_id_from=result.event_id_from)
    if RUNTIME.router.catalog.is_stale:
        log("warning", "the catalog did not answer; the last known workflows are used", context)


def _tell_failed_reading(error: Exception, read_at: datetime | None) -> None:
    """Log that the skip list could not be read, and which one is used (FC-24)."""
    line = {
        "level": "warning",
        "event": "the skip list did not answer; the last known one is used",
        "code": code_of(error),
        "reason": reason_of(error),
        "read_at": None if read_at is None else format_time(read_at),
    }
    write_line(json.dumps(line))


RUNTIME: Final = RouterRuntime()
