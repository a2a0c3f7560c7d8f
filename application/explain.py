"""Where an event would go, and why, without starting anything (R-308)."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from application.catalog import CatalogReader
from domain.routing import CatchAll, RouteDecision, RoutingRules, decide

Explain: TypeAlias = Callable[[str, str | None], Awaitable[RouteDecision]]
"""Says where an event of a type, about a report, would go."""


class SkipReasons(Protocol):
    """Why events are skipped, answered from memory; it never raises."""

    async def reason(self, event_type: str, report_id: str | None, /) -> str | None:
        """Give the reason why an event is skipped, or None where it is not."""
        ...


async def explain(
    catalog: CatalogReader,
    skips: SkipReasons,
    rules: RoutingRules,
    event_type: str,
    event_id: str | None,
    report: str | None,
) -> RouteDecision:
    """Decide about an event by what is known now.

    Args:
        catalog: which workflows exist.
        skips: which reports are skipped.
        rules: which types are exports.
        event_type: the envelope's type.
        event_id: by which its copies meet; None where only the way is asked for.
        report: the report that it is about, if any.

    Raises:
        Unavailable: the catalog does not answer, and was never read.
    """
    skip_reason = await skips.reason(event_type, report)
    decision = decide(event_type, event_id, await catalog.served(), rules, skip_reason)
    if isinstance(decision, CatchAll):
        # A worker may have come since the catalog was read.
        decision = decide(event_type, event_id, await catalog.served_lately(), rules, skip_reason)
    return decision
