"""The one way to read activity: complete, within bounds, redacted (R-402 to R-404)."""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from pydantic import JsonValue

from domain.activity import Activity, ActivityQuery, Place, Pointer, Stretch, check_query, place_of, unsealed
from domain.cursor import CursorKeys
from domain.envelope import BINARY_DATA
from domain.errors import Invalid
from domain.json_reader import read_json, write_json
from domain.redaction import RedactionPolicy, mask_text, redact
from domain.times import format_time, parse_time
from ports.activity_store import ActivityStore
from ports.clock import Clock
from ports.metrics import Metrics
from ports.object_store import ObjectStore

MISSING: Final = "payloadmissing"
"""The attribute of an item whose payload is no longer where it was put, or cannot be read."""
MOST_ROWS: Final = 4096
"""How many rows one read of the store looks at, at most."""

_AT_ONCE: Final = 16
# Redacting so much takes some milliseconds; more must not hold up other callers.
_QUICK_BYTES: Final = 64 * 1024


class Bounds(NamedTuple):
    """How much one page may take.

    Attributes:
        reads: of the store; a page that would need more is handed out as it is, with a cursor to go on from.
        page_bytes: of its items as JSON, unless one alone has more. Lambda answers with 6 MB at most (FC-33).
    """

    reads: int = 200
    page_bytes: int = 2 * 1024 * 1024


_BOUNDS: Final = Bounds()


class ActivityPage(NamedTuple):
    """A page: redacted events in the form of CONTRACTS § 1, and the cursor to the next page, if there may be more."""

    items: Sequence[dict[str, JsonValue]]
    next_cursor: str | None


class ActivityHistory:
    """The one reader of activity. What it gives is redacted, so that nobody who shows it can forget to (R-403).

    Args:
        store: the rows.
        payloads: what is too large for them.
        policy: what readers do not get to see.
        clock: dates cursors.
        metrics: counts pages.
        keys: sign cursors; None: the store's own key does.
        bounds: how much a page may take.
    """

    def __init__(
        self,
        store: ActivityStore,
        payloads: ObjectStore | None,
        policy: RedactionPolicy,
        clock: Clock,
        metrics: Metrics,
        *,
        keys: CursorKeys | None = None,
        bounds: Bounds = _BOUNDS,
    ) -> None:
        self._store = store
        self._payloads = payloads
        self._policy = policy
        self._clock = clock
        self._metrics = metrics
        self._keys = keys
        self._bounds = bounds

    async def page(self, query: ActivityQuery, cursor: str | None = None) -> ActivityPage:
        """Give a page of an account's events.

        It is full unless the data ends (R-402), with two exceptions that its cursor tells: a page of more bytes than
        `Bounds.page_bytes` ends early, and so does one that would read the store more than `Bounds.reads` times. The
        second may be empty, and still there is more.

        Args:
            query: whose, which and in what order.
            cursor: `next_cursor` of the page before; None: the first page.

        Raises:
            Invalid: the query can have no answer; `place` names the parameter.
            BadCursor: it is not this query's, or out of date.
            Unavailable: a store did not answer.
        """
        check_query(query)
        rows, more = await self._rows(query, None if cursor is None else await self._place(query, cursor))
        items = await self._items(rows)
        if len(items) < len(rows):
            more = place_of(rows[len(items) - 1])
        self._metrics.count("activity_pages_total", outcome=_outcome(query, items, more))
        return ActivityPage(items, None if more is None else await self._cursor(query, more))

    async def check(self) -> None:
        """Ask the store something, to learn whether it answers.

        Raises:
            Unavailable, Misconfigured: it does not.
        """
        await self._store.find(Stretch(ActivityQuery("-"), None, 1, 1))

    async def _rows(self, query: ActivityQuery, after: Place | None) -> tuple[list[Activity], Place | None]:
        """Follow a query until the page is full or the data ends, and say where the next page starts, if there is one.

        One row more than the page is asked for: a page that ends with the data has no cursor (FC-25). Where matches are
        rare, each read looks at twice as many rows as the one before.
        """
        rows: list[Activity] = []
        looked_at = query.limit + 1
        for _ in range(self._bounds.reads):
            found = await self._store.find(Stretch(query, after, query.limit + 1 - len(rows), looked_at))
            rows += found.activities
            after = found.next
            if len(rows) > query.limit:
                return rows[: query.limit], place_of(rows[query.limit - 1])
            if after is None or sum(row.payload.size for row in rows) > self._bounds.page_bytes:
                break
            looked_at = min(2 * looked_at, MOST_ROWS)
        return rows, after

    async def _items(self, rows: Sequence[Activity]) -> list[dict[str, JsonValue]]:
        """Give what a reader may see of rows: of the first ones, where all would be too much for a page."""
        items: list[dict[str, JsonValue]] = []
        left = self._bounds.page_bytes
        for start in range(0, len(rows), _AT_ONCE):
            chunk = rows[start : start + _AT_ONCE]
            for row, content in zip(chunk, await self._contents(chunk), strict=True):
                await asyncio.sleep(0)  # other callers have their turn between two events
                if content is None or len(content) <= _QUICK_BYTES:
                    item = self._redacted(row, content)
                else:
                    item = await asyncio.to_thread(self._redacted, row, content)
                left -= len(write_json(item).encode())
                if items and left < 0:
                    return items
                items.append(item)
        return items

    async def _contents(self, rows: Sequence[Activity]) -> list[bytes | None]:
        """Give the envelopes of a few rows; those that are kept elsewhere are fetched side by side.

        Raises:
            Unavailable, Misconfigured: one could not be fetched; the first error, by itself.
        """
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._content(row)) for row in rows]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _content(self, row: Activity) -> bytes | None:
        if not isinstance(row.payload, Pointer):
            return unsealed(row.payload).encode()
        content = None if self._payloads is None else await self._payloads.get(row.payload.key)
        if content is None or not row.payload.key.endswith(hashlib.sha256(content).hexdigest()):
            self._metrics.count("activity_payloads_missing_total")
            return None
        return content

    def _redacted(self, row: Activity, content: bytes | None) -> dict[str, JsonValue]:
        """Give what a reader may see of an event: attributes and data, each redacted; the time in the one form."""
        try:
            attributes = None if content is None else read_json(content)
        except Invalid:
            attributes = None
        shown: dict[str, JsonValue] = {"specversion": "1.0", "type": mask_text(self._policy, row.type)}
        shown["time"] = format_time(row.occurred_at)
        if not isinstance(attributes, dict):
            return {**shown, MISSING: True}
        data = {name: attributes.pop(name) for name in ("data",) if name in attributes}
        binary = {BINARY_DATA: ""} if attributes.pop(BINARY_DATA, None) is not None else {}  # nobody can look into it
        seen = redact(self._policy, "", attributes)  # safe-lists name members of data
        shown = {**seen, "time": shown["time"]} if isinstance(seen, dict) else shown
        return {**shown, **binary, **{name: redact(self._policy, row.type, value) for name, value in data.items()}}

    async def _cursor(self, query: ActivityQuery, place: Place) -> str:
        keys = await self._signing_keys()
        said = (format_time(place.occurred_at), place.activity_id)
        return keys.sign(query.bound(), said, self._clock.now())

    async def _place(self, query: ActivityQuery, cursor: str) -> Place:
        keys = await self._signing_keys()
        occurred_at, activity_id = keys.read(query.bound(), cursor, self._clock.now(), parts=2)
        return Place(parse_time(occurred_at), activity_id)

    async def _signing_keys(self) -> CursorKeys:
        if self._keys is None:
            self._keys = CursorKeys([await self._store.cursor_key()])
        return self._keys


def _outcome(query: ActivityQuery, items: Sequence[object], more: Place | None) -> str:
    """Say how a page ended: with the data, full, or cut short by a bound."""
    if more is None:
        return "last"
    return "full" if len(items) == query.limit else "cut"
