"""The table of the key store, made and checked (docs/reference/dedup-stores.md)."""

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from adapters.aws.errors import error_code, translate
from adapters.dynamodb.table import wait_until_active
from domain.errors import Misconfigured

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TTL: Final = "ttl"


def create_key_table(client: "DynamoDBClient", name: str, *, timeout: float = 120.0) -> None:
    """Make the table, or check the one that is there; wait until it is ready, and let DynamoDB delete what expired.

    Blocks. Calling it again changes nothing.

    Args:
        client: of boto3.
        name: of the table.
        timeout: seconds to wait for the table.

    Raises:
        Misconfigured: a table of this name has other keys, or expires by another attribute.
        Unavailable: the table was not ready in time, or DynamoDB did not answer.
    """
    try:
        _create(client, name)
        wait_until_active(client, name, time.monotonic() + timeout, _differences)
        expire(client, name)
    except (BotoCoreError, ClientError) as error:
        raise translate("DynamoDB", error) from error


def _create(client: "DynamoDBClient", name: str) -> None:
    try:
        client.create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[
                {"AttributeName": "pk", "AttributeType": "S"},
                {"AttributeName": "sk", "AttributeType": "B"},
            ],
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        )
    except ClientError as error:
        if error_code(error) != "ResourceInUseException":
            raise


def _differences(table: Mapping[str, Any]) -> Iterator[str]:
    types = {entry["AttributeName"]: entry["AttributeType"] for entry in table["AttributeDefinitions"]}
    keys = {entry["KeyType"]: (entry["AttributeName"], types[entry["AttributeName"]]) for entry in table["KeySchema"]}
    if keys != {"HASH": ("pk", "S"), "RANGE": ("sk", "B")}:
        yield "it must have the text key pk and the binary sort key sk"


def expire(client: "DynamoDBClient", name: str) -> None:
    """Let DynamoDB delete the items of a table whose `ttl` has passed.

    Raises:
        Misconfigured: they expire by another attribute already.
    """
    found = client.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    if found.get("TimeToLiveStatus") in {"ENABLED", "ENABLING"}:
        if found.get("AttributeName") != TTL:
            raise Misconfigured(f"table {name}", f"its items must expire by the attribute {TTL}")
        return
    client.update_time_to_live(TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": TTL})
