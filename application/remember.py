"""Writing down which workflows have completed, before the server forgets them (R-304; ADR 0013)."""

from datetime import UTC, datetime, timedelta
from typing import Final

from domain.routing import Handled
from ports.clock import Clock
from ports.start_ledger import StartLedger
from ports.workflow_history import WorkflowHistory

LAG: Final = timedelta(minutes=5)
"""How far the server's list may be behind: what it shows as of so long ago is whole."""

CHUNK: Final = 500
_ALWAYS: Final = datetime(1970, 1, 1, tzinfo=UTC)


async def remember_completed(history: WorkflowHistory, ledger: StartLedger, clock: Clock) -> int:
    """Write the workflows into the ledger that have completed since the last time, some of them once more.

    Several processes may do so at once. One that stops half-way leaves the rest to the next time.

    Returns:
        How many were written.

    Raises:
        Unavailable: the server or the ledger did not answer.
        Misconfigured: the namespace is not there, or may not be read.
    """
    started_at = clock.now()
    since = await ledger.swept_until() or _ALWAYS
    chunk: list[Handled] = []
    written = 0
    async for handled in history.completed(since):
        chunk.append(handled)
        if len(chunk) == CHUNK:
            await ledger.record(chunk)
            written, chunk = written + len(chunk), []
    if chunk:
        await ledger.record(chunk)
    await ledger.note_swept(started_at - LAG)
    return written + len(chunk)
