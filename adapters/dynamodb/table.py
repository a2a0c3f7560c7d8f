"""The table of the event store, made and checked (docs/reference/table.md)."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from adapters.aws.errors import error_code, translate
from domain.errors import Misconfigured, Unavailable

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

BY_STATE: Final = "by_state"
BY_ENTITY: Final = "by_entity"
# Partition key and sort key of the table (under "") and of each index; all are strings.
KEYS: Final[Mapping[str, tuple[str, str]]] = {
    "": ("pk", "sk"),
    BY_STATE: ("state_shard", "listed"),
    BY_ENTITY: ("entity", "listed"),
}


def create_table(client: "DynamoDBClient", name: str, *, timeout: float = 120.0) -> None:
    """Make the table, or check the one that is there; wait until it is ready, and can be restored to any second.

    Blocks. Calling it again changes nothing.

    Args:
        client: of boto3.
        name: of the table.
        timeout: seconds to wait for the table and its indexes.

    Raises:
        Misconfigured: a table of this name has other keys or indexes; it says which.
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
                {"AttributeName": attribute, "AttributeType": "S"}
                for attribute in sorted({attribute for keys in KEYS.values() for attribute in keys})
            ],
            KeySchema=[
                {"AttributeName": KEYS[""][0], "KeyType": "HASH"},
                {"AttributeName": KEYS[""][1], "KeyType": "RANGE"},
            ],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": index,
                    "KeySchema": [
                        {"AttributeName": KEYS[index][0], "KeyType": "HASH"},
                        {"AttributeName": KEYS[index][1], "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "ALL"},
                }
                for index in (BY_STATE, BY_ENTITY)
            ],
        )
    except ClientError as error:
        if error_code(error) != "ResourceInUseException":
            raise


def wait_until_active(
    client: "DynamoDBClient", name: str, deadline: float, differences: Callable[[Mapping[str, Any]], Iterable[str]]
) -> None:
    """Wait until a table and its indexes are ready.

    Args:
        client: of boto3.
        name: of the table.
        deadline: on the monotonic clock.
        differences: says how the table that is there differs from ours.

    Raises:
        Misconfigured: it differs.
        Unavailable: it was not ready in time.
    """
    while True:
        table = client.describe_table(TableName=name)["Table"]
        if found := list(differences(table)):
            raise Misconfigured(f"table {name}", "; ".join(found))
        indexes = table.get("GlobalSecondaryIndexes", [])
        if {table.get("TableStatus"), *(index.get("IndexStatus") for index in indexes)} == {"ACTIVE"}:
            return
        _pause(name, deadline)


def keep_backups(client: "DynamoDBClient", name: str, deadline: float) -> None:
    """Turn point-in-time recovery on; a table is not ready for that at once."""
    while True:
        try:
            client.update_continuous_backups(
                TableName=name, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
            )
        except ClientError as error:
            if error_code(error) != "ContinuousBackupsUnavailableException":
                raise
            _pause(name, deadline)
        else:
            return


def _pause(name: str, deadline: float) -> None:
    if time.monotonic() > deadline:
        raise Unavailable("DynamoDB", f"table {name} did not become ready in time")
    time.sleep(0.5)


def _differences(table: Mapping[str, Any]) -> Iterator[str]:
    types = {entry["AttributeName"]: entry["AttributeType"] for entry in table["AttributeDefinitions"]}
    found = {"": table, **{index["IndexName"]: index for index in table.get("GlobalSecondaryIndexes", [])}}
    for index, keys in KEYS.items():
        where = f"index {index}" if index else "the table"
        if index not in found:
            yield f"{where} is missing"
            continue
        roles = {entry["KeyType"]: entry["AttributeName"] for entry in found[index]["KeySchema"]}
        if (roles.get("HASH"), roles.get("RANGE")) != keys or {types.get(key) for key in keys} != {"S"}:
            yield f"{where} must have the text keys {keys[0]} and {keys[1]}"
        if index and found[index].get("Projection", {}).get("ProjectionType") != "ALL":
            yield f"{where} must project all attributes"
