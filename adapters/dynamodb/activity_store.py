"""The activity store on DynamoDB (ports/activity_store.py; items in adapters/dynamodb/activity_rows.py; ADR 0015)."""

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from adapters.aws.clients import Aws, together
from adapters.dynamodb.activity_rows import (
    ONE,
    WRITER,
    month_item,
    month_of,
    months_query,
    owner_item,
    place_from,
    row_from,
    row_item,
    rows_query,
)
from adapters.dynamodb.items import checked, may_be_key
from adapters.dynamodb.requests import put_new
from adapters.dynamodb.writes import write_one
from domain.activity import Activity, ActivityQuery, Found, Stretch, place_key, place_of
from domain.errors import Unavailable
from ports.id_source import IdSource

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import QueryOutputTypeDef

    from adapters.dynamodb.items import Item

_REMEMBERED_MONTHS: Final = 10_000


class DynamoDBActivityStore:
    """Rows of all accounts in one table, a partition for each account and month.

    Args:
        aws: the clients.
        table: name of the table, see `create_activity_table`.
        ids: names the calls, so that a write that boto3 sends again knows its own row.
    """

    def __init__(self, aws: Aws, table: str, ids: IdSource) -> None:
        self._db = aws.dynamodb
        self._table = table
        self._ids = ids
        self._months: dict[tuple[str, str], None] = {}

    async def record(self, activities: Sequence[Activity], /) -> list[bool]:
        """Keep rows whose ids are free, in three small writes each; see the port."""
        call = self._ids.new_id()
        first = {activity.activity_id: activity for activity in reversed(activities)}
        for activity in first.values():
            checked(row_item(activity, call))
        new = dict(zip(first, await together([self._record(row, call) for row in first.values()]), strict=True))
        # A copy in the same call is no second event.
        return [new.pop(activity.activity_id, False) for activity in activities]

    async def find(self, stretch: Stretch, /) -> Found:
        """Look at so many rows, month by month; see the port."""
        query, left = stretch.query, stretch.rows
        after = None if stretch.after is None else place_key(stretch.after)
        found: list[Activity] = []
        async for month in self._months_of(query, after):
            request = rows_query(self._table, query, month, after)
            if request is None:
                continue
            answer = await self._query({**request, "Limit": max(left, 1)})
            left -= answer["ScannedCount"]
            found += map(row_from, answer["Items"])
            if len(found) >= stretch.wanted:
                return Found(found[: stretch.wanted], place_of(found[stretch.wanted - 1]))
            if last := answer.get("LastEvaluatedKey"):
                return Found(found, place_from(_text(last, "sk")))
        return Found(found, None)

    async def cursor_key(self) -> bytes:
        """Give the key that the table holds, made where it holds none."""
        key: Item = {"pk": {"S": "k#cursor"}, "sk": {"S": ONE}}
        answer = await self._db.call(lambda db: db.get_item(TableName=self._table, Key=key, ConsistentRead=True))
        made: Item = {**key, "value": {"B": secrets.token_bytes(32)}}
        item: Any = answer.get("Item") or await self._put(made) or made
        return bytes(item["value"]["B"])

    async def _record(self, activity: Activity, call: str) -> bool:
        """Keep one row.

        First its place is fixed under its id, then its month is named, then the row is written: whoever stops in
        between leaves nothing that a reader meets, and a copy goes on from there.

        | place under the id | row there | then | answer |
        |---|---|---|---|
        | none, or where this copy belongs | none | written | new |
        | elsewhere: the first copy said another time or account | none | written there | new |
        | any | of this call: an earlier attempt wrote it and its reply was lost | | new |
        | any | of another call | | known |
        """
        taken = await self._put(owner_item(activity))
        if taken is not None:
            place = place_from(_text(taken, "place"))
            activity = activity._replace(account=_text(taken, "account"), occurred_at=place.occurred_at)
        await self._name_month(activity.account, month_of(place_key(place_of(activity))))
        there = await self._put(row_item(activity, call))
        return there is None or _text(there, WRITER) == call

    async def _name_month(self, account: str, month: str) -> None:
        if (account, month) in self._months:
            return
        await self._put(month_item(account, month))
        if len(self._months) >= _REMEMBERED_MONTHS:
            self._months.pop(next(iter(self._months)))
        self._months[account, month] = None

    async def _months_of(self, query: ActivityQuery, after: str | None) -> AsyncIterator[str]:
        """Give the months to look through, from the one where the reader is."""
        if not may_be_key(query.account):
            return
        beyond = None
        if after is not None:
            beyond = month_of(after)
            yield beyond
        request = months_query(self._table, query, beyond)
        while request is not None:
            answer = await self._query(request)
            for item in answer["Items"]:
                yield _text(item, "sk")
            last = answer.get("LastEvaluatedKey")
            request = {**request, "ExclusiveStartKey": last} if last else None

    async def _query(self, request: Mapping[str, Any]) -> "QueryOutputTypeDef":
        return await self._db.call(lambda db: db.query(**request))

    async def _put(self, item: "Item") -> "Item | None":
        """Write an item whose key is free, or give the one that is there."""
        reasons = await write_one(self._db, {"Put": put_new(self._table, item)})
        if not reasons:
            return None
        if reasons[0]["Code"] != "ConditionalCheckFailed":
            raise Unavailable("DynamoDB", "another writer was in the way")
        there: Item = reasons[0]["Item"]
        return there


def _text(item: "Mapping[str, Any]", name: str) -> str:
    return str(item[name]["S"])
