"""The start ledger on DynamoDB (ports/start_ledger.py; the table in adapters/dynamodb/settings_table.py).

One item a workflow id, under a partition key of its own: `ledger#` and the id. Until when completed workflows were
collected is the item of the partition key `ledger-swept#`.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from botocore.exceptions import ClientError

from adapters.aws.clients import Aws
from domain.errors import Unavailable
from domain.retry import RetryRule
from domain.routing import LEDGER_KEEPS, Handled
from domain.times import format_time, parse_time

MAX_WRITTEN_ITEMS: Final = 25
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SORT: Final[Mapping[str, Any]] = {"S": "-"}
_SWEPT: Final[Mapping[str, Any]] = {"pk": {"S": "ledger-swept#"}, "sk": _SORT}


class DynamoDBLedger:
    """Completed workflows in the table of settings.

    Args:
        aws: the clients.
        table: name of the table, see `create_settings_table`.
        retry: how often and how fast to send again what DynamoDB had no time for.
    """

    def __init__(self, aws: Aws, table: str, *, retry: RetryRule | None = None) -> None:
        self._db = aws.dynamodb
        self._table = table
        self._retry = retry or RetryRule(attempts=8)

    async def find(self, workflow_id: str, /) -> Handled | None:
        """Say whether a workflow of this id has completed."""
        item = await self._item(_key(workflow_id))
        if item is None:
            return None
        return Handled(workflow_id, item["run_id"]["S"], parse_time(item["completed_at"]["S"], "completed_at"))

    async def record(self, handled: Sequence[Handled], /) -> None:
        """Write down completed workflows, 25 a call."""
        items = list({one.workflow_id: _item(one) for one in handled}.values())
        for start in range(0, len(items), MAX_WRITTEN_ITEMS):
            await self._write([{"PutRequest": {"Item": item}} for item in items[start : start + MAX_WRITTEN_ITEMS]])

    async def swept_until(self) -> datetime | None:
        """Say until when completed workflows were collected."""
        item = await self._item(_SWEPT)
        return None if item is None else parse_time(item["until"]["S"], "until")

    async def note_swept(self, until: datetime, /) -> None:
        """Note until when completed workflows were collected.

        | stored | `attribute_not_exists(#until) OR #until < :until` | write |
        |---|---|---|
        | nothing | true | happens |
        | an earlier time | true | happens |
        | this time, or a later one | false | refused, and that is fine |
        """
        text = {"S": format_time(until)}
        try:
            await self._db.call(
                lambda db: db.put_item(
                    TableName=self._table,
                    Item={**_SWEPT, "until": text},
                    ConditionExpression="attribute_not_exists(#until) OR #until < :until",
                    ExpressionAttributeNames={"#until": "until"},
                    ExpressionAttributeValues={":until": text},
                ),
                expect={"ConditionalCheckFailedException"},
            )
        except ClientError:
            return

    async def _item(self, key: Mapping[str, Any]) -> Mapping[str, Any] | None:
        answer = await self._db.call(lambda db: db.get_item(TableName=self._table, Key=key, ConsistentRead=True))
        return answer.get("Item")

    async def _write(self, requests: Sequence[Any]) -> None:
        left: Mapping[str, Any] = {self._table: requests}
        attempt = 0
        while left:
            left = await self._send(left)
            if left:
                attempt += 1
                seconds = self._retry.wait(attempt, random.random())  # noqa: S311 - spreads the writers, guards nothing
                if seconds is None:
                    raise Unavailable("DynamoDB", "it was too busy to write the start ledger")
                await asyncio.sleep(seconds)

    async def _send(self, requests: Mapping[str, Any]) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = await self._db.call(lambda db: db.batch_write_item(RequestItems=requests))
        left: Mapping[str, Any] = answer.get("UnprocessedItems", {})
        return left


def _key(workflow_id: str) -> dict[str, Any]:
    return {"pk": {"S": f"ledger#{workflow_id}"}, "sk": _SORT}


def _item(handled: Handled) -> dict[str, Any]:
    return {
        **_key(handled.workflow_id),
        "run_id": {"S": handled.run_id},
        "completed_at": {"S": format_time(handled.completed_at)},
        "ttl": {"N": str((handled.completed_at + LEDGER_KEEPS - _EPOCH) // timedelta(seconds=1))},
    }
