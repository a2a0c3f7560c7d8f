"""What the activity store sends to DynamoDB, and what becomes of lost replies, stopped writers and large rows."""

from collections.abc import Iterator
from typing import Any

import pytest

from adapters.aws.clients import Aws
from adapters.dynamodb.activity_rows import (
    month_item,
    months_query,
    neighbour,
    owner_item,
    owner_key,
    row_from,
    row_item,
    rows_query,
)
from adapters.dynamodb.activity_store import DynamoDBActivityStore
from adapters.dynamodb.activity_table import create_activity_table
from adapters.dynamodb.items import MAX_ITEM_BYTES, item_size
from adapters.dynamodb.key_table import create_key_table
from adapters.dynamodb.requests import put_new
from adapters.memory.id_source import CountingIds
from application.activity import record
from domain.activity import Activity, Pointer, Sealed, Stretch, place_key, place_of, unsealed
from domain.errors import CorruptHistory, Misconfigured, TooLarge, Unavailable
from tests.activity import a_feed, a_history, a_query, a_row
from tests.aws_faults import answering, counted, refusal
from tests.contracts.activity_store import MONTH, everything
from tests.engines import REGION, Engine, activity_table
from tests.examples import an_envelope

pytestmark = pytest.mark.anyio


@pytest.fixture
def table(ministack: Engine) -> Iterator[str]:
    with activity_table(ministack) as table:
        yield table


@pytest.fixture
def store(ministack: Engine, table: str) -> DynamoDBActivityStore:
    return DynamoDBActivityStore(ministack.aws, table, CountingIds())


def client_of(engine: Engine) -> Any:
    return engine.aws.dynamodb.client()


async def test_a_row_is_three_small_writes_and_two_once_its_month_is_known(
    store: DynamoDBActivityStore, ministack: Engine
) -> None:
    with counted(client_of(ministack)) as calls:
        await store.record([a_row(1)])
        assert calls == ["PutItem"] * 3
        await store.record([a_row(2)])
        assert calls == ["PutItem"] * 5


async def test_a_page_within_a_month_reads_no_other_partition_but_the_list_of_months(
    store: DynamoDBActivityStore, ministack: Engine
) -> None:
    await store.record([a_row(number, seconds=number * MONTH) for number in range(6)])
    client = client_of(ministack)
    with counted(client) as calls:
        await store.find(Stretch(a_query(), None, 1, 1))
        assert calls == ["Query", "Query"]
        await store.find(Stretch(a_query(), place_of(a_row(0)), 1, 1))
        assert calls == ["Query"] * 5  # the month of the place, the list of months, the next month
    assert "Scan" not in calls


async def test_a_reply_that_was_lost_is_recognised(store: DynamoDBActivityStore, ministack: Engine, table: str) -> None:
    """boto3 sends the put again, and the row that refuses it is its own."""
    row = a_row(1)
    call = CountingIds().new_id()
    for item in (owner_item(row), month_item(row.account, "2026-01"), row_item(row, call)):
        client_of(ministack).put_item(**put_new(table, item))
    assert await store.record([row]) == [True]
    assert await store.record([row]) == [False]


async def test_a_writer_that_stopped_half_way_leaves_nothing_to_see_and_its_copy_finishes(
    store: DynamoDBActivityStore, ministack: Engine, table: str
) -> None:
    row = a_row(1)
    copy = a_row(1, seconds=3 * MONTH)._replace(account="other")
    client_of(ministack).put_item(**put_new(table, owner_item(row)))
    assert await everything(store, a_query()) == []
    assert await store.record([copy]) == [True]
    assert await everything(store, a_query()) == [place_of(row)]
    assert await everything(store, a_query(account="other")) == []
    assert await store.record([row]) == [False]


async def test_a_write_in_the_way_of_a_transaction_is_told_as_that(
    store: DynamoDBActivityStore, ministack: Engine
) -> None:
    with (
        answering(client_of(ministack), "PutItem", [refusal("TransactionConflictException")]),
        pytest.raises(Unavailable),
    ):
        await store.record([a_row(1)])
    assert await store.record([a_row(1)]) == [True]


def sized(number: int, item_bytes: int, letter: str = "x") -> Activity:
    """Give a row whose item has this size."""
    row = a_row(number)._replace(payload=Sealed(""))
    left = item_bytes - item_size(row_item(row, CountingIds().new_id()))
    return row._replace(payload=Sealed(letter * (left // len(letter.encode()))))


async def test_fc33_rows_are_measured_before_anything_is_written(
    store: DynamoDBActivityStore, ministack: Engine
) -> None:
    """399 KB and exactly 400 KB are kept, 401 KB and 209,920 times é are refused, with size and limit."""
    fits = [sized(1, 399 * 1024), sized(2, MAX_ITEM_BYTES)]
    assert await store.record(fits) == [True, True]
    with counted(client_of(ministack)) as calls:
        for row in (
            sized(3, MAX_ITEM_BYTES + 1),
            sized(4, 401 * 1024),
            a_row(5)._replace(payload=Sealed("é" * 209_920)),
        ):
            with pytest.raises(TooLarge) as caught:
                await store.record([a_row(6), row])
            assert caught.value.size > caught.value.limit == MAX_ITEM_BYTES
        assert calls == []
    assert await everything(store, a_query()) == [place_of(row) for row in fits]


@pytest.mark.parametrize("size", [399 * 1024, 401 * 1024, 600 * 1024])
async def test_fc33_an_event_of_any_size_comes_back(store: DynamoDBActivityStore, size: int) -> None:
    """As the functions run it: what is too large for a row is elsewhere, and the row points there."""
    feed = a_feed(store, inline_bytes=384 * 1024)
    attributes = an_envelope("e1").attributes() | {"data": {"account": "acme", "text": "x" * size}}
    assert await record(feed, [type(an_envelope()).model_validate(attributes)]) == ["recorded"]
    [item] = (await a_history(feed).page(a_query())).items
    assert item["data"] == attributes["data"]


async def test_fc25_a_store_that_gives_no_key_after_a_full_page_loses_no_month(moto: Engine) -> None:
    """moto gives none where the limit meets the end of a partition; AWS does."""
    aws = Aws(endpoint_url=moto.url, region=REGION, workers=1, read_timeout=30)
    rows = [a_row(number, seconds=number // 2 * MONTH) for number in range(6)]
    with activity_table(moto) as table:
        store = DynamoDBActivityStore(aws, table, CountingIds())
        await store.record(rows)
        for looked_at in (1, 2, 3, 5):
            expected = sorted(place_of(row) for row in rows)
            assert await everything(store, a_query(), wanted=9, rows=looked_at) == expected
    aws.close()


async def test_an_account_that_no_key_can_hold_has_no_rows(store: DynamoDBActivityStore) -> None:
    assert await store.find(Stretch(a_query(account="\ud800"), None, 1, 1)) == ([], None)


def test_rows_round_trip() -> None:
    for row in (a_row(1, report_id="R1"), a_row(2), a_row(3)._replace(payload=Pointer("activity/a/b", 700_000))):
        assert row_from(row_item(row, "call")) == row
    odd = a_row(4, account="a#2026-01")
    assert row_from(row_item(odd, "call")).account == "a#2026-01"


@pytest.mark.parametrize("broken", ["type", "envelope", "sk", "pk"])
def test_a_row_that_somebody_else_wrote_is_told_as_that(broken: str) -> None:
    item = {name: value for name, value in row_item(a_row(1, note="hunter2"), "call").items() if name != broken}
    with pytest.raises(CorruptHistory) as caught:
        row_from(item)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("digit", "0123456789abcdef")
def test_between_a_key_and_its_neighbours_there_is_no_other(digit: str) -> None:
    ids = [f"{'0' * 30}{first}{second}" for first in "0189af" for second in "0123456789abcdef"]
    key = f"{'0' * 30}8{digit}"
    assert [each for each in ids if each <= neighbour(key, -1)] == [each for each in ids if each < key]
    assert [each for each in ids if each >= neighbour(key, 1)] == [each for each in ids if each > key]


def test_a_window_that_ends_before_the_place_asks_nothing() -> None:
    after = place_key(place_of(a_row(9)))
    early, late = a_row(5).occurred_at, a_row(12).occurred_at
    assert rows_query("t", a_query(latest=early), "2026-01", after) is None
    assert rows_query("t", a_query(earliest=late, descending=True), "2026-01", after) is None
    assert months_query("t", a_query(latest=early), "2026-01") is None
    assert months_query("t", a_query(earliest=early, descending=True), "2026-01") is None
    assert months_query("t", a_query(latest=late), None) is not None


async def test_the_table_is_made_once_and_a_foreign_one_is_refused(ministack: Engine, table: str) -> None:
    client = client_of(ministack)
    create_activity_table(client, table)
    backups = client.describe_continuous_backups(TableName=table)["ContinuousBackupsDescription"]
    assert backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"] == "ENABLED"
    other = f"{table}-keys"
    create_key_table(client, other)
    with pytest.raises(Misconfigured, match="the text key pk and the text key sk"):
        create_activity_table(client, other)
    client.delete_table(TableName=other)


async def test_a_missing_table_is_told_with_its_fix(ministack: Engine) -> None:
    store = DynamoDBActivityStore(ministack.aws, "interlock-none", CountingIds())
    with pytest.raises(Misconfigured, match="interlock tables create"):
        await store.record([a_row(1)])
    with pytest.raises(Misconfigured, match="interlock tables create"):
        await store.find(Stretch(a_query(), None, 1, 1))


async def test_fc29_what_is_stored_is_what_was_sent(
    store: DynamoDBActivityStore, ministack: Engine, table: str
) -> None:
    row = a_row(1, email="p@example.com")
    await store.record([row])
    key = {name: row_item(row, "")[name] for name in ("pk", "sk")}
    item = client_of(ministack).get_item(TableName=table, Key=key)["Item"]
    assert isinstance(row.payload, Sealed)
    assert item["envelope"]["S"] == unsealed(row.payload)
    owner = client_of(ministack).get_item(TableName=table, Key=owner_key(row.activity_id))["Item"]
    assert owner["account"] == {"S": "acme"}
