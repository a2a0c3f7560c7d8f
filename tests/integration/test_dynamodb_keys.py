"""What the key store makes of lost replies, crossing writers and the parts that DynamoDB leaves undone."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ReadTimeoutError

from adapters.aws.clients import Aws
from adapters.dynamodb.key_rows import Row, claim_row, extend_row, row_from, row_key
from adapters.dynamodb.key_store import DynamoDBKeyStore
from adapters.dynamodb.key_table import create_key_table
from adapters.memory.clock import ManualClock
from adapters.memory.id_source import CountingIds
from domain.dedup import Scope, key_hash, make_scope
from domain.errors import Misconfigured, Unavailable
from domain.retry import RetryRule
from tests.aws_faults import answering, counted, hooked, refusal
from tests.contracts.key_store import HOUR, PRICING
from tests.engines import REGION, Engine, is_elsewhere, key_table

pytestmark = pytest.mark.anyio
AT_ONCE = RetryRule(attempts=3, base=0)
LONG = make_scope("long:pricing", "run-1")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime.now(UTC))


@pytest.fixture
def table(ministack: Engine) -> Iterator[str]:
    with key_table(ministack) as table:
        yield table


@pytest.fixture
def store(ministack: Engine, table: str, clock: ManualClock) -> DynamoDBKeyStore:
    return DynamoDBKeyStore(ministack.aws, table, clock, CountingIds(), retry=AT_ONCE)


@pytest.fixture
def client(ministack: Engine) -> Any:
    return ministack.aws.dynamodb.client()


def keys(number: int) -> list[str]:
    return [f"k{n}" for n in range(number)]


def stored(client: Any, table: str, scope: Scope, key: str) -> dict[str, Any]:
    item: dict[str, Any] = client.get_item(TableName=table, Key=row_key(scope, key_hash(scope, key))).get("Item", {})
    return item


@pytest.mark.parametrize("number", [1, 30])
@pytest.mark.skipif(is_elsewhere(), reason="counts how often this engine is asked")
async def test_a_claim_that_boto3_sends_again_after_a_lost_reply_is_still_new(
    ministack: Engine, table: str, clock: ManualClock, number: int
) -> None:
    """The first request is carried out; its reply is thrown away, so that botocore sends it again."""
    aws = Aws(endpoint_url=ministack.url, region=REGION, attempts=3)
    client = aws.dynamodb.client()
    lost: list[str] = []

    class Lossy:
        def __init__(self, session: Any) -> None:
            self._session = session

        def send(self, request: Any) -> AWSResponse:
            answer: AWSResponse = self._session.send(request)
            if not lost:
                lost.append(request.headers["X-Amz-Target"])
                raise ReadTimeoutError(endpoint_url=request.url)
            return answer

        def close(self) -> None:
            self._session.close()

    endpoint: Any = client._endpoint  # type: ignore[attr-defined]
    endpoint.http_session = Lossy(endpoint.http_session)
    store = DynamoDBKeyStore(aws, table, clock, CountingIds())
    assert await store.claim(PRICING, keys(number), HOUR) == [True] * number
    assert len(lost) == 1
    assert await store.claim(PRICING, keys(number), HOUR) == [False] * number
    aws.close()


async def test_rows_that_this_call_wrote_are_new_when_a_transaction_meets_them(
    store: DynamoDBKeyStore, client: Any, table: str
) -> None:
    """As when a chunk's transaction was carried out, its reply lost, and its idempotence token forgotten."""
    until = store._now() + HOUR // timedelta(microseconds=1)
    for key in keys(12)[:10]:
        client.put_item(
            **claim_row(table, row_key(PRICING, key_hash(PRICING, key)), "id-1" if key != "k3" else "x", until, 0)
        )
    assert await store.claim(PRICING, keys(12), HOUR) == [key != "k3" for key in keys(12)]


async def test_r209_every_check_lets_a_key_live_its_time_again(store: DynamoDBKeyStore, clock: ManualClock) -> None:
    for scope in (PRICING, LONG):
        for number in (1, 30):
            await store.claim(scope, keys(number), timedelta(seconds=60))
            clock.advance(50)
            assert await store.claim(scope, keys(number), timedelta(seconds=60)) == [False] * number
            clock.advance(50)
            assert await store.claim(scope, keys(number), timedelta(seconds=1)) == [False] * number
            clock.advance(10)
            assert await store.exist(scope, keys(number)) == [False] * number


async def test_r209_a_row_says_exactly_when_it_ends_and_dynamodb_deletes_it_no_earlier(
    store: DynamoDBKeyStore, client: Any, table: str, clock: ManualClock
) -> None:
    clock.advance(-clock.now().microsecond / 1e6 + 0.25)
    end = clock.now() + timedelta(seconds=90)
    seconds = int(end.timestamp())
    await store.claim(PRICING, ["a"], timedelta(seconds=90))
    row = stored(client, table, PRICING, "a")
    assert row["ends"] == row["until"] == {"N": f"{seconds}250000"}
    assert row["ttl"] == {"N": str(seconds + 1)}
    await store.put(PRICING, "a", b"v", timedelta(seconds=30))
    assert stored(client, table, PRICING, "a")["ttl"] == row["ttl"], "the claim outlives the value"
    await store.put(PRICING, "a", b"v", timedelta(seconds=190))
    row = stored(client, table, PRICING, "a")
    assert (row["until"], row["ends"]) == ({"N": f"{seconds}250000"}, {"N": f"{seconds + 100}250000"})
    await store.claim(PRICING, ["a"], timedelta(seconds=100))
    assert stored(client, table, PRICING, "a")["ends"] == row["ends"], "the value outlives the claim"
    await store.put(PRICING, "a", b"v", timedelta(seconds=1))
    row = stored(client, table, PRICING, "a")
    assert row["ends"] == row["until"], "a shorter value lets the row end earlier again"


async def test_an_expired_row_never_answers_and_nothing_of_it_is_left_when_it_is_replaced(
    store: DynamoDBKeyStore, client: Any, table: str, clock: ManualClock
) -> None:
    client.update_time_to_live(
        TableName=table, TimeToLiveSpecification={"Enabled": False, "AttributeName": "ttl"}
    )  # so that the rows stay
    for number in (1, 30):
        await store.claim(PRICING, keys(number), timedelta(seconds=5))
        await store.put(PRICING, "k0", b"old", timedelta(seconds=5))
        clock.advance(5)
        assert stored(client, table, PRICING, "k0")["value"] == {"B": b"old"}
        assert await store.exist(PRICING, keys(number)) == [False] * number
        assert (await store.get(PRICING, "k0"), await store.count(PRICING)) == (None, 0)
        assert await store.claim(PRICING, keys(number), HOUR) == [True] * number
        assert "value" not in stored(client, table, PRICING, "k0")
        assert await store.forget(PRICING) == number
    await store.claim(PRICING, ["a"], timedelta(seconds=5))
    clock.advance(5)
    await store.put(PRICING, "a", b"new", HOUR)
    assert stored(client, table, PRICING, "a").keys() == {"pk", "sk", "value", "value_until", "ends", "ttl"}
    assert (await store.get(PRICING, "a"), await store.count(PRICING)) == (b"new", 0)


async def test_requests_of_each_call(store: DynamoDBKeyStore, client: Any) -> None:
    async def calls(work: Any) -> list[str]:
        with counted(client) as names:
            await work
        return sorted(names)

    assert await calls(store.claim(PRICING, ["a"], HOUR)) == ["PutItem"]
    assert await calls(store.claim(PRICING, ["a"], timedelta(seconds=9))) == ["PutItem"]
    assert await calls(store.claim(PRICING, ["b"] * 50, HOUR)) == ["PutItem"]
    assert await calls(store.claim(PRICING, keys(250), HOUR)) == ["TransactWriteItems"] * 3
    assert await calls(store.claim(PRICING, [*keys(50), "x", "y"], timedelta(seconds=9))) == [
        "PutItem", "PutItem", "TransactWriteItems",
    ]  # fmt: skip
    assert await calls(store.exist(PRICING, keys(250))) == ["BatchGetItem"] * 3
    assert await calls(store.get(PRICING, "a")) == ["GetItem"]
    assert await calls(store.put(PRICING, "new", b"v", HOUR)) == ["PutItem"]
    assert await calls(store.put(PRICING, "a", b"v", HOUR)) == ["PutItem", "UpdateItem"]
    assert await calls(store.count(PRICING)) == ["Query"] * 16
    names = await calls(store.forget(PRICING))
    assert set(names) == {"BatchWriteItem", "Query"}
    assert names.count("Query") == 16


async def test_a_big_run_is_counted_and_forgotten_over_many_pages(store: DynamoDBKeyStore, client: Any) -> None:
    for number in range(40):  # 40 values of 300 KB over 16 shards: more than a page in some
        await store.put(PRICING, f"v{number}", bytes(300 * 1024), HOUR)
    await store.claim(PRICING, keys(400), HOUR)
    with counted(client) as names:
        assert await store.count(PRICING) == 400
    assert len(names) > 16
    assert await store.exist(PRICING, [*(f"v{number}" for number in range(40)), "no"]) == [True] * 40 + [False]
    assert await store.forget(PRICING) == 400
    assert (await store.count(PRICING), await store.get(PRICING, "v1")) == (0, None)


async def test_r201_overlapping_batches_tell_each_key_new_once(store: DynamoDBKeyStore) -> None:
    batches = [[f"k{n}" for n in range(start, start + 40)] for start in range(0, 60, 5)]
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(store.claim(PRICING, batch, HOUR)) for batch in batches]
    told = [pair for batch, task in zip(batches, asked, strict=True) for pair in zip(batch, task.result(), strict=True)]
    new = [key for key, is_new in told if is_new]
    assert sorted(new) == sorted({key for batch in batches for key in batch})


async def test_a_claim_waits_for_a_transaction_that_is_in_the_way(store: DynamoDBKeyStore, client: Any) -> None:
    conflict = refusal("TransactionConflictException")
    with answering(client, "PutItem", [conflict, conflict]):
        assert await store.claim(PRICING, ["a"], HOUR) == [True]
    with answering(client, "PutItem", [conflict] * 3), pytest.raises(Unavailable, match="in the way"):
        await store.claim(PRICING, ["b"], HOUR)
    reasons = [{"Code": "TransactionConflict"}] + [{"Code": "None"}] * 19
    cancelled = refusal("TransactionCanceledException", CancellationReasons=reasons)
    with answering(client, "TransactWriteItems", [cancelled, cancelled]):
        assert await store.claim(PRICING, keys(20), HOUR) == [True] * 20


async def test_a_key_that_is_forgotten_while_it_is_claimed_is_claimed_again(
    store: DynamoDBKeyStore, client: Any
) -> None:
    """DynamoDB refuses the claim for a row that is gone when the refusal is answered."""
    with answering(client, "PutItem", [refusal("ConditionalCheckFailedException")]) as seen:
        assert await store.claim(PRICING, ["a"], HOUR) == [True]
    assert len(seen) == 2


async def test_a_row_that_changed_since_it_was_seen_is_looked_at_again(
    store: DynamoDBKeyStore, client: Any, table: str, clock: ManualClock
) -> None:
    minute = timedelta(minutes=1)
    await store.claim(PRICING, ["a"], minute)
    stale = stored(client, table, PRICING, "a")
    await store.put(PRICING, "a", b"v", HOUR)
    refused = refusal("ConditionalCheckFailedException", Item=stale)
    with answering(client, "PutItem", [refused]), answering(client, "UpdateItem", []) as updates:
        assert await store.claim(PRICING, ["a"], 2 * minute) == [False]
    assert len(updates) == 2, "the first is refused: the row ends later than it was seen to"
    clock.advance(119)
    assert await store.claim(PRICING, ["a"], minute) == [False]
    assert await store.get(PRICING, "a") == b"v"

    stale = stored(client, table, PRICING, "a")
    await store.claim(PRICING, ["a"], 5 * minute)
    refused = refusal("ConditionalCheckFailedException", Item=stale)
    with answering(client, "PutItem", [refused]), answering(client, "UpdateItem", []) as updates:
        await store.put(PRICING, "a", b"w", minute)
    assert len(updates) == 2, "the first is refused: the claim ends later than it was seen to"
    clock.advance(299)
    assert await store.get(PRICING, "a") == b""


async def test_what_dynamodb_leaves_undone_is_sent_again(store: DynamoDBKeyStore, client: Any, table: str) -> None:
    await store.claim(PRICING, keys(30), HOUR)
    none = {"Responses": {}, "UnprocessedKeys": {table: {"Keys": [row_key(PRICING, key_hash(PRICING, "k1"))]}}}
    with answering(client, "BatchGetItem", [none, none]):
        assert (await store.exist(PRICING, ["k1", "k2"]))[0]
    with answering(client, "BatchGetItem", [none] * 3), pytest.raises(Unavailable):
        await store.exist(PRICING, ["k1"])
    left: list[int] = []

    def hold_back(parsed: dict[str, Any], **_: object) -> None:
        if len(left) < 2:
            left.append(1)
            request = {"DeleteRequest": {"Key": row_key(PRICING, key_hash(PRICING, "k1"))}}
            parsed["UnprocessedItems"] = {table: [request]}

    with hooked(client, "after-call.dynamodb.BatchWriteItem", hold_back), counted(client) as names:
        assert await store.forget(PRICING) == 30
    assert len(left) == 2
    assert await store.count(PRICING) == 0
    assert names.count("BatchWriteItem") >= 3


def test_the_truth_table_of_extending_a_row(client: Any, table: str) -> None:
    seen = Row(until=100, ends=100, claimed_by="t", value=None, value_until=0)
    rows: list[tuple[dict[str, int], bool]] = [
        ({}, False),
        ({"ends": 150, "until": 100}, False),
        ({"ends": 150}, False),
        ({"ends": 100}, True),
        ({"ends": 100, "until": 100}, True),
        ({"ends": 100, "until": 199}, True),
        ({"ends": 100, "until": 200}, False),
        ({"ends": 100, "until": 201}, False),
    ]
    for number, (attributes, happens) in enumerate(rows):
        key = row_key(PRICING, key_hash(PRICING, str(number)))
        if attributes:
            item = {**key, **{name: {"N": str(value)} for name, value in attributes.items()}}
            client.put_item(TableName=table, Item=item)
        if happens:
            client.update_item(**extend_row(table, key, seen, 200))
            assert row_from(client.get_item(TableName=table, Key=key)["Item"])[:2] == (200, 200)
        else:
            with pytest.raises(client.exceptions.ConditionalCheckFailedException):
                client.update_item(**extend_row(table, key, seen, 200))


def test_making_the_table_again_changes_nothing_and_another_is_not_taken_for_it(client: Any, table: str) -> None:
    before = client.describe_table(TableName=table)["Table"]
    create_key_table(client, table)
    assert client.describe_table(TableName=table)["Table"] == before
    ttl = client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
    assert (ttl["TimeToLiveStatus"], ttl["AttributeName"]) == ("ENABLED", "ttl")

    other = f"{table}-other"
    client.create_table(
        TableName=other,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
    )
    with pytest.raises(Misconfigured, match="the text key pk and the binary key sk"):
        create_key_table(client, other)
    client.delete_table(TableName=other)

    client.update_time_to_live(TableName=table, TimeToLiveSpecification={"Enabled": False, "AttributeName": "ttl"})
    client.update_time_to_live(TableName=table, TimeToLiveSpecification={"Enabled": True, "AttributeName": "until"})
    with pytest.raises(Misconfigured, match="must expire by the attribute ttl"):
        create_key_table(client, table)
