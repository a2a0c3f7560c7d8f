"""Which events were handled, for longer than the workflow server remembers (R-304; ADR 0013)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from domain.routing import Handled


class StartLedger(Protocol):
    """Completed workflows by id. Every method may raise `Unavailable`."""

    async def find(self, workflow_id: str, /) -> Handled | None:
        """Say whether a workflow of this id has completed, up to date."""
        ...

    async def record(self, handled: Sequence[Handled], /) -> None:
        """Write down completed workflows, each for at least `LEDGER_KEEPS`; repeating a call is safe."""
        ...

    async def swept_until(self) -> datetime | None:
        """Say until when completed workflows were collected; None before the first time."""
        ...

    async def note_swept(self, until: datetime, /) -> None:
        """Note until when completed workflows were collected; an earlier time than is there changes nothing."""
        ...
