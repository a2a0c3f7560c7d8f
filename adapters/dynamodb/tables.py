"""Making and checking tables, whichever (docs/reference/table.md)."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from adapters.aws.errors import error_code, translate
from domain.errors import Misconfigured, Unavailable

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Keys = Mapping[str, tuple[str, str]]
"""Partition key and sort key of a table, under "", and of each of its indexes."""

TTL: Final = "ttl"
"""The attribute with the time at which an item may be deleted, in seconds since 1970."""


def make_table(
    client: "DynamoDBClient",
    name: str,
    keys: Keys,
    finish: Callable[["DynamoDBClient", str, float], None],
    *,
    binary: Collection[str] = (),
    timeout: float = 120.0,
) -> None:
    """Make a table, or check the one that is there; wait until it is ready.

    Blocks. Calling it again changes nothing.

    Args:
        client: of boto3.
        name: of the table.
        keys: its own and its indexes'.
        finish: what is to be set on a table that is ready: `expire` or `keep_backups`.
        binary: the keys that are bytes; the others are texts.
        timeout: seconds to wait for the table and its indexes.

    Raises:
        Misconfigured: a table of this name has other keys or indexes, or expires by another attribute; it says which.
        Unavailable: the table was not ready in time, or DynamoDB did not answer.
    """
    deadline = time.monotonic() + timeout
    types = {key: "B" if key in binary else "S" for pair in keys.values() for key in pair}
    try:
        _create(client, name, keys, types)
        _wait_until_active(client, name, deadline, keys, types)
        finish(client, name, deadline)
    except (BotoCoreError, ClientError) as error:
        raise translate("DynamoDB", error) from error


def expire(client: "DynamoDBClient", name: str, _deadline: float) -> None:
    """Let DynamoDB delete items whose `ttl` has passed.

    Raises:
        Misconfigured: they expire by another attribute.
    """
    found = client.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    if found.get("TimeToLiveStatus") in {"ENABLED", "ENABLING"}:
        if found.get("AttributeName") != TTL:
            raise Misconfigured(f"table {name}", f"its items must expire by the attribute {TTL}")
        return
    client.update_time_to_live(TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": TTL})


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


def _create(client: "DynamoDBClient", name: str, keys: Keys, types: Mapping[str, str]) -> None:
    indexes: list[Any] = [
        {"IndexName": index, "KeySchema": _schema(pair), "Projection": {"ProjectionType": "ALL"}}
        for index, pair in keys.items()
        if index
    ]
    rest: dict[str, Any] = {"GlobalSecondaryIndexes": indexes} if indexes else {}
    try:
        client.create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[
                {"AttributeName": key, "AttributeType": "B" if types[key] == "B" else "S"} for key in sorted(types)
            ],
            KeySchema=_schema(keys[""]),
            **rest,
        )
    except ClientError as error:
        if error_code(error) != "ResourceInUseException":
            raise


def _schema(pair: tuple[str, str]) -> Any:
    return [{"AttributeName": pair[0], "KeyType": "HASH"}, {"AttributeName": pair[1], "KeyType": "RANGE"}]


def _wait_until_active(
    client: "DynamoDBClient", name: str, deadline: float, keys: Keys, types: Mapping[str, str]
) -> None:
    while True:
        table = client.describe_table(TableName=name)["Table"]
        if found := list(_differences(table, keys, types)):
            raise Misconfigured(f"table {name}", "; ".join(found))
        indexes = table.get("GlobalSecondaryIndexes", [])
        if {table.get("TableStatus"), *(index.get("IndexStatus") for index in indexes)} == {"ACTIVE"}:
            return
        _pause(name, deadline)


def _pause(name: str, deadline: float) -> None:
    if time.monotonic() > deadline:
        raise Unavailable("DynamoDB", f"table {name} did not become ready in time")
    time.sleep(0.5)


def _differences(table: Mapping[str, Any], keys: Keys, types: Mapping[str, str]) -> Iterator[str]:
    typed = {entry["AttributeName"]: entry["AttributeType"] for entry in table["AttributeDefinitions"]}
    found = {"": table, **{index["IndexName"]: index for index in table.get("GlobalSecondaryIndexes", [])}}
    for index, pair in keys.items():
        where = f"index {index}" if index else "the table"
        if index not in found:
            yield f"{where} is missing"
            continue
        roles = {entry["KeyType"]: entry["AttributeName"] for entry in found[index]["KeySchema"]}
        if (roles.get("HASH"), roles.get("RANGE")) != pair or any(typed.get(key) != types[key] for key in pair):
            kinds = [f"{'binary' if types[key] == 'B' else 'text'} key {key}" for key in pair]
            yield f"{where} must have the {kinds[0]} and the {kinds[1]}"
        if index and found[index].get("Projection", {}).get("ProjectionType") != "ALL":
            yield f"{where} must project all attributes"
