"""What the catch-all recorded, on DynamoDB (ports/caught_events.py; the table in adapters/dynamodb/settings_table.py).

One item an event under `caught#` and its type, sorted by workflow id; and one item a type under `caught-types#`, which
is written first, so that no event is ever out of reach.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from adapters.aws.clients import Aws
from domain.envelope import envelope_from
from domain.errors import TooLarge
from domain.json_reader import read_json
from domain.routing import Caught
from domain.times import format_time, parse_time

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TYPES: Final = "caught-types#"
MAX_ENVELOPE_BYTES: Final = 390 * 1024
"""An item has 400 KB, its other attributes included."""

_REFUSED: Final = frozenset({"ConditionalCheckFailedException"})


class DynamoDBCaughtEvents:
    """Caught events in the table of settings."""

    def __init__(self, aws: Aws, table: str) -> None:
        """Keep events in this table, see `create_settings_table`."""
        self._db = aws.dynamodb
        self._table = table

    async def record(self, caught: Caught, /) -> None:
        """Keep an event.

        | stored under these keys | `attribute_not_exists(pk)` | write |
        |---|---|---|
        | nothing | true | happens |
        | the event | false | refused, and that is fine: it stays as it is |

        Raises:
            TooLarge: no item holds the event.
        """
        text = caught.envelope.to_json()
        size = len(text.encode())
        if size > MAX_ENVELOPE_BYTES:
            raise TooLarge("", f"is {size} bytes; an item holds {MAX_ENVELOPE_BYTES}", size, MAX_ENVELOPE_BYTES)
        event_type = caught.envelope.type
        item: dict[str, Any] = {
            **_key(event_type, caught.workflow_id),
            "envelope": {"S": text},
            "caught_at": {"S": format_time(caught.caught_at)},
            "why": {"S": caught.why},
        }
        await self._db.call(
            lambda db: db.put_item(TableName=self._table, Item={"pk": {"S": TYPES}, "sk": {"S": event_type}})
        )
        try:
            await self._db.call(
                lambda db: db.put_item(
                    TableName=self._table, Item=item, ConditionExpression="attribute_not_exists(pk)"
                ),
                expect=_REFUSED,
            )
        except ClientError:
            return

    async def types(self) -> list[str]:
        """Give the types of which an event was ever caught."""

        def query(db: "DynamoDBClient") -> list[str]:
            pages = db.get_paginator("query").paginate(
                TableName=self._table,
                KeyConditionExpression="pk = :pk",
                ExpressionAttributeValues={":pk": {"S": TYPES}},
                ConsistentRead=True,
            )
            return [_sort_key(item) for page in pages for item in page["Items"]]

        return await self._db.call(query)

    async def of_type(self, event_type: str, after: str, limit: int, /) -> list[Caught]:
        """Give events of a type past an id. A query stops at a megabyte, so that several may be needed."""

        def query(db: "DynamoDBClient") -> list[Caught]:
            found: list[Caught] = []
            request: dict[str, Any] = {
                "TableName": self._table,
                "KeyConditionExpression": "pk = :pk AND sk > :after" if after else "pk = :pk",
                "ExpressionAttributeValues": {":pk": _key(event_type, after)["pk"]}
                | ({":after": {"S": after}} if after else {}),
                "ConsistentRead": True,
            }
            while len(found) < limit:
                page = db.query(**request, Limit=limit - len(found))
                found += [_caught(item) for item in page["Items"]]
                last = page.get("LastEvaluatedKey")
                if not last:
                    break
                request["ExclusiveStartKey"] = last
            return found

        return await self._db.call(query)

    async def mark_replayed(self, caught: Caught, at: datetime, /) -> None:
        """Note that a workflow of its own was started for an event.

        | stored | `attribute_exists(pk) AND attribute_not_exists(replayed_at)` | write |
        |---|---|---|
        | nothing | false | refused: nothing to mark |
        | the event | true | happens |
        | the event, marked | false | refused: the first time stays |
        """
        key, text = _key(caught.envelope.type, caught.workflow_id), {"S": format_time(at)}
        try:
            await self._db.call(
                lambda db: db.update_item(
                    TableName=self._table,
                    Key=key,
                    UpdateExpression="SET replayed_at = :at",
                    ConditionExpression="attribute_exists(pk) AND attribute_not_exists(replayed_at)",
                    ExpressionAttributeValues={":at": text},
                ),
                expect=_REFUSED,
            )
        except ClientError:
            return


def _key(event_type: str, workflow_id: str) -> dict[str, Any]:
    return {"pk": {"S": f"caught#{event_type}"}, "sk": {"S": workflow_id}}


def _sort_key(item: Mapping[str, Any]) -> str:
    key: str = item["sk"]["S"]
    return key


def _caught(item: Mapping[str, Any]) -> Caught:
    replayed_at = item.get("replayed_at")
    return Caught(
        item["sk"]["S"],
        parse_time(item["caught_at"]["S"], "caught_at"),
        envelope_from(read_json(item["envelope"]["S"].encode()), max_bytes=None),
        item["why"]["S"],
        None if replayed_at is None else parse_time(replayed_at["S"], "replayed_at"),
    )
