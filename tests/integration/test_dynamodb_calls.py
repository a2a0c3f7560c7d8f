"""What the event store asks of DynamoDB, counted: nothing reads more than the page needs, and nothing scans (R-109)."""

import ast
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from adapters.dynamodb.event_store import DynamoDBEventStore
from adapters.dynamodb.items import head_item, item_size
from domain.event import Head, ListQuery, Position
from tests.aws_faults import answering, counted
from tests.engines import Engine, event_table
from tests.examples import START, a_record, an_envelope, facts_of, head_after

pytestmark = pytest.mark.anyio
ADAPTERS = Path(__file__).parents[2] / "adapters"
SHARDS = 3


@pytest.fixture
def table(ministack: Engine) -> Iterator[str]:
    with event_table(ministack) as table:
        yield table


@pytest.fixture
def store(ministack: Engine, table: str) -> DynamoDBEventStore:
    return DynamoDBEventStore(ministack.aws, table, shards=SHARDS)


@pytest.fixture
def calls(ministack: Engine) -> Iterator[list[str]]:
    """Give the operations that were called since the list was last cleared."""
    with counted(ministack.aws.dynamodb.client()) as names:
        yield names


async def test_each_call_of_the_port_is_as_few_requests_as_it_can_be(
    store: DynamoDBEventStore, calls: list[str]
) -> None:
    def seen() -> list[str]:
        names = list(calls)
        calls.clear()
        return names

    calls.clear()
    record = a_record("e1")
    first, second, *more = facts_of("e1", 5)
    await store.record([record])
    assert seen() == ["PutItem"]
    assert await store.record([record._replace(arrived_at=START + timedelta(days=1))] * 2) == [record, record]
    assert seen() == ["PutItem"]
    await store.append(head_after(record, first), [first])
    assert seen() == ["TransactWriteItems"]
    await store.append(head_after(record, second), [second])
    assert seen() == ["TransactWriteItems"]
    await store.append(head_after(record, more[-1]), more)
    assert seen() == ["TransactWriteItems"]
    await store.stream("e1")
    assert seen() == ["Query"]
    await store.event("e1")
    await store.head("e1")
    assert seen() == ["GetItem", "GetItem"]
    await store.list_heads(ListQuery(state="closed"))
    assert seen() == ["Query"] * SHARDS
    await store.list_heads(ListQuery(entity=record.entity))
    assert seen() == ["Query"]
    await store.list_heads(ListQuery(entity=record.entity, state="closed"))
    assert seen() == ["Query"]
    await store.record([])
    assert seen() == []


async def test_many_events_are_recorded_a_hundred_a_transaction(store: DynamoDBEventStore, calls: list[str]) -> None:
    calls.clear()
    events = [a_record(f"e{number}") for number in range(250)]
    assert await store.record(events) == events
    assert calls == ["TransactWriteItems"] * 3
    calls.clear()
    await store.record([a_record("new 1"), *events[:50], a_record("new 2")])
    assert calls == ["TransactWriteItems"] * 2
    calls.clear()
    await store.record(events[:100])
    assert calls == ["TransactWriteItems"]


async def test_fc33_transactions_hold_at_most_four_megabytes(store: DynamoDBEventStore, calls: list[str]) -> None:
    calls.clear()
    big = [a_record(f"e{number}")._replace(envelope=an_envelope(data="x" * 250_000)) for number in range(20)]
    assert await store.record(big) == big
    assert calls == ["TransactWriteItems"] * 2


async def test_r103_a_history_is_one_query_a_megabyte(
    store: DynamoDBEventStore, calls: list[str], ministack: Engine, table: str
) -> None:
    record = a_record("e1")
    await store.record([record])
    [seed] = facts_of("e1", 1)
    facts = [
        seed._replace(sequence=number + 1, at=START + timedelta(seconds=number), reason="😀" * 2000)
        for number in range(150)
    ]
    for part in (facts[:75], facts[75:]):
        await store.append(head_after(record, part[-1]), part)
    calls.clear()
    found = await store.stream("e1")
    assert list(found.history) == facts
    assert found.head == head_after(record, facts[-1])
    assert calls == ["Query"] * 2
    items = ministack.aws.dynamodb.client().query(
        TableName=table, KeyConditionExpression="pk = :id", ExpressionAttributeValues={":id": {"S": "e1"}}
    )["Items"]
    assert sum(item_size(item) for item in items) <= 1024 * 1024


async def test_fc25_a_filtered_list_is_read_to_its_end(
    store: DynamoDBEventStore, calls: list[str], ministack: Engine, table: str
) -> None:
    """2,500 rows under one key, of which the first, the 1,200th and the last match; page size 100."""
    heads = [a_head(number, "open" if number in {0, 1199, 2499} else "closed", "N1") for number in range(2500)]
    heads += [a_head(number, "open", "N2") for number in range(100)]
    write(ministack, table, heads)
    calls.clear()
    found = await store.list_heads(ListQuery(entity="N1", state="open", limit=100))
    assert [head.event_id for head in found] == ["N1-0000", "N1-1199", "N1-2499"]
    assert len(calls) <= 8
    last = Position(found[-1].occurred_at, found[-1].event_id)
    assert await store.list_heads(ListQuery(entity="N1", state="open", limit=100, after=last)) == []
    assert await store.list_heads(ListQuery(entity="N1", state="scheduled", limit=100)) == []
    backwards = await store.list_heads(ListQuery(entity="N1", state="open", limit=2, descending=True))
    assert [head.event_id for head in backwards] == ["N1-2499", "N1-1199"]
    exact = await store.list_heads(ListQuery(entity="N2", state="open", limit=100))
    assert len(exact) == 100
    last = Position(exact[-1].occurred_at, exact[-1].event_id)
    assert await store.list_heads(ListQuery(entity="N2", limit=100, after=last)) == []


async def test_a_state_listed_over_shards_is_in_order_and_none_is_missing(
    store: DynamoDBEventStore, ministack: Engine, table: str
) -> None:
    """Rows written under fewer shards are still found: the number may be raised."""
    heads = [a_head(number, "open", "N1") for number in range(60)]
    write(ministack, table, heads[:30], shards=1)
    write(ministack, table, heads[30:], shards=SHARDS)
    assert await store.list_heads(ListQuery(state="open", limit=100)) == heads
    assert await store.list_heads(ListQuery(state="open", limit=40, descending=True)) == heads[:19:-1]


@pytest.mark.parametrize("descending", [False, True])
async def test_a_page_inside_a_window_goes_on_where_the_last_one_ended(
    store: DynamoDBEventStore, calls: list[str], ministack: Engine, table: str, *, descending: bool
) -> None:
    """Each page is a query a shard, also the last one."""
    heads = [a_head(number, "open", "N1") for number in range(40)]
    write(ministack, table, heads, shards=1)
    window = heads[5:35][::-1] if descending else heads[5:35]
    query = ListQuery(
        state="open", earliest=heads[5].occurred_at, latest=heads[34].occurred_at, descending=descending, limit=10
    )
    for start in range(0, 30, 10):
        calls.clear()
        page = await store.list_heads(query)
        assert page == window[start : start + 10]
        assert calls == ["Query"] * SHARDS
        query = query._replace(after=Position(page[-1].occurred_at, page[-1].event_id))
    assert await store.list_heads(query) == []


async def test_of_copies_in_one_call_the_first_is_recorded(store: DynamoDBEventStore) -> None:
    first = a_record("e1")
    copy = first._replace(arrived_at=START + timedelta(days=1))
    assert await store.record([first, copy, a_record("e2"), copy]) == [first, first, a_record("e2"), first]


async def test_what_is_said_to_be_up_to_date_is_read_consistently(store: DynamoDBEventStore, ministack: Engine) -> None:
    """No local engine lags, so the requests are looked at."""
    client = ministack.aws.dynamodb.client()
    with answering(client, "GetItem", []) as gets, answering(client, "Query", []) as queries:
        await store.event("e1")
        await store.head("e1")
        await store.stream("e1")
    assert [json.loads(request["body"]).get("ConsistentRead") for request in [*gets, *queries]] == [True] * 3


# Iceberg's tables call the reading of some of their files a scan; no file of that adapter knows DynamoDB.
MAY_KNOW_DYNAMODB = [file for file in sorted(ADAPTERS.rglob("*.py")) if "iceberg" not in file.parts]


@pytest.mark.parametrize("file", MAY_KNOW_DYNAMODB, ids=lambda file: str(file.relative_to(ADAPTERS)))
def test_r109_no_adapter_can_scan(file: Path) -> None:
    """Not by the client's methods, not by a paginator, not by PartiQL."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            assert node.attr not in {"scan", "execute_statement", "batch_execute_statement", "execute_transaction"}
        if isinstance(node, ast.Constant):
            assert node.value not in {"scan", "Scan"}


def a_head(number: int, state: str, entity: str) -> Head:
    occurred_at = START + timedelta(seconds=number)
    return Head(f"{entity}-{number:04}", entity, "FlightDelayed", "/flights/nyc", occurred_at, state, 1, occurred_at)


def write(engine: Engine, table: str, heads: list[Head], shards: int = SHARDS) -> None:
    client = engine.aws.dynamodb.client()
    for start in range(0, len(heads), 25):
        puts = [head_item(head, shards) for head in heads[start : start + 25]]
        left = client.batch_write_item(RequestItems={table: [{"PutRequest": {"Item": item}} for item in puts]})
        assert not left["UnprocessedItems"]
