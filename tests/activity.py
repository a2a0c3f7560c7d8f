"""Rows of accounts' activity for tests, and ways to fill and empty stores."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from adapters.aws.clients import Aws
from adapters.dynamodb.activity_rows import owner_item, row_item
from adapters.memory.activity_store import MemoryActivityStore
from adapters.memory.clock import ManualClock
from adapters.memory.metrics import MemoryMetrics
from adapters.memory.object_store import MemoryObjectStore
from adapters.sqlite.database import Database
from application.activity import ActivityFeed
from application.activity_history import ActivityHistory, Bounds
from domain.activity import Activity, ActivityQuery, Place, activity_of, place_key, place_of
from domain.cursor import CursorKeys
from domain.redaction import RedactionPolicy
from ports.activity_store import ActivityStore
from ports.object_store import ObjectStore
from tests.examples import START, an_envelope

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Remove = Callable[[Sequence[Activity]], Awaitable[None]]
"""Deletes rows behind the store's back, as the end of their time or a person's wish does."""

BOUNDS = Bounds()
KEYS = CursorKeys([b"k" * 32])


def a_row(number: int, *, account: str = "acme", seconds: float | None = None, **data: object) -> Activity:
    """Give the row of an event of an account, so many seconds after the start; by default its number."""
    at = START + timedelta(seconds=number if seconds is None else seconds)
    envelope = an_envelope(
        f"e{number}",
        type=data.pop("type", "ReportRunCompletedEvent"),
        time=at.isoformat(),
        data={"account_id": account, "number": number, **data},
    )
    return activity_of(envelope, at)


def a_query(**more: object) -> ActivityQuery:
    """Give a query of the account that `a_row` writes for, oldest first."""
    return ActivityQuery(**{"account": "acme", "descending": False, **more})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class WatchedFeed(ActivityFeed):
    """A feed whose clock can be moved and whose figures can be read."""

    clock: ManualClock
    metrics: MemoryMetrics


def a_feed(store: ActivityStore, payloads: ObjectStore | None = None, *, inline_bytes: int = 65_536) -> WatchedFeed:
    """Give what recording needs over a store, a day after the rows of tests begin."""
    clock = ManualClock(START + timedelta(days=1))
    return WatchedFeed(store, payloads or MemoryObjectStore(), clock, MemoryMetrics(), inline_bytes)


def a_history(feed: ActivityFeed, *, bounds: Bounds = BOUNDS, keys: CursorKeys | None = KEYS) -> ActivityHistory:
    """Give the reader of what a feed writes."""
    return ActivityHistory(
        feed.store, feed.payloads, RedactionPolicy(), feed.clock, feed.metrics, keys=keys, bounds=bounds
    )


def remove_from_memory(store: MemoryActivityStore) -> Remove:
    """Delete rows of the memory engine."""

    async def remove(rows: Sequence[Activity]) -> None:
        for row in rows:
            place = place_key(place_of(row))
            store._ids.discard(row.activity_id)
            store._rows[row.account].pop(place)
            store._places[row.account].remove(place)

    return remove


def remove_from_sqlite(database: Database) -> Remove:
    """Delete rows of a file."""

    async def remove(rows: Sequence[Activity]) -> None:
        ids = [(row.activity_id,) for row in rows]
        await database.write(
            lambda connection: connection.executemany("DELETE FROM activities WHERE activity_id = ?", ids).rowcount
        )

    return remove


def remove_from_dynamodb(aws: Aws, table: str) -> Remove:
    """Delete rows of a table, and what says where they are."""

    async def remove(rows: Sequence[Activity]) -> None:
        for row in rows:
            for item in (row_item(row, ""), owner_item(row)):
                await aws.dynamodb.call(partial(_delete, table, {"pk": item["pk"], "sk": item["sk"]}))

    return remove


def _delete(table: str, key: Any, client: "DynamoDBClient") -> None:
    client.delete_item(TableName=table, Key=key)


def in_order(rows: Sequence[Activity], *, descending: bool = False) -> list[Place]:
    """Give the places of rows as a store lists them."""
    return sorted((place_of(row) for row in rows), reverse=descending)
