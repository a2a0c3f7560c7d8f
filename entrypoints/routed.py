"""What clients see of routing, as plain dicts: the same from Lambda, HTTP and the command line (CONTRACTS §§ 4, 6)."""

from typing import Any

from application.route import RouteResult
from domain.routing import Caught, RouteDecision
from domain.times import format_time


def outcome(result: RouteResult) -> dict[str, Any]:
    """Write what became of an event."""
    return {
        "outcome": result.outcome,
        "workflow": result.workflow,
        "workflow_id": result.workflow_id,
        "run_id": result.run_id,
        "task_queue": result.task_queue,
        "attempts": result.attempts,
    }


def explained(decision: RouteDecision) -> dict[str, Any]:
    """Write where an event would go, and why."""
    return {
        "outcome": decision.outcome,
        "workflow": decision.workflow,
        "workflow_id": decision.workflow_id,
        "task_queue": decision.task_queue,
        "why": decision.why,
    }


def caught(event: Caught) -> dict[str, Any]:
    """Write an event that the catch-all recorded, without its content."""
    return {
        "workflow_id": event.workflow_id,
        "event_id": event.envelope.id,
        "type": event.envelope.type,
        "source": event.envelope.source,
        "caught_at": format_time(event.caught_at),
        "why": event.why,
        "replayed_at": None if event.replayed_at is None else format_time(event.replayed_at),
    }
