"""A skip list on DynamoDB: one item an entry (ports/skip_list_store.py; R-307; table: settings_table.py).

| attribute | type | holds |
|---|---|---|
| `pk` | text | `skip#` and a digit: entries are spread, because one partition takes 1,000 writes a second |
| `sk` | text | event type, a tab, report id: neither holds a tab, and so keys are in the order of entries |
| `reason` | text | why |
| `added_at` | text | since when |

An entry is written or deleted by its key alone, in batches; nothing that is read is written back. To count what an edit
changed, the entries are looked up before it. An entry that two edits add, or remove, at the same moment may be counted
by both.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from adapters.aws.clients import Aws, together
from domain.errors import InterlockError, PartlyDone, Unavailable
from domain.retry import RetryRule
from domain.skip_list import SkipEntry, SkipKey, SkipListQuery
from domain.times import format_time, parse_time

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import WriteRequestTypeDef

SHARDS: Final = 4
MAX_WRITTEN_ITEMS: Final = 25
MAX_READ_ITEMS: Final = 100
_TAB: Final = "\t"
_AFTER_TAB: Final = "\n"


class DynamoDBSkipListStore:
    """Entries in the table of settings.

    Args:
        aws: the clients.
        table: name of the table, see `create_settings_table`.
        retry: how often and how fast to send again what DynamoDB had no time for.
    """

    def __init__(self, aws: Aws, table: str, *, retry: RetryRule | None = None) -> None:
        self._db = aws.dynamodb
        self._table = table
        self._retry = retry or RetryRule(attempts=8)

    async def add(self, entries: Sequence[SkipEntry], /) -> int:
        """List entries that are not listed yet; see the port."""
        listed = await self._listed([entry.key for entry in entries])
        new = [entry for entry in entries if entry.key not in listed]
        return await self._edit({entry.key: {"PutRequest": {"Item": _item(entry)}} for entry in new})

    async def remove(self, keys: Sequence[SkipKey], /) -> int:
        """Take entries off the list. All are deleted, also those that were not seen: one may have come meanwhile."""
        listed = await self._listed(keys)
        await self._edit({key: {"DeleteRequest": {"Key": _key(key)}} for key in keys})
        return len(listed)

    async def page(self, query: SkipListQuery, /) -> list[SkipEntry]:
        """Give a page: as much of every shard, merged."""
        pages = await together([self._shard(shard, query) for shard in range(SHARDS)])
        return list(islice(merge(*pages), query.limit))

    async def everything(self) -> list[SkipEntry]:
        """Give the whole list."""
        shards = await together([self._shard(shard, None) for shard in range(SHARDS)])
        return [entry for entries in shards for entry in entries]

    async def _listed(self, keys: Sequence[SkipKey]) -> set[SkipKey]:
        """Find which keys are listed.

        Raises:
            Unavailable: DynamoDB did not answer. Nothing was changed.
        """
        found = await together([self._look_up(chunk) for chunk in _chunks(keys, MAX_READ_ITEMS)])
        return {key for listed in found for key in listed}

    async def _look_up(self, keys: Sequence[SkipKey]) -> list[SkipKey]:
        found: list[SkipKey] = []
        wanted: Mapping[str, Any] = {
            self._table: {
                "Keys": [_key(key) for key in keys],
                "ConsistentRead": True,
                "ProjectionExpression": "sk",
            }
        }
        attempt = 0
        while wanted:
            answer = await self._read(wanted)
            found += [_key_from(item) for item in answer["Responses"].get(self._table, [])]
            wanted = answer.get("UnprocessedKeys", {})
            if wanted:
                attempt += 1
                await self._wait(attempt)
        return found

    async def _edit(self, requests: "Mapping[SkipKey, WriteRequestTypeDef]") -> int:
        """Send every request, and give how many there were.

        Raises:
            PartlyDone: some were not answered; the others took place.
            Misconfigured: DynamoDB refuses them as things are set up.
        """
        failures: list[InterlockError] = []
        left: list[SkipKey] = []

        async def write(keys: Sequence[SkipKey]) -> None:
            try:
                await self._write({self._table: [requests[key] for key in keys]})
            except Unavailable as error:
                failures.append(error)
                left.extend(keys)

        await together([write(chunk) for chunk in _chunks(list(requests), MAX_WRITTEN_ITEMS)])
        if failures:
            names = tuple(key.report_id for key in left)
            raise PartlyDone("DynamoDB", len(requests) - len(left), names, str(failures[0])) from failures[0]
        return len(requests)

    async def _write(self, requests: Mapping[str, Any]) -> None:
        attempt = 0
        left = requests
        while left:
            left = await self._send(left)
            if left:
                attempt += 1
                await self._wait(attempt)

    async def _send(self, requests: Mapping[str, Any]) -> Mapping[str, Any]:
        """Write what DynamoDB has time for, and give the rest."""
        answer: Mapping[str, Any] = await self._db.call(lambda db: db.batch_write_item(RequestItems=requests))
        rest: Mapping[str, Any] = answer.get("UnprocessedItems", {})
        return rest

    async def _read(self, wanted: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._db.call(lambda db: db.batch_get_item(RequestItems=wanted))

    async def _shard(self, shard: int, query: SkipListQuery | None) -> list[SkipEntry]:
        """Read a shard's entries, a megabyte a call; all of them where there is no query."""
        request = _query(self._table, shard, query)
        entries: list[SkipEntry] = []
        while True:
            page = await self._db.call(lambda db: db.query(**request))
            entries += [_entry(item) for item in page["Items"]]
            if query is not None and len(entries) >= query.limit:
                return entries[: query.limit]
            request["ExclusiveStartKey"] = page.get("LastEvaluatedKey")
            if not request["ExclusiveStartKey"]:
                return entries

    async def _wait(self, attempt: int) -> None:
        seconds = self._retry.wait(attempt, random.random())  # noqa: S311 - spreads the writers, guards nothing
        if seconds is None:
            raise Unavailable("DynamoDB", "it was too busy for every attempt")
        await asyncio.sleep(seconds)


def _query(table: str, shard: int, query: SkipListQuery | None) -> dict[str, Any]:
    """Ask a shard for entries.

    | `event_type` | `after` | sort keys asked for |
    |---|---|---|
    | None | None | all |
    | None | a key | those after it |
    | a type | None | those that begin with the type and a tab |
    | a type | a key | the same, those after it |

    No key holds a character below the tab, so those after a key are those from the key and a tab on.
    """
    request: dict[str, Any] = {
        "TableName": table,
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": {":pk": {"S": _partition(shard)}},
        "ConsistentRead": True,
    }
    if query is None:
        return request
    request["Limit"] = query.limit
    values = request["ExpressionAttributeValues"]
    low = "" if query.after is None else _sort_key(query.after) + _TAB
    if query.event_type is not None:
        request["KeyConditionExpression"] += " AND sk BETWEEN :low AND :high"
        values |= {":low": {"S": low or query.event_type + _TAB}, ":high": {"S": query.event_type + _AFTER_TAB}}
    elif low:
        request["KeyConditionExpression"] += " AND sk >= :low"
        values[":low"] = {"S": low}
    return request


def _partition(shard: int) -> str:
    return f"skip#{shard}"


def _sort_key(key: SkipKey) -> str:
    return f"{key.event_type}{_TAB}{key.report_id}"


def _key(key: SkipKey) -> dict[str, Any]:
    sort_key = _sort_key(key)
    return {"pk": {"S": _partition(crc32(sort_key.encode()) % SHARDS)}, "sk": {"S": sort_key}}


def _item(entry: SkipEntry) -> dict[str, Any]:
    return {
        **_key(entry.key),
        "reason": {"S": entry.reason},
        "added_at": {"S": format_time(entry.added_at)},
    }


def _key_from(item: Mapping[str, Any]) -> SkipKey:
    event_type, _, report_id = item["sk"]["S"].partition(_TAB)
    return SkipKey(event_type, report_id)


def _entry(item: Mapping[str, Any]) -> SkipEntry:
    return SkipEntry(_key_from(item), item["reason"]["S"], parse_time(item["added_at"]["S"]))


def _chunks(things: Sequence[SkipKey], size: int) -> list[Sequence[SkipKey]]:
    return [things[start : start + size] for start in range(0, len(things), size)]
