"""The event store on DynamoDB (ports/event_store.py, ADR 0002)."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from adapters.aws.clients import Aws, together
from adapters.dynamodb.items import (
    EVENT_KEY,
    HEAD_KEY,
    checked,
    event_from,
    event_item,
    fact_item,
    head_from,
    head_item,
    may_be_key,
    missed_item,
    state_shard,
    stream_from,
)
from adapters.dynamodb.requests import (
    check_transaction,
    chunks,
    first_head,
    index_query,
    move_head,
    partition_query,
    put_new,
)
from adapters.dynamodb.table import BY_ENTITY, BY_STATE
from adapters.dynamodb.writes import Reason, transact, write_one
from domain.errors import CorruptHistory, Misconfigured, NotFound, Unavailable, VersionConflict
from domain.event import Head, ListQuery, Missed, RecordedEvent, Stream, list_key
from domain.lifecycle import Transition
from domain.retry import RetryRule

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import QueryOutputTypeDef, TransactWriteItemTypeDef

    from adapters.dynamodb.items import Item

MAX_FILTERED_PAGE: Final = 1000


class DynamoDBEventStore:
    """Events, facts and heads in one table.

    Args:
        aws: the clients.
        table: name of the table, see `create_table`.
        shards: over how many index partitions the heads of one state are spread. It may be raised later,
            never lowered: rows would be out of sight.
        retry: how often and how fast to look again where other writers are in the way.
    """

    def __init__(self, aws: Aws, table: str, *, shards: int = 4, retry: RetryRule | None = None) -> None:
        if shards < 1:
            raise Misconfigured("shards", "must be at least 1")
        self._db = aws.dynamodb
        self._table = table
        self._shards = shards
        self._retry = retry or RetryRule()

    async def record(self, events: Sequence[RecordedEvent], /) -> list[RecordedEvent]:
        """Record envelopes: one alone in a PutItem, more in transactions; see the port.

        Raises:
            TooLarge: an envelope over 400 KB as an item. Nothing was written.
        """
        first = {event.event_id: event for event in reversed(events)}
        items = {event_id: checked(event_item(event)) for event_id, event in first.items()}
        stored: dict[str, RecordedEvent] = {}
        for answers in await together([self._record(first, chunk) for chunk in chunks(items)]):
            stored.update(answers)
        return [stored[event.event_id] for event in events]

    async def event(self, event_id: str, /) -> RecordedEvent | None:
        """Give a recorded event."""
        item = await self._get(event_id, EVENT_KEY)
        return None if item is None else event_from(item)

    async def head(self, event_id: str, /) -> Head | None:
        """Give where an event stands."""
        item = await self._get(event_id, HEAD_KEY)
        return None if item is None else head_from(item)

    async def stream(self, event_id: str, /) -> Stream:
        """Give head, history and missed moves from one consistent query; see the port.

        A query is not isolated from a transaction that commits meanwhile: it may meet the new fact beside the old
        head. They are read again until they agree.

        Raises:
            CorruptHistory: head and facts never agreed.
        """
        attempt = 0
        while True:
            stream = stream_from([item async for item in self._partition(event_id)])
            reached = stream.history[-1].sequence if stream.history else 0
            if reached == (stream.head.sequence if stream.head else 0):
                return stream
            attempt += 1
            if not await self._wait(attempt):
                raise CorruptHistory(event_id, "its head is not at its last transition")

    async def append(self, head: Head, facts: Sequence[Transition], /) -> None:
        """Append facts and move the head in one transaction; see the port.

        Raises:
            TooLarge: more than a transaction holds: 98 facts (99 after the first), or 4 MB. Nothing was written.
        """
        expected = facts[0].sequence - 1
        items = [checked(fact_item(fact)) for fact in facts]
        moved = checked(head_item(head, self._shards))
        check_transaction([*items, moved], checks=0 if expected else 1)
        writes: list[TransactWriteItemTypeDef] = [{"Put": put_new(self._table, item)} for item in items]
        if expected:
            writes.append({"Put": move_head(self._table, moved, expected)})
        else:
            writes += first_head(self._table, moved, head.source)
        reasons = await transact(self._db, writes)
        refused = {index: reason["Code"] for index, reason in enumerate(reasons) if reason["Code"] != "None"}
        if refused == {len(facts) + 1: "ConditionalCheckFailed"}:
            raise NotFound(head.event_id)
        if refused:
            raise VersionConflict(head.event_id, expected)

    async def note_missed(self, missed: Missed, /) -> None:
        """Note a missed move, once a command."""
        for reason in await self._put(checked(missed_item(missed))):
            if reason["Code"] != "ConditionalCheckFailed":
                raise Unavailable("DynamoDB", "another writer was in the way")

    async def list_heads(self, query: ListQuery, /) -> list[Head]:
        """Give a page of heads: a query of `by_entity`, or one a shard of `by_state`, merged."""
        if query.entity is not None:
            return await self._page(BY_ENTITY, query.entity, query)
        pages = await together(
            [self._page(BY_STATE, state_shard(query.state or "", shard), query) for shard in range(self._shards)]
        )
        return list(islice(merge(*pages, key=_listed, reverse=query.descending), query.limit))

    async def _record(self, events: Mapping[str, RecordedEvent], items: "dict[str, Item]") -> dict[str, RecordedEvent]:
        """Record up to a transaction's worth; what is found to exist is left out of the next attempt."""
        stored: dict[str, RecordedEvent] = {}
        attempt = 0
        while items:
            ids = list(items)
            if len(ids) == 1:
                reasons = await self._put(items[ids[0]])
            else:
                reasons = await transact(self._db, [{"Put": put_new(self._table, item)} for item in items.values()])
            if not reasons:
                return stored | {event_id: events[event_id] for event_id in ids}
            there = {
                event_id: event_from(reason["Item"])
                for event_id, reason in zip(ids, reasons, strict=True)
                if reason["Code"] == "ConditionalCheckFailed"
            }
            stored |= there
            items = {event_id: item for event_id, item in items.items() if event_id not in there}
            if not there:
                attempt += 1
                if not await self._wait(attempt):
                    raise Unavailable("DynamoDB", "other writers were in the way of every attempt")
        return stored

    async def _put(self, item: "Item") -> Sequence[Reason]:
        return await write_one(self._db, {"Put": put_new(self._table, item)})

    async def _get(self, event_id: str, key: str) -> "Item | None":
        if not may_be_key(event_id):
            return None
        answer = await self._db.call(
            lambda db: db.get_item(
                TableName=self._table, Key={"pk": {"S": event_id}, "sk": {"S": key}}, ConsistentRead=True
            )
        )
        return answer.get("Item")

    async def _query(self, request: Mapping[str, Any]) -> "QueryOutputTypeDef":
        return await self._db.call(lambda db: db.query(**request))

    async def _partition(self, event_id: str) -> "AsyncIterator[Item]":
        """Give what is stored of an event but the envelope, 1 MB a query."""
        request = partition_query(self._table, event_id)
        while may_be_key(event_id):
            answer = await self._query(request)
            for item in answer["Items"]:
                yield item
            request["ExclusiveStartKey"] = answer.get("LastEvaluatedKey")
            if not request["ExclusiveStartKey"]:
                return

    async def _page(self, index: str, partition: str, query: ListQuery) -> list[Head]:
        """Read one partition of an index until the page is full or the data ends (FC-25)."""
        request = index_query(self._table, index, partition, query)
        if request is None:
            return []
        after = None if query.after is None else list_key(query.after.occurred_at, query.after.event_id)
        size = query.limit if after is None else query.limit + 1
        page: list[Head] = []
        while True:
            answer = await self._query({**request, "Limit": size})
            page += [head for head in map(head_from, answer["Items"]) if _listed(head) != after]
            request["ExclusiveStartKey"] = answer.get("LastEvaluatedKey")
            if len(page) >= query.limit or not request["ExclusiveStartKey"]:
                return page[: query.limit]
            if "FilterExpression" in request:
                # The limit counts rows before the filter: where it keeps few, small pages would be very many.
                size = min(2 * size, MAX_FILTERED_PAGE)

    async def _wait(self, attempt: int) -> bool:
        """Wait before the next attempt; say whether there is one."""
        seconds = self._retry.wait(attempt, random.random())  # noqa: S311 - spreads the writers, guards nothing
        if seconds is None:
            return False
        await asyncio.sleep(seconds)
        return True


def _listed(head: Head) -> str:
    return list_key(head.occurred_at, head.event_id)
