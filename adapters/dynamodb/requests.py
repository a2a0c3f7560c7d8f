"""The requests that the event store sends, as plain values, with the truth table of each condition."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from adapters.dynamodb.items import EVENT_KEY, HEAD_KEY, MISSED_PREFIX, item_size, may_be_key
from adapters.dynamodb.table import KEYS
from domain.errors import TooLarge
from domain.event import ListQuery, list_key
from domain.times import format_time

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import PutTypeDef, TransactWriteItemTypeDef

    from adapters.dynamodb.items import Item

MAX_TRANSACTION_ITEMS: Final = 100
MAX_TRANSACTION_BYTES: Final = 4 * 1024 * 1024


def put_new(table: str, item: "Item") -> "PutTypeDef":
    """Write an item whose keys are free; what is stored comes back where they are not (R-102).

    | stored under these keys | `attribute_not_exists(pk)` | write |
    |---|---|---|
    | nothing | true | happens |
    | an item | false | refused |
    """
    return {
        "TableName": table,
        "Item": item,
        "ConditionExpression": "attribute_not_exists(pk)",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def move_head(table: str, item: "Item", expected: int) -> "PutTypeDef":
    """Move a head from where its writer saw it: the optimistic lock (R-104).

    | stored head | `#sequence = :expected` | transaction |
    |---|---|---|
    | none | false | cancelled: VersionConflict |
    | at the expected sequence | true | happens |
    | at any other | false | cancelled: VersionConflict |
    """
    return {
        "TableName": table,
        "Item": item,
        "ConditionExpression": "#sequence = :expected",
        "ExpressionAttributeNames": {"#sequence": "sequence"},
        "ExpressionAttributeValues": {":expected": {"N": str(expected)}},
    }


def first_head(table: str, item: "Item", source: str) -> "list[TransactWriteItemTypeDef]":
    """Write the first head of an event that was recorded from a source.

    | stored head | stored event | head: `attribute_not_exists(pk)` | event: `#source = :source` | transaction |
    |---|---|---|---|---|
    | any | any | false | true or false | cancelled: VersionConflict |
    | none | none | true | false | cancelled: NotFound |
    | none | from another source | true | false | cancelled: NotFound |
    | none | from this source | true | true | happens |
    """
    return [
        {"Put": put_new(table, item)},
        {
            "ConditionCheck": {
                "TableName": table,
                "Key": {"pk": item["pk"], "sk": {"S": EVENT_KEY}},
                "ConditionExpression": "#source = :source",
                "ExpressionAttributeNames": {"#source": "source"},
                "ExpressionAttributeValues": {":source": {"S": source}},
            }
        },
    ]


def partition_query(table: str, event_id: str) -> dict[str, Any]:
    """Ask for all that is stored of an event but its envelope."""
    return {
        "TableName": table,
        "KeyConditionExpression": "pk = :id AND sk BETWEEN :first AND :last",
        "ExpressionAttributeValues": {
            ":id": {"S": event_id},
            ":first": {"S": MISSED_PREFIX},
            ":last": {"S": HEAD_KEY},
        },
        "ConsistentRead": True,
    }


def index_query(table: str, index: str, partition: str, query: ListQuery) -> dict[str, Any] | None:
    """Ask one partition of an index for a page of heads, or give None where the window is empty.

    Sort keys are `<time>#<event id>`, so `<time>` comes before all keys of that time and `<time>$` after them.
    The row that the page before ended with is asked for again, for the caller to leave out: a key condition has
    one range, and its ends are included.
    """
    low = format_time(query.earliest) if query.earliest else ""
    high = format_time(query.latest) + "$" if query.latest else ""
    if query.after is not None:
        after = list_key(query.after.occurred_at, query.after.event_id)
        if query.descending:
            high = min(high, after) if high else after
        else:
            low = max(low, after)
    if not may_be_key(partition) or (low and high and low > high):
        return None
    names = {"#partition": KEYS[index][0]}
    values = {":partition": {"S": partition}}
    condition = "#partition = :partition"
    if low and high:
        condition += " AND #listed BETWEEN :low AND :high"
    elif low:
        condition += " AND #listed >= :low"
    elif high:
        condition += " AND #listed <= :high"
    if low or high:
        names["#listed"] = KEYS[index][1]
        values |= {name: {"S": bound} for name, bound in ((":low", low), (":high", high)) if bound}
    request: dict[str, Any] = {
        "TableName": table,
        "IndexName": index,
        "KeyConditionExpression": condition,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
        "ScanIndexForward": not query.descending,
    }
    if query.entity is not None and query.state is not None:
        request["FilterExpression"] = "#state = :state"
        names["#state"] = "state"
        values[":state"] = {"S": query.state}
    return request


def chunks(items: "Mapping[str, Item]") -> "Iterator[dict[str, Item]]":
    """Split items into transactions of at most 100 items and 4 MB."""
    chunk: dict[str, Item] = {}
    size = 0
    for key, item in items.items():
        more = item_size(item)
        if chunk and (len(chunk) == MAX_TRANSACTION_ITEMS or size + more > MAX_TRANSACTION_BYTES):
            yield chunk
            chunk, size = {}, 0
        chunk[key] = item
        size += more
    if chunk:
        yield chunk


def check_transaction(items: "Sequence[Item]", checks: int) -> None:
    """Refuse what no transaction holds.

    Args:
        items: to be written.
        checks: how many condition checks go with them.

    Raises:
        TooLarge: more than 100 items, checks included, or 4 MB; size and limit are named.
    """
    count = len(items) + checks
    if count > MAX_TRANSACTION_ITEMS:
        reason = f"make a transaction of {count} items; the limit is {MAX_TRANSACTION_ITEMS}"
        raise TooLarge("transitions", reason, count, MAX_TRANSACTION_ITEMS)
    size = sum(item_size(item) for item in items)
    if size > MAX_TRANSACTION_BYTES:
        reason = f"make a transaction of {size} bytes; the limit is {MAX_TRANSACTION_BYTES}"
        raise TooLarge("transitions", reason, size, MAX_TRANSACTION_BYTES)
