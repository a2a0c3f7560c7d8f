"""Where the engines of the tests differ from DynamoDB (docs/reference/engines.md).

A strict xfail is a difference that is known: the test fails when the engine closes it, and then the list is shortened.
"""

import copy
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.dynamodb import models
from moto.dynamodb.models.table import Table

from adapters.dynamodb.table import create_table
from tests.engines import REGION, Engine, event_table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import TransactWriteItemTypeDef

MOTO = pytest.param("moto", marks=pytest.mark.xfail(strict=True, raises=(AssertionError, ClientError)))
TABLE = "differences"


@pytest.fixture
def table(request: pytest.FixtureRequest) -> Iterator[tuple["DynamoDBClient", str]]:
    engine: Engine = request.getfixturevalue(request.param)
    with event_table(engine) as table:
        yield engine.aws.dynamodb.client(), table


def put_new(table: str, key: str) -> "TransactWriteItemTypeDef":
    return {
        "Put": {
            "TableName": table,
            "Item": {"pk": {"S": key}, "sk": {"S": "a"}},
            "ConditionExpression": "attribute_not_exists(pk)",
        }
    }


@pytest.mark.parametrize("table", ["ministack", MOTO], indirect=True)
def test_a_token_makes_a_transaction_idempotent(table: tuple["DynamoDBClient", str]) -> None:
    """Boto3 sends the same token when it sends a transaction again, so that a lost answer is not a conflict."""
    client, name = table
    for _ in range(2):
        client.transact_write_items(TransactItems=[put_new(name, "e1")], ClientRequestToken="again")


@pytest.mark.parametrize("table", ["ministack", MOTO], indirect=True)
def test_fc25_a_page_that_is_exactly_full_carries_a_key(table: tuple["DynamoDBClient", str]) -> None:
    client, name = table
    for sort in "abc":
        client.put_item(TableName=name, Item={"pk": {"S": "e1"}, "sk": {"S": sort}})
    page = client.query(
        TableName=name,
        KeyConditionExpression="pk = :key",
        ExpressionAttributeValues={":key": {"S": "e1"}},
        Limit=3,
    )
    assert page["Count"] == 3
    assert page.get("LastEvaluatedKey")


@pytest.mark.xfail(strict=True, raises=AssertionError, reason="moto restores the whole table after a refusal")
def test_r104_a_refused_transaction_takes_nothing_of_another_writer_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another write lands while moto, in this process, is about to refuse a transaction."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    for name in [name for name in os.environ if name.startswith("AWS_ENDPOINT_URL")]:
        monkeypatch.delenv(name)
    with mock_aws(), closing(boto3.client("dynamodb", region_name=REGION)) as client:
        create_table(client, TABLE)
        client.transact_write_items(TransactItems=[put_new(TABLE, "taken")])
        meanwhile = _Meanwhile(lambda: client.put_item(TableName=TABLE, Item={"pk": {"S": "other"}, "sk": {"S": "a"}}))
        monkeypatch.setattr(models, "copy", meanwhile)
        with pytest.raises(ClientError):
            client.transact_write_items(TransactItems=[put_new(TABLE, "taken")])
        meanwhile.happen()
        assert "Item" in client.get_item(TableName=TABLE, Key={"pk": {"S": "other"}, "sk": {"S": "a"}})


class _Meanwhile:
    """Stands for the module `copy`: after moto's first copy of a table, something else happens, once."""

    def __init__(self, something: Callable[[], object]) -> None:
        self._something: Callable[[], object] | None = something

    def deepcopy(self, value: object) -> object:
        twin = copy.deepcopy(value)
        if isinstance(value, Table):
            self.happen()
        return twin

    def happen(self) -> None:
        something, self._something = self._something, None
        if something is not None:
            something()
