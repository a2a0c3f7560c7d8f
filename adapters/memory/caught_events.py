"""What the catch-all recorded, in this process's memory (ports/caught_events.py)."""

from dataclasses import replace
from datetime import datetime

from domain.routing import Caught


class MemoryCaughtEvents:
    """Caught events in a dict."""

    def __init__(self) -> None:
        """Start empty."""
        self._caught: dict[str, Caught] = {}

    async def record(self, caught: Caught, /) -> None:
        """Keep an event."""
        self._caught.setdefault(caught.workflow_id, caught)

    async def types(self) -> list[str]:
        """Give the types of which an event was ever caught."""
        return sorted({caught.envelope.type for caught in self._caught.values()})

    async def of_type(self, event_type: str, after: str, limit: int, /) -> list[Caught]:
        """Give events of a type past an id, in the order of their ids."""
        found = sorted(
            (caught for caught in self._caught.values() if caught.envelope.type == event_type),
            key=lambda caught: caught.workflow_id,
        )
        return [caught for caught in found if caught.workflow_id > after][:limit]

    async def mark_replayed(self, caught: Caught, at: datetime, /) -> None:
        """Note that a workflow of its own was started for an event."""
        kept = self._caught.get(caught.workflow_id)
        if kept is not None and kept.replayed_at is None:
            self._caught[caught.workflow_id] = replace(kept, replayed_at=at)
