"""The table of settings: skip list, workflow catalog and start ledger (CONTRACTS § 8).

Keys are texts. A partition key begins with the kind of its items and a `#`, such as `skip#3`, so that kinds never meet.
What may be forgotten has the time in `ttl`, in seconds since 1970.
"""

from typing import TYPE_CHECKING

from adapters.dynamodb.tables import expire, make_table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def create_settings_table(client: "DynamoDBClient", name: str) -> None:
    """Make the table, or check the one that is there; DynamoDB deletes what expired. See `make_table`."""
    make_table(client, name, {"": ("pk", "sk")}, expire)
