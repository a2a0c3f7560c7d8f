"""The workflow catalog on DynamoDB (ports/workflow_catalog.py; the table in adapters/dynamodb/settings_table.py).

One item a worker under the partition key `catalog#`, so that the whole catalog is one query. Times are texts, whose
order is the order of times. An offer that has ended is deleted by DynamoDB a day later.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from adapters.aws.clients import Aws
from domain.routing import Offer
from domain.times import format_time, parse_time

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

PARTITION: Final = "catalog#"
_KEPT: Final = timedelta(days=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class DynamoDBCatalog:
    """Offers in the table of settings."""

    def __init__(self, aws: Aws, table: str) -> None:
        """Keep offers in this table, see `create_settings_table`."""
        self._db = aws.dynamodb
        self._table = table

    async def publish(self, offer: Offer, /) -> None:
        """Put a worker's offer in the place of its earlier one."""
        item: dict[str, Any] = {
            **_key(offer.worker),
            "workflows": _texts(offer.workflows),
            "task_queues": _texts(offer.task_queues),
            "until": {"S": format_time(offer.until)},
            "ttl": {"N": str((offer.until + _KEPT - _EPOCH) // timedelta(seconds=1))},
        }
        await self._db.call(lambda db: db.put_item(TableName=self._table, Item=item))

    async def offers(self) -> list[Offer]:
        """Give the offers."""

        def query(db: "DynamoDBClient") -> list[Offer]:
            pages = db.get_paginator("query").paginate(
                TableName=self._table,
                KeyConditionExpression="pk = :pk",
                ExpressionAttributeValues={":pk": {"S": PARTITION}},
                ConsistentRead=True,
            )
            return [_offer(item) for page in pages for item in page["Items"]]

        return await self._db.call(query)


def _key(worker: str) -> dict[str, Any]:
    return {"pk": {"S": PARTITION}, "sk": {"S": worker}}


def _texts(values: tuple[str, ...]) -> dict[str, Any]:
    return {"L": [{"S": value} for value in values]}


def _offer(item: Mapping[str, Any]) -> Offer:
    return Offer(
        item["sk"]["S"],
        tuple(value["S"] for value in item["workflows"]["L"]),
        tuple(value["S"] for value in item["task_queues"]["L"]),
        parse_time(item["until"]["S"], "until"),
    )
