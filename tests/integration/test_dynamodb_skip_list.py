"""What the skip list makes of DynamoDB's partial answers and errors (FC-24)."""

from collections.abc import Iterator
from typing import Any

import pytest

from adapters.dynamodb.skip_list_store import DynamoDBSkipListStore, _item
from domain.errors import Misconfigured, PartlyDone, Unavailable
from domain.retry import RetryRule
from domain.skip_list import SkipListQuery
from tests.aws_faults import answering, counted, refusal
from tests.contracts.skip_list_store import DAILY, entries, keys, listed
from tests.engines import Engine, settings_table

pytestmark = pytest.mark.anyio


@pytest.fixture
def table(ministack: Engine) -> Iterator[str]:
    with settings_table(ministack) as table:
        yield table


@pytest.fixture
def store(ministack: Engine, table: str) -> DynamoDBSkipListStore:
    return DynamoDBSkipListStore(ministack.aws, table, retry=RetryRule(attempts=3, base=0))


@pytest.fixture
def client(ministack: Engine) -> Any:
    return ministack.aws.dynamodb.client()


def undone(table: str, *names: str) -> dict[str, Any]:
    """Answer that some writes were not done."""
    return {"UnprocessedItems": {table: [{"PutRequest": {"Item": _item(entry)}} for entry in entries(*names)]}}


async def test_what_dynamodb_had_no_time_for_is_sent_again_alone(
    store: DynamoDBSkipListStore, table: str, client: Any
) -> None:
    """The first answer claims R1 done, which here it is not: so R1 was not sent twice."""
    with answering(client, "BatchWriteItem", [undone(table, "R2")]) as seen:
        assert await store.add(entries("R1", "R2")) == 2
    assert len(seen) == 2
    assert await listed(store) == ["R2"]


async def test_fc24_a_bulk_edit_that_is_done_in_part_names_what_failed(
    store: DynamoDBSkipListStore, client: Any
) -> None:
    names = [f"R{number:02}" for number in range(50)]
    with (
        answering(client, "BatchWriteItem", [refusal("ThrottlingException")] * 3),
        pytest.raises(PartlyDone) as caught,
    ):
        await store.add(entries(*names))
    left = list(caught.value.left)
    assert caught.value.done + len(left) == 50
    assert 25 <= len(left) <= 50
    assert "secret" not in str(caught.value)
    assert sorted(await listed(store) + left) == names
    assert await store.add(entries(*names)) == len(left), "repeating the call is safe"
    assert await listed(store) == names


async def test_an_edit_that_stays_undone_ends_after_bounded_attempts(
    store: DynamoDBSkipListStore, table: str, client: Any
) -> None:
    with (
        answering(client, "BatchWriteItem", [undone(table, "R1")] * 9) as seen,
        pytest.raises(PartlyDone, match=r"left 1 undone \('R1'\)"),
    ):
        await store.add(entries("R1"))
    assert len(seen) == 3


async def test_nothing_was_changed_where_the_look_up_fails(store: DynamoDBSkipListStore, client: Any) -> None:
    with answering(client, "BatchGetItem", [refusal("ThrottlingException")] * 3), pytest.raises(Unavailable):
        await store.add(entries("R1"))
    assert await store.everything() == []


async def test_a_table_that_is_not_there_is_a_mistake_of_the_setting(ministack: Engine) -> None:
    with pytest.raises(Misconfigured, match="tables create"):
        await DynamoDBSkipListStore(ministack.aws, "interlock-nowhere").everything()


async def test_no_edit_reads_the_list(store: DynamoDBSkipListStore, client: Any) -> None:
    await store.add(entries(*(f"R{number}" for number in range(60))))
    with counted(client) as calls:
        await store.add(entries("R1", "new"))
        await store.remove(keys("R1", "R2", event_type=DAILY))
    assert calls == ["BatchGetItem", "BatchWriteItem"] * 2
    with counted(client) as calls:
        await store.page(SkipListQuery(DAILY, 10))
    assert calls == ["Query"] * 4
