"""The table of the key store (docs/reference/dedup-stores.md)."""

from typing import TYPE_CHECKING

from adapters.dynamodb.tables import expire, make_table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def create_key_table(client: "DynamoDBClient", name: str) -> None:
    """Make the table, or check the one that is there; DynamoDB deletes what expired. See `make_table`."""
    make_table(client, name, {"": ("pk", "sk")}, expire, binary={"sk"})
