"""What the event store makes of DynamoDB's errors and of its weaker promises."""

import json
import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from adapters.aws.clients import Aws
from adapters.dynamodb.event_store import DynamoDBEventStore
from adapters.dynamodb.items import fact_item
from adapters.dynamodb.table import create_table
from domain.errors import CorruptHistory, InterlockError, Misconfigured, Unavailable, VersionConflict
from domain.event import Missed
from domain.retry import RetryRule
from tests.aws_faults import answering, counted, hooked, refusal
from tests.engines import REGION, Engine, event_table
from tests.examples import START, a_record, facts_of, head_after

pytestmark = pytest.mark.anyio
AT_ONCE = RetryRule(attempts=3, base=0)


@pytest.fixture
def table(ministack: Engine) -> Iterator[str]:
    with event_table(ministack) as table:
        yield table


@pytest.fixture
def store(ministack: Engine, table: str) -> DynamoDBEventStore:
    return DynamoDBEventStore(ministack.aws, table, retry=AT_ONCE)


@pytest.fixture
def client(ministack: Engine) -> Any:
    return ministack.aws.dynamodb.client()


def cancelled(*codes: str) -> dict[str, Any]:
    reasons = [{"Code": code, "Message": "secret"} for code in codes]
    return refusal("TransactionCanceledException", CancellationReasons=reasons)


async def test_a_query_that_met_half_a_transaction_is_made_again(store: DynamoDBEventStore, client: Any) -> None:
    """A query is not isolated from transactions: here it sees the second fact beside the first head."""
    record = a_record("e1")
    await store.record([record])
    first, second = facts_of("e1", 2)
    await store.append(head_after(record, first), [first])
    [*_, old_head] = client.query(
        TableName=store._table,
        KeyConditionExpression="pk = :id",
        ExpressionAttributeValues={":id": {"S": "e1"}},
    )["Items"]
    await store.append(head_after(record, second), [second])
    stale = iter([old_head])

    def tear(parsed: dict[str, Any], **_: object) -> None:
        for head in stale:
            parsed["Items"][-1] = head

    with hooked(client, "after-call.dynamodb.Query", tear), counted(client) as calls:
        found = await store.stream("e1")
    assert found.head == head_after(record, second)
    assert list(found.history) == [first, second]
    assert calls == ["Query", "Query"]


async def test_a_fact_without_its_head_is_called_corrupt(store: DynamoDBEventStore, client: Any) -> None:
    [fact] = facts_of("e1", 1)
    client.put_item(TableName=store._table, Item=fact_item(fact))
    with counted(client) as calls, pytest.raises(CorruptHistory, match="'e1'"):
        await store.stream("e1")
    assert calls == ["Query"] * AT_ONCE.attempts


@pytest.mark.parametrize("name", ["arrived_at", "envelope"])
async def test_an_item_of_another_shape_is_called_corrupt(store: DynamoDBEventStore, client: Any, name: str) -> None:
    await store.record([a_record("e1")])
    client.update_item(
        TableName=store._table,
        Key={"pk": {"S": "e1"}, "sk": {"S": "#event"}},
        UpdateExpression=f"REMOVE {name}",
    )
    with pytest.raises(CorruptHistory):
        await store.event("e1")


async def test_recording_waits_for_a_transaction_that_is_in_the_way(store: DynamoDBEventStore, client: Any) -> None:
    one, two = a_record("e1"), a_record("e2")
    with answering(client, "PutItem", [refusal("TransactionConflictException")]):
        assert await store.record([one]) == [one]
    late = one._replace(arrived_at=START + timedelta(days=1))
    with answering(client, "TransactWriteItems", [cancelled("None", "TransactionConflict")]) as seen:
        assert await store.record([late, two]) == [one, two]
    assert len({json.loads(request["body"])["ClientRequestToken"] for request in seen}) == 2
    always = [cancelled("TransactionConflict", "None")] * AT_ONCE.attempts
    with answering(client, "TransactWriteItems", always), pytest.raises(Unavailable):
        await store.record([a_record("e3"), a_record("e4")])


async def test_a_missed_move_is_noted_or_the_caller_is_told(store: DynamoDBEventStore, client: Any) -> None:
    missed = Missed("e1", "c1", "closed", START, "refused")
    with answering(client, "PutItem", [refusal("TransactionConflictException")]), pytest.raises(Unavailable):
        await store.note_missed(missed)
    await store.note_missed(missed)
    assert (await store.stream("e1")).missed == (missed,)


async def test_a_crossing_transaction_is_a_version_conflict(store: DynamoDBEventStore, client: Any) -> None:
    record = a_record("e1")
    await store.record([record])
    [fact] = facts_of("e1", 1)
    with (
        answering(client, "TransactWriteItems", [cancelled("None", "TransactionConflict", "None")]),
        pytest.raises(VersionConflict),
    ):
        await store.append(head_after(record, fact), [fact])
    await store.append(head_after(record, fact), [fact])


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal("ProvisionedThroughputExceededException"), Unavailable),
        (refusal("ThrottlingException"), Unavailable),
        (refusal("InternalServerError"), Unavailable),
        (refusal("TransactionInProgressException"), Unavailable),
        (cancelled("None", "ThrottlingError", "None"), Unavailable),
        (cancelled("None", "ProvisionedThroughputExceeded", "None"), Unavailable),
        (cancelled("None", "ValidationError", "None"), Misconfigured),
        (cancelled("None", "None", "None"), Unavailable),
        (refusal("AccessDeniedException"), Misconfigured),
        (refusal("ValidationException"), Misconfigured),
        (refusal("ResourceNotFoundException"), Misconfigured),
    ],
    ids=str,
)
async def test_errors_are_told_apart_and_hold_no_text_of_theirs(
    store: DynamoDBEventStore, client: Any, answer: dict[str, Any], error: type[InterlockError]
) -> None:
    [fact] = facts_of("e1", 1)
    with answering(client, "TransactWriteItems", [answer]), pytest.raises(error) as caught:
        await store.append(head_after(a_record("e1"), fact), [fact])
    assert type(caught.value) is error
    assert "DynamoDB" in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_a_missing_table_is_a_matter_of_configuration(ministack: Engine) -> None:
    with pytest.raises(Misconfigured, match="tables create"):
        await DynamoDBEventStore(ministack.aws, "interlock-nowhere").head("e1")


async def test_nobody_there_is_unavailable() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        aws = Aws(endpoint_url=f"http://127.0.0.1:{held.getsockname()[1]}", region=REGION, attempts=1)
        with pytest.raises(Unavailable, match="DynamoDB"):
            await DynamoDBEventStore(aws, "events").head("e1")
        aws.close()


async def test_an_answer_that_does_not_come_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        aws = Aws(
            endpoint_url=f"http://127.0.0.1:{silent.getsockname()[1]}", region=REGION, attempts=1, read_timeout=0.2
        )
        with pytest.raises(Unavailable, match="ReadTimeout"):
            await DynamoDBEventStore(aws, "events").head("e1")
        aws.close()


def test_making_the_table_again_changes_nothing_and_another_is_not_taken_for_it(client: Any, table: str) -> None:
    before = client.describe_table(TableName=table)["Table"]
    create_table(client, table)
    assert client.describe_table(TableName=table)["Table"] == before
    backups = client.describe_continuous_backups(TableName=table)["ContinuousBackupsDescription"]
    assert backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"] == "ENABLED"

    other = f"{table}-other"
    client.create_table(
        TableName=other,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "N"},
        ],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    )
    with pytest.raises(Misconfigured) as caught:
        create_table(client, other)
    client.delete_table(TableName=other)
    assert "the table must have the text key pk and the text key sk" in str(caught.value)
    assert "index by_state is missing; index by_entity is missing" in str(caught.value)


def test_a_store_without_shards_is_refused(ministack: Engine) -> None:
    with pytest.raises(Misconfigured, match="shards"):
        DynamoDBEventStore(ministack.aws, "events", shards=0)
