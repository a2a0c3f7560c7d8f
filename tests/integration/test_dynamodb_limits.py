"""DynamoDB's limits are held before the call, also where an engine would let them pass (FC-33, FC-34)."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from adapters.dynamodb.event_store import DynamoDBEventStore
from adapters.dynamodb.items import event_item, item_size
from domain.errors import Invalid, TooLarge
from domain.event import ListQuery, RecordedEvent, Stream
from tests.aws_faults import counted
from tests.engines import Engine, event_table
from tests.examples import START, a_record, an_envelope, facts_of, head_after

pytestmark = pytest.mark.anyio
LIMIT = 400 * 1024


@pytest.fixture
def table(ministack: Engine) -> Iterator[str]:
    with event_table(ministack) as table:
        yield table


@pytest.fixture
def store(ministack: Engine, table: str) -> DynamoDBEventStore:
    return DynamoDBEventStore(ministack.aws, table)


def of_size(size: int) -> RecordedEvent:
    """Give an event that is an item of exactly so many bytes; such a one passes no entrypoint, which takes 256 KiB."""
    small = an_envelope("big", data="")
    record = a_record("big")._replace(envelope=small)
    data = "x" * (size - item_size(event_item(record)))
    return record._replace(envelope=small.model_copy(update={"data": data}))


async def test_fc33_an_item_may_have_400_kb_and_not_a_byte_more(
    store: DynamoDBEventStore, ministack: Engine, table: str
) -> None:
    for size in (LIMIT + 1, 401 * 1024):
        with pytest.raises(TooLarge) as caught:
            await store.record([a_record("e1"), of_size(size)])
        assert (caught.value.size, caught.value.limit) == (size, LIMIT)
        assert str(size) in str(caught.value)
    assert await store.event("e1") is None
    client = ministack.aws.dynamodb.client()
    with pytest.raises(ClientError, match="ValidationException"):
        client.put_item(TableName=table, Item=event_item(of_size(LIMIT + 1)))
    largest = of_size(LIMIT)
    assert await store.record([largest]) == [largest]
    assert await store.event("big") == largest


async def test_fc33_sizes_are_counted_in_utf8(store: DynamoDBEventStore) -> None:
    record = a_record("e1")
    accents = record._replace(envelope=record.envelope.model_copy(update={"data": "é" * 209_920}))
    with pytest.raises(TooLarge) as caught:
        await store.record([accents])
    assert caught.value.size > 419_840


async def test_a_transaction_holds_98_first_facts_or_99_later_ones(store: DynamoDBEventStore) -> None:
    record = a_record("e1")
    await store.record([record])
    [seed] = facts_of("e1", 1)
    facts = [seed._replace(sequence=number + 1, at=START + timedelta(seconds=number)) for number in range(198)]
    with pytest.raises(TooLarge) as caught:
        await store.append(head_after(record, facts[98]), facts[:99])
    assert (caught.value.size, caught.value.limit) == (101, 100)
    assert await store.stream("e1") == Stream(None, (), ())
    await store.append(head_after(record, facts[97]), facts[:98])
    with pytest.raises(TooLarge):
        await store.append(head_after(record, facts[197]), facts[98:])
    await store.append(head_after(record, facts[196]), facts[98:197])
    assert list((await store.stream("e1")).history) == facts[:197]


async def test_a_transaction_holds_four_megabytes(store: DynamoDBEventStore) -> None:
    record = a_record("e1")
    await store.record([record])
    [seed] = facts_of("e1", 1)
    facts = [seed._replace(sequence=number + 1, reason="x" * 50_000) for number in range(90)]
    with pytest.raises(TooLarge) as caught:
        await store.append(head_after(record, facts[-1]), facts)
    assert caught.value.limit == 4 * 1024 * 1024


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        ({"event_id": ""}, Invalid),
        ({"entity": ""}, Invalid),
        ({"event_id": "é" * 1024 + "x"}, TooLarge),
        ({"entity": "é" * 1024 + "x"}, TooLarge),
        ({"event_id": "\ud800"}, Invalid),
    ],
)
async def test_fc34_keys_are_checked_before_the_call(
    store: DynamoDBEventStore, ministack: Engine, broken: dict[str, Any], error: type[Invalid]
) -> None:
    with counted(ministack.aws.dynamodb.client()) as calls, pytest.raises(error) as caught:
        await store.record([a_record()._replace(**broken)])
    assert caught.value.place in {"pk", "entity"}
    assert calls == []


async def test_the_longest_keys_are_taken(store: DynamoDBEventStore) -> None:
    longest = a_record()._replace(event_id="é" * 1024, entity="é" * 1024)
    assert await store.record([longest]) == [longest]
    assert await store.event(longest.event_id) == longest


@pytest.mark.parametrize("event_id", ["", "\ud800", "x" * 2049])
async def test_what_cannot_be_a_key_is_unknown_without_a_call(
    store: DynamoDBEventStore, ministack: Engine, event_id: str
) -> None:
    with counted(ministack.aws.dynamodb.client()) as calls:
        assert await store.event(event_id) is None
        assert await store.head(event_id) is None
        assert await store.stream(event_id) == Stream(None, (), ())
        assert await store.list_heads(ListQuery(entity=event_id)) == []
    assert calls == []


async def test_an_empty_window_is_an_empty_page_without_a_call(store: DynamoDBEventStore, ministack: Engine) -> None:
    """DynamoDB refuses BETWEEN with its ends the wrong way round."""
    query = ListQuery(state="open", earliest=START, latest=START - timedelta(microseconds=1))
    with counted(ministack.aws.dynamodb.client()) as calls:
        assert await store.list_heads(query) == []
    assert calls == []
