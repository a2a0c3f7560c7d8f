"""A key store on DynamoDB (ports/key_store.py; rows in adapters/dynamodb/key_rows.py; R-201 to R-209).

A new key is one conditional write. A known one is a write that is refused and tells what is there, then one that lets
the row live longer, as every check promises. A row that has ended never answers, although DynamoDB deletes it later.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from adapters.aws.clients import Aws, together
from adapters.dynamodb.key_rows import (
    SHARDS,
    Row,
    claim_row,
    extend_row,
    partition,
    revalue_row,
    row_from,
    row_key,
    value_row,
)
from adapters.dynamodb.writes import Reason, transact, write_one
from domain.dedup import Scope, key_hash, key_hashes
from domain.errors import Unavailable
from domain.retry import RetryRule
from ports.clock import Clock
from ports.id_source import IdSource

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import TransactWriteItemTypeDef

MAX_TRANSACTION_ITEMS: Final = 100
MAX_READ_ITEMS: Final = 100
MAX_DELETED_ITEMS: Final = 25
# So few keys are written one by one, side by side: that costs half as much and is in no transaction's way.
FEW: Final = 8
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class DynamoDBKeyStore:
    """Keys and values of all scopes in one table.

    Args:
        aws: the clients.
        table: name of the table, see `create_key_table`.
        clock: what life spans are measured by; the clocks of all writers should agree.
        ids: names the calls, so that a claim that boto3 sends again knows its own row.
        retry: how often and how fast to look again where other writers are in the way, or DynamoDB did only a part.
    """

    def __init__(self, aws: Aws, table: str, clock: Clock, ids: IdSource, *, retry: RetryRule | None = None) -> None:
        self._db = aws.dynamodb
        self._table = table
        self._clock = clock
        self._ids = ids
        self._retry = retry or RetryRule()

    async def claim(self, scope: Scope, keys: Sequence[str], ttl: timedelta, /) -> list[bool]:
        """Remember keys, and say of each whether it is new; see the port."""
        hashes = key_hashes(scope, keys)
        different = list(dict.fromkeys(hashes))
        token, now = self._ids.new_id(), self._now()
        until = now + ttl // _MICROSECOND
        is_new: dict[bytes, bool] = {}
        for told in await together(
            [self._claim(scope, chunk, token, until, now) for chunk in _chunks(different, MAX_TRANSACTION_ITEMS)]
        ):
            is_new |= told
        # A key that is repeated in the call is new where it comes first.
        return [is_new.pop(hashed, False) for hashed in hashes]

    async def exist(self, scope: Scope, keys: Sequence[str], /) -> list[bool]:
        """Say of each key whether it is remembered, or has a value."""
        hashes = key_hashes(scope, keys)
        now = self._now()
        known: set[bytes] = set()
        for found in await together(
            [self._known(scope, chunk, now) for chunk in _chunks(list(dict.fromkeys(hashes)), MAX_READ_ITEMS)]
        ):
            known |= found
        return [hashed in known for hashed in hashes]

    async def get(self, scope: Scope, key: str, /) -> bytes | None:
        """Give a key's value."""
        answer = await self._db.call(
            lambda db: db.get_item(TableName=self._table, Key=row_key(scope, key_hash(scope, key)), ConsistentRead=True)
        )
        row, now = row_from(answer.get("Item")), self._now()
        if row.value_until > now:
            return row.value
        return b"" if row.until > now else None

    async def put(self, scope: Scope, key: str, value: bytes, ttl: timedelta, /) -> None:
        """Give a key a value: one write where no row answers, else one more."""
        row, stored, now = Row(0, 0, "", None, 0), row_key(scope, key_hash(scope, key)), self._now()
        until = now + ttl // _MICROSECOND
        attempt = 0
        while True:
            write: TransactWriteItemTypeDef = (
                {"Update": revalue_row(self._table, stored, row, value, until)}
                if row.ends > now
                else {"Put": value_row(self._table, stored, value, until, now)}
            )
            reasons = await write_one(self._db, write)
            if not reasons:
                return
            if reasons[0]["Code"] == "ConditionalCheckFailed":
                row = row_from(reasons[0]["Item"])
            attempt += 1
            if attempt > 1:
                await self._wait(attempt - 1)

    async def count(self, scope: Scope, /) -> int:
        """Give how many keys of a scope were claimed and are remembered: all of its rows are read."""
        counts = await together([self._count(scope, shard) for shard in SHARDS])
        return sum(counts)

    async def forget(self, scope: Scope, /) -> int:
        """Forget a scope's keys and values. Rows are deleted one by one, so a call that is repeated goes on from there.

        The number is of this call; keys that an earlier one deleted before it was cut off are not in it.
        """
        counts = await together([self._forget(scope, shard) for shard in SHARDS])
        return sum(counts)

    def _now(self) -> int:
        return (self._clock.now() - _EPOCH) // _MICROSECOND

    async def _claim(
        self, scope: Scope, hashes: Sequence[bytes], token: str, until: int, now: int
    ) -> dict[bytes, bool]:
        """Claim different keys.

        | the row that refused a claim | answer | then |
        |---|---|---|
        | is this call's own: an earlier attempt wrote it and its reply was lost | new | done |
        | answers, and is remembered long enough | seen | done |
        | answers, but ends too early, or only has a value | seen | extend it |
        | has ended, or is gone: somebody forgot it meanwhile | | claim again |
        """
        is_new: dict[bytes, bool] = {}
        # What is left to do: a row to extend, or a key to claim where there is none.
        left: dict[bytes, Row | None] = dict.fromkeys(hashes)
        attempt = 0
        while left:
            reasons = await self._write(
                [
                    {"Put": claim_row(self._table, row_key(scope, hashed), token, until, now)}
                    if row is None
                    else {"Update": extend_row(self._table, row_key(scope, hashed), row, until)}
                    for hashed, row in left.items()
                ]
            )
            before, left = left, {}
            for (hashed, row), reason in zip(before.items(), reasons, strict=True):
                if reason is None:
                    is_new.setdefault(hashed, True)
                elif reason["Code"] != "ConditionalCheckFailed":
                    left[hashed] = row
                elif (found := row_from(reason.get("Item"))).ends > now:
                    is_new.setdefault(hashed, found.claimed_by == token)
                    if found.until < until:
                        left[hashed] = found
                elif row is None:
                    left[hashed] = None
            if left == before:
                attempt += 1
                await self._wait(attempt)
        return is_new

    async def _write(self, writes: "Sequence[TransactWriteItemTypeDef]") -> Sequence[Reason | None]:
        """Write each of a few, or all or none of many; give why each was not written, None where it was."""
        if len(writes) > FEW:
            return await transact(self._db, writes) or [None] * len(writes)
        return [
            reasons[0] if reasons else None
            for reasons in await together([write_one(self._db, write) for write in writes])
        ]

    async def _known(self, scope: Scope, hashes: Sequence[bytes], now: int) -> set[bytes]:
        """Find which rows answer, up to a read's worth."""
        known: set[bytes] = set()
        wanted: dict[str, Any] = {
            self._table: {
                "Keys": [row_key(scope, hashed) for hashed in hashes],
                "ConsistentRead": True,
                "ProjectionExpression": "sk, #ends",
                "ExpressionAttributeNames": {"#ends": "ends"},
            }
        }
        attempt = 0
        while wanted:
            answer = await self._read(wanted)
            found = answer["Responses"].get(self._table, [])
            known.update(item["sk"]["B"] for item in found if row_from(item).ends > now)
            wanted = answer.get("UnprocessedKeys", {})
            if wanted and not found:
                attempt += 1
                await self._wait(attempt)
        return known

    async def _count(self, scope: Scope, shard: str) -> int:
        now = self._now()
        return sum([page["Count"] async for page in self._pages(scope, shard, now, Select="COUNT")])

    async def _forget(self, scope: Scope, shard: str) -> int:
        forgotten, now = 0, self._now()
        async for page in self._pages(scope, shard, ProjectionExpression="pk, sk, #until"):
            rows = page["Items"]
            forgotten += sum(row_from(row).until > now for row in rows)
            for chunk in _chunks(rows, MAX_DELETED_ITEMS):
                await self._delete([{"DeleteRequest": {"Key": {"pk": row["pk"], "sk": row["sk"]}}} for row in chunk])
        return forgotten

    async def _delete(self, requests: Sequence[Any]) -> None:
        attempt = 0
        left: dict[str, Any] = {self._table: requests}
        while left:
            left = await self._write_batch(left)
            if left:
                attempt += 1
                await self._wait(attempt)

    async def _read(self, wanted: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._db.call(lambda db: db.batch_get_item(RequestItems=wanted))

    async def _write_batch(self, requests: Mapping[str, Any]) -> dict[str, Any]:
        """Write what DynamoDB has time for, and give the rest."""
        answer: Mapping[str, Any] = await self._db.call(lambda db: db.batch_write_item(RequestItems=requests))
        return dict(answer.get("UnprocessedItems", {}))

    async def _pages(
        self, scope: Scope, shard: str, claimed_after: int | None = None, **more: Any
    ) -> AsyncIterator[Any]:
        """Read a shard, a megabyte a query."""
        request: dict[str, Any] = {
            "TableName": self._table,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeNames": {"#until": "until"},
            "ExpressionAttributeValues": {":pk": partition(scope, shard)},
            "ConsistentRead": True,
            **more,
        }
        if claimed_after is not None:
            request["FilterExpression"] = "#until > :now"
            request["ExpressionAttributeValues"][":now"] = {"N": str(claimed_after)}
        while True:
            page = await self._db.call(lambda db: db.query(**request))
            yield page
            request["ExclusiveStartKey"] = page.get("LastEvaluatedKey")
            if not request["ExclusiveStartKey"]:
                return

    async def _wait(self, attempt: int) -> None:
        """Wait before the next attempt.

        Raises:
            Unavailable: there is none.
        """
        seconds = self._retry.wait(attempt, random.random())  # noqa: S311 - spreads the writers, guards nothing
        if seconds is None:
            raise Unavailable("DynamoDB", "other writers were in the way of every attempt, or it was too busy")
        await asyncio.sleep(seconds)


def _chunks(things: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [things[start : start + size] for start in range(0, len(things), size)]
