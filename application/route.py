"""Routing one event: decide, look into the ledger where it is old, start, and start again where that may help.

R-301 to R-307.

A warm event costs one call to the workflow server and none to a store: the catalog and the skip list answer from what
they read a moment ago, and the server itself refuses an id that it has (goal G26).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Literal

from application.catalog import CatalogReader
from application.explain import SkipReasons, explain
from domain.envelope import Envelope
from domain.errors import Retryable, Unavailable
from domain.retry import RetryRule
from domain.routing import (
    CatchAll,
    EventIdSource,
    RouteDecision,
    RoutingRules,
    Skip,
    Started,
    StartRequest,
    event_identity,
    report_id,
)
from ports.clock import Clock
from ports.id_source import IdSource
from ports.metrics import Metrics
from ports.start_ledger import StartLedger
from ports.workflow_starter import WorkflowStarter

Outcome = Literal["started", "already_started", "skipped", "caught"]

REMEMBERED: Final = timedelta(hours=20)
"""How old an event may be whose start the server surely remembers: the least retention is a day."""


CLOCKS_DIFFER: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class RouteResult:
    """What became of an event (CONTRACTS § 6).

    Attributes:
        run_id: of the run that is there now; None where none was started.
        attempts: how often the server was asked.
        why: the reason of the decision.
        event_id: the id by which its copies meet.
        event_id_from: where that was found (FC-14).
    """

    outcome: Outcome
    workflow: str
    workflow_id: str
    run_id: str | None
    task_queue: str
    attempts: int
    why: str
    event_id: str
    event_id_from: EventIdSource


@dataclass(frozen=True, slots=True)
class Router:
    """Routes events.

    Attributes:
        spread: gives random numbers from 0 to 1, which spread the waits.
        retry: how often a start is asked for, and how long is waited in between.
        attempt_seconds: how long one answer is waited for.
        remembered: events older than this are looked up in the ledger before they are started; so are those without a
            time.
    """

    starter: WorkflowStarter
    catalog: CatalogReader
    ledger: StartLedger
    skips: SkipReasons
    clock: Clock
    ids: IdSource
    metrics: Metrics
    spread: Callable[[], float]
    rules: RoutingRules = field(default=RoutingRules())
    retry: RetryRule = field(default=RetryRule())
    attempt_seconds: float = 5.0
    remembered: timedelta = REMEMBERED

    async def decide(self, event_type: str, event_id: str | None, report: str | None) -> RouteDecision:
        """Say where an event would go (R-308).

        Raises:
            Unavailable: the catalog does not answer, and was never read.
        """
        return await explain(self.catalog, self.skips, self.rules, event_type, event_id, report)

    async def route(self, envelope: Envelope, remaining: Callable[[], float]) -> RouteResult:
        """Start the workflow of an event, once (R-304).

        Args:
            envelope: the event.
            remaining: gives the seconds that are left.

        Raises:
            Unavailable: the server or the ledger did not answer in time, however often it was asked; or the catalog
                does not answer, and was never read.
            TooLarge: the event does not fit.
            Invalid: the server refuses the request.
            Misconfigured: the server cannot be used as it is set up.
        """
        identity = event_identity(envelope)
        decision = await self.decide(envelope.type, identity.event_id, report_id(envelope))

        def result(outcome: Outcome, run_id: str | None, attempts: int) -> RouteResult:
            self.metrics.count("router_events_total", outcome=outcome)
            return RouteResult(
                outcome,
                decision.workflow,
                decision.workflow_id,
                run_id,
                decision.task_queue,
                attempts,
                decision.why,
                identity.event_id,
                identity.found_in,
            )

        if isinstance(decision, Skip):
            return result("skipped", None, 0)
        if self._may_be_forgotten(envelope):
            handled = await self.ledger.find(decision.workflow_id)
            if handled is not None:
                return result("already_started", handled.run_id, 0)
        request = StartRequest(
            workflow=decision.workflow,
            workflow_id=decision.workflow_id,
            task_queue=decision.task_queue,
            envelope=envelope,
            event_id=identity.event_id,
            start_id=self.ids.new_id(),
            why=decision.why,
        )
        started, attempts = await self._start(request, remaining)
        if not started.is_new:
            return result("already_started", started.run_id or None, attempts)
        return result("caught" if isinstance(decision, CatchAll) else "started", started.run_id, attempts)

    def _may_be_forgotten(self, envelope: Envelope) -> bool:
        """Say whether the server may have forgotten an event's start.

        | the event's time | may be forgotten |
        |---|---|
        | none | yes: nobody can say how old it is |
        | `remembered` ago, or longer | yes |
        | since then, or ahead by what clocks differ | no: a start is no older than its event |
        | further ahead | yes: it is not to be trusted |
        """
        occurred_at = envelope.occurred_at
        if occurred_at is None or not self.remembered:
            return True
        return not -CLOCKS_DIFFER < self.clock.now() - occurred_at < self.remembered

    async def _start(self, request: StartRequest, remaining: Callable[[], float]) -> tuple[Started, int]:
        attempt = 0
        dependency, reason = "the workflow server", "no time was left to ask"
        while (left := remaining()) > 0:
            attempt += 1
            try:
                return await self.starter.start(request, min(left, self.attempt_seconds)), attempt
            except Retryable as error:
                dependency, reason = (
                    (error.dependency, error.reason) if isinstance(error, Unavailable) else (dependency, str(error))
                )
                self.metrics.count("router_failed_attempts_total")
            seconds = self.retry.wait_within(attempt, self.spread(), remaining())
            if seconds is None:
                break
            await self.clock.sleep(seconds)
        raise Unavailable(dependency, f"{reason} (asked {attempt} times)")
