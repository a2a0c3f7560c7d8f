"""The table of the event store (docs/reference/table.md)."""

from typing import TYPE_CHECKING, Final

from adapters.dynamodb.tables import Keys, keep_backups, make_table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

BY_STATE: Final = "by_state"
BY_ENTITY: Final = "by_entity"
KEYS: Final[Keys] = {
    "": ("pk", "sk"),
    BY_STATE: ("state_shard", "listed"),
    BY_ENTITY: ("entity", "listed"),
}


def create_table(client: "DynamoDBClient", name: str, *, timeout: float = 120.0) -> None:
    """Make the table, or check the one that is there; it can be restored to any second. See `make_table`."""
    make_table(client, name, KEYS, keep_backups, timeout=timeout)
