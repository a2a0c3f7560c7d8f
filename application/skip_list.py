"""Editing the skip list in bulk, and answering the router from memory why an event is skipped (R-307, FC-24)."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from domain.skip_list import (
    SkipEntry,
    SkipKey,
    SkipListQuery,
    check_event_type,
    check_reason,
    check_report_ids,
    page_limit,
    read_page_token,
    skip_reason,
    write_page_token,
)
from ports.clock import Clock
from ports.metrics import Metrics
from ports.skip_list_store import SkipListStore

CACHE_SECONDS: Final = 15.0
PATIENCE: Final = 2.0
"""Seconds that one event waits for the list where what is known is too old, or nothing is known yet."""

READ_SECONDS: Final = 30.0
"""Seconds after which a reading of the list that does not end is given up."""


class Edited(NamedTuple):
    """What became of the ids of a bulk edit: done + unchanged = ids given."""

    done: int
    unchanged: int


class SkipPage(NamedTuple):
    """A page of the list, and the token of the next one; empty at the end."""

    entries: Sequence[SkipEntry]
    next_page_token: str


async def add_reports(
    store: SkipListStore, clock: Clock, event_type: str, report_ids: Sequence[str], reason: str
) -> Edited:
    """List reports for an event type, or for every type where it is empty. What is listed keeps its reason.

    Raises:
        Invalid: an argument breaks a rule; nothing was listed.
        Unavailable, PartlyDone: some may be listed; repeating the call is safe.
    """
    kind, why, now = check_event_type(event_type), check_reason(reason), clock.now()
    entries = [SkipEntry(SkipKey(kind, report_id), why, now) for report_id in check_report_ids(report_ids)]
    added = await store.add(entries)
    return Edited(added, len(report_ids) - added)


async def remove_reports(store: SkipListStore, event_type: str, report_ids: Sequence[str]) -> Edited:
    """Take reports off the list of an event type; where it is empty, those that were listed for every type.

    Raises:
        Invalid: an argument breaks a rule; nothing was removed.
        Unavailable, PartlyDone: some may be removed; repeating the call is safe.
    """
    kind = check_event_type(event_type)
    removed = await store.remove([SkipKey(kind, report_id) for report_id in check_report_ids(report_ids)])
    return Edited(removed, len(report_ids) - removed)


async def list_reports(store: SkipListStore, event_type: str, page_size: int, page_token: str) -> SkipPage:
    """Give a page of an event type's entries; of all entries where it is empty.

    Reads one entry more than the page, to know whether there is a next one: a full last page has no token.

    Raises:
        Invalid: an argument breaks a rule; `BadCursor` for a token that this list did not give.
        Unavailable: the store did not answer.
    """
    kind, limit = check_event_type(event_type) or None, page_limit(page_size)
    after = read_page_token(kind, page_token) if page_token else None
    query = SkipListQuery(kind, limit + 1, after)
    found = await store.page(query)
    entries = found[:limit]
    return SkipPage(entries, write_page_token(query, entries[-1].key) if len(found) > limit else "")


class SkipListReader:
    """The list as it was a moment ago, for the router: it never raises, and never skips what is not listed.

    | what is known | then |
    |---|---|
    | is younger than half of the cache time | it answers |
    | is younger than the cache time | it answers, and is read again beside the event |
    | is older, or there is nothing | it is read, and the event waits for that, up to `patience` |
    | the reading failed, or takes longer | the last known list answers, however old; without one nothing is skipped |

    A failed reading is told to `on_failure`, and tried again after a tenth of the cache time. Answers from a list that
    is too old are counted in `skip_list_stale_answers_total`, with `known="no"` where there never was one.

    Args:
        store: where the list is kept.
        clock: what the age of the list is measured by.
        metrics: where figures go.
        cache_seconds: after how long a change of the list counts.
        patience: seconds that one event waits for a reading.
        on_failure: is given what a reading failed of, and when the list that is known was read.
    """

    def __init__(
        self,
        store: SkipListStore,
        clock: Clock,
        metrics: Metrics,
        *,
        cache_seconds: float = CACHE_SECONDS,
        patience: float = PATIENCE,
        on_failure: Callable[[Exception, datetime | None], None] = lambda _, __: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._cache = timedelta(seconds=cache_seconds)
        self._patience = patience
        self._on_failure = on_failure
        self._entries: dict[SkipKey, str] = {}
        self._read_at: datetime | None = None
        self._failed_at: datetime | None = None
        self._reading: asyncio.Task[None] | None = None
        self._too_slow: asyncio.Task[None] | None = None

    async def reason(self, event_type: str, report_id: str | None, /) -> str | None:
        """Say why an event is skipped, or None where it is not."""
        if report_id is None:
            return None
        if not self._is_younger_than(self._cache / 2):
            reading = self._read_beside()
            if reading is not None and reading is not self._too_slow and not self._is_younger_than(self._cache):
                _, unfinished = await asyncio.wait([reading], timeout=self._patience)
                self._too_slow = reading if unfinished else None
            if not self._is_younger_than(self._cache):
                known = "no" if self._read_at is None else "yes"
                self._metrics.count("skip_list_stale_answers_total", known=known)
        return skip_reason(self._entries, event_type, report_id)

    async def aclose(self) -> None:
        """Give up a reading that is under way."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    def _is_younger_than(self, age: timedelta) -> bool:
        return self._read_at is not None and self._clock.now() - self._read_at < age

    def _read_beside(self) -> asyncio.Task[None] | None:
        """Give the reading that is under way, or a new one; None where one failed a moment ago.

        A task of a loop that is gone never ends, so it counts as none (FC-22).
        """
        loop = asyncio.get_running_loop()
        reading = self._reading
        if reading is not None and not reading.done() and reading.get_loop() is loop:
            return reading
        if self._failed_at is not None and self._clock.now() - self._failed_at < self._cache / 10:
            return None
        self._reading = loop.create_task(self._read())
        return self._reading

    async def _read(self) -> None:
        asked_at = self._clock.now()
        try:
            async with asyncio.timeout(READ_SECONDS):
                entries = await self._store.everything()
        except Exception as error:  # noqa: BLE001 - whatever it is, no event may fail of it; it is told
            self._failed_at = self._clock.now()
            self._metrics.count("skip_list_failed_readings_total")
            self._on_failure(error, self._read_at)
        else:
            self._entries = {entry.key: entry.reason for entry in entries}
            self._read_at, self._failed_at = asked_at, None
