"""Messages as they come at night: good ones of every packing, copies, late ones, and broken ones of every kind."""

import base64
import gzip
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from domain.event_schema import EventSchema, schema_from
from domain.intake import RawMessage
from domain.json_reader import write_json

DAY = datetime(2026, 1, 31, tzinfo=UTC)

SCHEMAS: list[EventSchema] = [
    schema_from(
        {
            "type": "Priced",
            "columns": [
                {"name": "v", "type": "double"},
                {"name": "id_upper", "type": "long", "field": "Id"},
                {"name": "id_lower", "type": "string", "field": "id"},
                {"name": "amount", "type": "decimal(12,2)"},
                {"name": "at", "type": "timestamp"},
                {"name": "s", "type": {"struct": [{"name": "a", "type": "long"}, {"name": "b", "type": "json"}]}},
                {"name": "tags", "type": {"list": "string"}},
            ],
        }
    ),
    schema_from({"type": "Sold", "view": "sales", "columns": [{"name": "on_day", "type": "date", "field": "day"}]}),
]

_VALUES: list[Any] = [1.5, 2, None, "x", True, [1], {"a": 1}, -0.0, 1e300, 2**53, 2**70, "", "é\u2028😀", "2026-01-31"]
_TIMES = [
    None,
    "2026-01-31T10:00:00Z",
    "2026-01-31T23:59:59.999999Z",
    "2026-02-01T00:30:00+01:00",
    "2026-01-28T12:00:00.1234567Z",
    "2025-11-30T00:00:00Z",
    "yesterday",
    "2026-02-30T00:00:00Z",
    "1969-12-31T23:59:59Z",
    "2026-03-01T00:00:00Z",
    "2026-01-31T23:59:60Z",
    1769860800,
    "2026-01-31T10:00:00",
]
BROKEN = [
    "{",
    " ",
    "null",
    "[]",
    '"text"',
    "1",
    "{}",
    "not json",
    '{"a":1,"a":2}',
    '{"specversion":"1.0","id":"a","source":"/s","type":"T","data":NaN}',
    '{"specversion":"1.0","id":"a","source":"/s","type":"T","data":1e999}',
    '{"specversion":"1.0","id":"a","source":"/s","type":"T","data":12345678901234567890123}',
    '{"specversion":"1.0","id":"a","source":"/s","type":"T","data":"\\ud800"}',
    '{"specversion":"1.0","id":"a","source":"/s","type":"T","data":' + "[" * 70 + "]" * 70 + "}",
    '{"specversion":"0.3","id":"a","source":"/s","type":"T"}',
    '{"specversion":"1.0","id":"","source":"/s","type":"T"}',
    '{"specversion":"1.0","id":"a","source":"not a uri","type":"T"}',
    '{"specversion":"1.0","id":"a","source":"/s","type":"T","Upper":1}',
    '{"specversion":"1.0","id":"a","source":"/s","type":"T","data_base64":"*"}',
    "\ufeff{}",
    base64.b64encode(gzip.compress(b"{")).decode(),
    base64.b64encode(gzip.compress(b"{}")[:-4]).decode(),
    base64.b64encode(b"\x00\x01").decode(),
]


def event(rnd: random.Random, number: int) -> dict[str, Any]:
    """Give an event, good or not, of which the source and id come again now and then."""
    found: dict[str, Any] = {
        "specversion": "1.0",
        "id": f"e{rnd.randrange(number + 1) if rnd.random() < 0.2 else number}",
        "source": rnd.choice(["/shop", "/shop/2", "urn:x"]),
        "type": rnd.choice(["Priced", "Sold", "com.acme.Other"]),
    }
    time = rnd.choice(_TIMES[:6]) if rnd.random() < 0.9 else rnd.choice(_TIMES)
    if time is not None:
        found["time"] = time
    if rnd.random() < 0.3:
        found["subject"] = rnd.choice(["sku-1", "日本", "x" * 256, "x" * 257, "a\x01"])
    if rnd.random() < 0.8:
        keys = ["v", "Id", "id", "amount", "at", "s", "tags", "day", "more"]
        good: dict[str, Any] = {"v": 2, "Id": 7, "id": "x", "amount": "1.5", "at": "2026-01-31T10:00:00Z"}
        good |= {"s": {"a": 1, "b": [1, {"c": None}]}, "tags": ["a", None], "day": "2026-01-31", "more": 0.1}
        wild = rnd.random() < 0.2
        found["data"] = {key: rnd.choice(_VALUES) if wild else good[key] for key in rnd.sample(keys, rnd.randrange(9))}
    elif rnd.random() < 0.3:
        found["data"] = rnd.choice(_VALUES)
    if rnd.random() < 0.1:
        found[rnd.choice(["traceparent", "partitionkey"])] = rnd.choice(_VALUES)
    return found


def messages(count: int, seed: int = 1) -> Iterator[RawMessage]:
    """Give messages that hold about `count` events."""
    rnd = random.Random(seed)
    number = made = 0
    while made < count:
        size = 1 if rnd.random() < 0.9 else rnd.randrange(1, 20)
        events = [event(rnd, made + offset) for offset in range(size)]
        text = rnd.choice(BROKEN) if rnd.random() < 0.05 else write_json(events if size > 1 else events[0])
        packing = rnd.random()
        if packing < 0.1:
            text = base64.b64encode(text.encode()).decode()
        elif packing < 0.2:
            text = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
        arrived_at = DAY + timedelta(microseconds=rnd.randrange(86_400_000_000))
        yield RawMessage(f"m{number}", arrived_at, rnd.randrange(1, 6), text)
        made += size
        number += 1
