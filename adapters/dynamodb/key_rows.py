"""The rows of the key store and the requests that write them, with the truth table of each condition.

| attribute | type | holds |
|---|---|---|
| `pk` | text | digest of the scope, `#`, first hex digit of the hash |
| `sk` | binary | hash of the key |
| `until` | number | when the claim ends; absent where the key only has a value |
| `claimed_by` | text | who claimed it: a name made for one call |
| `value`, `value_until` | binary, number | the value and when it ends |
| `ends` | number | the later of the two ends: from then on the row does not answer |
| `ttl` | number | `ends` in whole seconds, rounded up, for DynamoDB to delete the row some time later |

Times are microseconds since 1970.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from adapters.dynamodb.tables import TTL
from domain.dedup import Scope, scope_digest

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import PutTypeDef, UpdateTypeDef

SHARDS: Final = "0123456789abcdef"
_MILLION: Final = 1_000_000
_NAMES: Final = {"#until": "until", "#ends": "ends", "#ttl": TTL}

Key = Mapping[str, Any]


class Row(NamedTuple):
    """What a row says. Absent numbers are 0, as what ended long ago; an absent value is None."""

    until: int
    ends: int
    claimed_by: str
    value: bytes | None
    value_until: int


def row_from(item: Mapping[str, Any] | None) -> Row:
    """Read a row; where there is none, give one that has ended."""
    found = item or {}
    return Row(
        _number(found, "until"),
        _number(found, "ends"),
        found.get("claimed_by", {}).get("S", ""),
        found.get("value", {}).get("B"),
        _number(found, "value_until"),
    )


def partition(scope: Scope, shard: str) -> Key:
    """Give the partition key of a shard: many keys belong to one run, so each run is spread over sixteen."""
    return {"S": f"{scope_digest(scope)}#{shard}"}


def row_key(scope: Scope, hashed: bytes) -> Key:
    """Give the key of a row."""
    return {"pk": partition(scope, SHARDS[hashed[0] >> 4]), "sk": {"B": hashed}}


def claim_row(table: str, key: Key, token: str, until: int, now: int) -> "PutTypeDef":
    """Write the row of a new key, in place of one that has ended."""
    return _put_over_ended(table, {**key, "until": _n(until), "claimed_by": {"S": token}, **_ends(until)}, now)


def value_row(table: str, key: Key, value: bytes, value_until: int, now: int) -> "PutTypeDef":
    """Write the row of a key that only has a value, in place of one that has ended."""
    return _put_over_ended(
        table, {**key, "value": {"B": value}, "value_until": _n(value_until), **_ends(value_until)}, now
    )


def extend_row(table: str, key: Key, row: Row, until: int) -> "UpdateTypeDef":
    """Let a known key be remembered longer, or at all where it only has a value.

    | `ends` | `until` | `#ends = :seen AND (attribute_not_exists(#until) OR #until < :until)` | write |
    |---|---|---|---|
    | no row, or as nobody saw it | any | false | refused: look again |
    | as it was seen | absent | true | happens |
    | as it was seen | earlier | true | happens |
    | as it was seen | as late, or later | false | refused: there is nothing left to do |
    """
    return {
        "TableName": table,
        "Key": key,
        "UpdateExpression": "SET #until = :until, #ends = :ends, #ttl = :ttl",
        "ConditionExpression": "#ends = :seen AND (attribute_not_exists(#until) OR #until < :until)",
        "ExpressionAttributeNames": _NAMES,
        "ExpressionAttributeValues": {
            ":until": _n(until),
            ":seen": _n(row.ends),
            **_ends(max(until, row.ends), ":"),
        },
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def revalue_row(table: str, key: Key, row: Row, value: bytes, value_until: int) -> "UpdateTypeDef":
    """Give a value to a row that answers, beside its claim.

    | `until` | condition | write |
    |---|---|---|
    | as it was seen, or absent as it was seen | true | happens |
    | any other | false | refused: look again, as `ends` follows from it |
    """
    return {
        "TableName": table,
        "Key": key,
        "UpdateExpression": "SET #value = :value, #value_until = :value_until, #ends = :ends, #ttl = :ttl",
        "ConditionExpression": "#until = :until"
        if row.until
        else "attribute_exists(pk) AND attribute_not_exists(#until)",
        "ExpressionAttributeNames": {**_NAMES, "#value": "value", "#value_until": "value_until"},
        "ExpressionAttributeValues": {
            ":value": {"B": value},
            ":value_until": _n(value_until),
            **({":until": _n(row.until)} if row.until else {}),
            **_ends(max(value_until, row.until), ":"),
        },
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def _put_over_ended(table: str, item: Mapping[str, Any], now: int) -> "PutTypeDef":
    """Write a row where none answers; what is stored comes back where one does.

    | stored | `attribute_not_exists(pk) OR #ends <= :now` | write |
    |---|---|---|
    | nothing | true | happens |
    | a row that has ended, not deleted yet | true | happens: all of the old row is gone |
    | a row that has not ended | false | refused |
    """
    return {
        "TableName": table,
        "Item": item,
        "ConditionExpression": "attribute_not_exists(pk) OR #ends <= :now",
        "ExpressionAttributeNames": {"#ends": "ends"},
        "ExpressionAttributeValues": {":now": _n(now)},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def _ends(moment: int, mark: str = "") -> dict[str, Any]:
    """Write both forms of a row's end."""
    return {f"{mark}ends": _n(moment), f"{mark}{TTL}": _n(-(-moment // _MILLION))}


def _n(number: int) -> dict[str, str]:
    return {"N": str(number)}


def _number(item: Mapping[str, Any], name: str) -> int:
    return int(item.get(name, {}).get("N", 0))
