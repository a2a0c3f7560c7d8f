"""The table of the activity store (docs/reference/activity.md)."""

from typing import TYPE_CHECKING

from adapters.dynamodb.tables import keep_backups, make_table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def create_activity_table(client: "DynamoDBClient", name: str) -> None:
    """Make the table, or check the one that is there; it can be restored to any second. See `make_table`."""
    make_table(client, name, {"": ("pk", "sk")}, keep_backups)
