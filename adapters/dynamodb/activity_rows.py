"""The items of the activity store and the requests that touch them, with the truth table of each condition.

| what | `pk` | `sk` | other attributes |
|---|---|---|---|
| a row | `a#<account>#<month>` | `<time>#<activity id>` | `type`, `report_id`, `written_by`, and |
| | | | `envelope`, or `pointer` and `size` |
| a month that holds rows | `m#<account>` | `<month>` | |
| where an event's row is | `i#<activity id>` | `-` | `account`, `place` |
| the key of cursors | `k#cursor` | `-` | `value` |

A month is `2013-01`, of the event's time. An account may hold any character: `<month>` has one width, so no two
accounts share a partition. An event's row is found by its id, so that a copy with another time or account meets it.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from domain.activity import Activity, ActivityQuery, Place, Pointer, Sealed, place_key, place_of, unsealed
from domain.errors import CorruptHistory
from domain.times import format_time

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import AttributeValueTypeDef

    Item: TypeAlias = Mapping[str, AttributeValueTypeDef]

ONE: Final = "-"
MONTH_LENGTH: Final = 7
WRITER: Final = "written_by"


def month_of(place: str) -> str:
    """Give the month of a place or a time, as text."""
    return place[:MONTH_LENGTH]


def row_item(activity: Activity, call: str) -> "Item":
    """Write a row.

    Args:
        activity: the row.
        call: who writes it, a name made for one call: one that boto3 sends again knows its own row by it.
    """
    place = place_key(place_of(activity))
    item: dict[str, AttributeValueTypeDef] = {
        "pk": {"S": rows_partition(activity.account, month_of(place))},
        "sk": {"S": place},
        "type": {"S": activity.type},
        WRITER: {"S": call},
    }
    if activity.report_id is not None:
        item["report_id"] = {"S": activity.report_id}
    if isinstance(activity.payload, Pointer):
        item |= {"pointer": {"S": activity.payload.key}, "size": {"N": str(activity.payload.size)}}
    else:
        item["envelope"] = {"S": unsealed(activity.payload)}
    return item


def row_from(item: "Item") -> Activity:
    """Read a row.

    Raises:
        CorruptHistory: the item is not one that `row_item` writes.
    """
    stored: Mapping[str, Any] = item
    try:
        account = stored["pk"]["S"][len("a#") : -MONTH_LENGTH - 1]
        place = place_from(stored["sk"]["S"])
        payload = (
            Sealed(stored["envelope"]["S"])
            if "envelope" in stored
            else Pointer(stored["pointer"]["S"], int(stored["size"]["N"]))
        )
        return Activity(account, *place, stored["type"]["S"], stored.get("report_id", {}).get("S"), payload)
    except (KeyError, ValueError):
        raise CorruptHistory(item.get("sk", {}).get("S", ""), "its row in the activity table cannot be read") from None


def place_from(key: str) -> Place:
    """Read a place."""
    time, _, activity_id = key.partition("#")
    return Place(datetime.fromisoformat(time).astimezone(UTC), activity_id)


def owner_item(activity: Activity) -> "Item":
    """Say whose an event is and where its row is, under the event's id alone."""
    return {
        **owner_key(activity.activity_id),
        "account": {"S": activity.account},
        "place": {"S": place_key(place_of(activity))},
    }


def owner_key(activity_id: str) -> "Item":
    """Give the key of `owner_item`."""
    return {"pk": {"S": f"i#{activity_id}"}, "sk": {"S": ONE}}


def month_item(account: str, month: str) -> "Item":
    """Say that an account has rows in a month."""
    return {"pk": {"S": f"m#{account}"}, "sk": {"S": month}}


def rows_partition(account: str, month: str) -> str:
    """Give the partition of an account's rows of a month."""
    return f"a#{account}#{month}"


def months_query(table: str, query: ActivityQuery, beyond: str | None) -> dict[str, Any] | None:
    """Ask for the months of a query that hold rows, in its order; None where there can be none.

    Args:
        table: its name.
        query: whose window is kept to.
        beyond: a month that was looked through already; None: from the start.
    """
    low = month_of(format_time(query.earliest)) if query.earliest else "0000-00"
    high = month_of(format_time(query.latest)) if query.latest else "9999-99"
    if beyond is not None:
        low, high = (
            (low, min(high, neighbour(beyond, -1))) if query.descending else (max(low, neighbour(beyond, 1)), high)
        )
    if low > high:
        return None
    return _between(table, f"m#{query.account}", low, high, descending=query.descending)


def rows_query(table: str, query: ActivityQuery, month: str, after: str | None) -> dict[str, Any] | None:
    """Ask for a query's rows of a month; None where there can be none.

    Sort keys are `<time>#<id>`, so `<time>` comes before all keys of that time and `<time>$` after them.

    Args:
        table: its name.
        query: whose window and filters are kept to.
        month: the partition.
        after: the place where to go on; None: from the start.
    """
    low = format_time(query.earliest) if query.earliest else "0"
    high = format_time(query.latest) + "$" if query.latest else "9"
    if after is not None:
        low, high = (
            (low, min(high, neighbour(after, -1))) if query.descending else (max(low, neighbour(after, 1)), high)
        )
    if low > high:
        return None
    request = _between(table, rows_partition(query.account, month), low, high, descending=query.descending)
    filters = {"type": query.type, "report_id": query.report_id}
    wanted = {name: text for name, text in filters.items() if text is not None}
    if wanted:
        request["FilterExpression"] = " AND ".join(f"#{name} = :{name}" for name in wanted)
        request["ExpressionAttributeNames"] = {f"#{name}": name for name in wanted}
        request["ExpressionAttributeValues"] |= {f":{name}": {"S": text} for name, text in wanted.items()}
    return request


def neighbour(key: str, step: int) -> str:
    """Give the text right before or after a key, among texts of its length over 0-9 and a-f.

    A key condition has one range, and its ends are included. Between a key and its neighbour there is no other.
    """
    return key[:-1] + chr(ord(key[-1]) + step)


def _between(table: str, partition: str, low: str, high: str, *, descending: bool) -> dict[str, Any]:
    return {
        "TableName": table,
        "KeyConditionExpression": "pk = :pk AND sk BETWEEN :low AND :high",
        "ExpressionAttributeValues": {":pk": {"S": partition}, ":low": {"S": low}, ":high": {"S": high}},
        "ScanIndexForward": not descending,
        "ConsistentRead": True,
    }
