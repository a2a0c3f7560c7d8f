"""The start ledger in this process's memory (ports/start_ledger.py)."""

from collections.abc import Sequence
from datetime import datetime

from domain.routing import Handled


class MemoryLedger:
    """Completed workflows in a dict."""

    def __init__(self) -> None:
        """Start empty."""
        self._handled: dict[str, Handled] = {}
        self._swept_until: datetime | None = None

    async def find(self, workflow_id: str, /) -> Handled | None:
        """Say whether a workflow of this id has completed."""
        return self._handled.get(workflow_id)

    async def record(self, handled: Sequence[Handled], /) -> None:
        """Write down completed workflows."""
        self._handled.update({one.workflow_id: one for one in handled})

    async def swept_until(self) -> datetime | None:
        """Say until when completed workflows were collected."""
        return self._swept_until

    async def note_swept(self, until: datetime, /) -> None:
        """Note until when completed workflows were collected."""
        self._swept_until = max(until, self._swept_until or until)
