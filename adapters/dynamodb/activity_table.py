"""The table of the activity store, made and checked (docs/reference/activity.md)."""

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from adapters.aws.errors import error_code, translate
from adapters.dynamodb.table import keep_backups, wait_until_active

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def create_activity_table(client: "DynamoDBClient", name: str, *, timeout: float = 120.0) -> None:
    """Make the table, or check the one that is there; wait until it is ready, and can be restored to any second.

    Blocks. Calling it again changes nothing.

    Args:
        client: of boto3.
        name: of the table.
        timeout: seconds to wait for the table.

    Raises:
        Misconfigured: a table of this name has other keys.
        Unavailable: the table was not ready in time, or DynamoDB did not answer.
    """
    try:
        _create(client, name)
        wait_until_active(client, name, time.monotonic() + timeout, _differences)
        keep_backups(client, name, time.monotonic() + timeout)
    except (BotoCoreError, ClientError) as error:
        raise translate("DynamoDB", error) from error


def _create(client: "DynamoDBClient", name: str) -> None:
    try:
        client.create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[
                {"AttributeName": "pk", "AttributeType": "S"},
                {"AttributeName": "sk", "AttributeType": "S"},
            ],
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        )
    except ClientError as error:
        if error_code(error) != "ResourceInUseException":
            raise


def _differences(table: Mapping[str, Any]) -> Iterator[str]:
    types = {entry["AttributeName"]: entry["AttributeType"] for entry in table["AttributeDefinitions"]}
    keys = {entry["KeyType"]: (entry["AttributeName"], types[entry["AttributeName"]]) for entry in table["KeySchema"]}
    if keys != {"HASH": ("pk", "S"), "RANGE": ("sk", "S")}:
        yield "it must have the text keys pk and sk"
