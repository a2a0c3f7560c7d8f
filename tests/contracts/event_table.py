"""What every event table promises (ports/event_table.py). Subclass it and provide the `lake` fixture."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, ClassVar

import pytest

from adapters.zstd.object_store import compress, decompress
from domain.daily import Committed, PackedObject, Staged
from domain.errors import Invalid
from domain.event_schema import EventSchema, schema_from
from domain.intake import RawMessage, join_lines, split_lines, write_line
from domain.json_reader import write_json
from ports.event_table import EventTable

ARRIVED = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = date(2026, 1, 31)

Row = dict[str, Any]


@dataclass
class TableUnderTest:
    """A table, and a way to read all its rows, the typed columns among them under the name of the view."""

    table: EventTable
    rows: Callable[[], Awaitable[list[Row]]]


def event(id_: str, **attributes: Any) -> Row:
    return {"specversion": "1.0", "id": id_, "source": "/shop", "type": "Priced", **attributes}


def message(number: int, body: object, arrived_at: datetime = ARRIVED) -> RawMessage:
    text = body if isinstance(body, str) else write_json(body)
    return RawMessage(f"m{number}", arrived_at, 1, text)


def packed(name: str, *messages: RawMessage) -> PackedObject:
    return PackedObject(name, compress(join_lines(write_line(one) for one in messages)))


def declared(*columns: Row, **more: Any) -> EventSchema:
    return schema_from({"type": "Priced", "columns": list(columns), **more})


async def load(table: EventTable, *objects: PackedObject, size: int = 0) -> tuple[Staged, Committed]:
    async with table.load(size) as into:
        staged = await into.stage(objects)
        return staged, await into.commit()


class EventTableContract:
    """One class of tests an adapter.

    Attributes:
        adapter: the module under test.
    """

    adapter: ClassVar[str]

    async def test_r506_rows_hold_the_whole_event(self, lake: TableUnderTest) -> None:
        whole = event(
            "e1",
            subject="sku-1",
            time="2026-01-30T23:59:59.999999+01:00",
            datacontenttype="application/json",
            dataschema="https://shop.example/priced",
            data={"é": [1, 2.5, None, "\u2028"]},
            traceparent="00-ab",
            priority=3,
        )
        _, committed = await load(lake.table, packed("a", message(1, [whole, event("e2")])))
        first, second = sorted(await lake.rows(), key=lambda row: str(row["id"]))
        assert first == {
            "source": "/shop",
            "id": "e1",
            "type": "Priced",
            "subject": "sku-1",
            "time": datetime(2026, 1, 30, 22, 59, 59, 999999, tzinfo=UTC),
            "datacontenttype": "application/json",
            "dataschema": "https://shop.example/priced",
            "data": '{"é":[1,2.5,null,"\u2028"]}',
            "extensions": '{"traceparent":"00-ab","priority":3}',
            "message_id": "m1",
            "position": 0,
            "arrived_at": ARRIVED,
        }
        assert second["time"] == ARRIVED
        assert second["position"] == 1
        assert [second[name] for name in ("subject", "data", "extensions")] == [None, None, None]
        assert committed.days == {date(2026, 1, 30): 1, DAY: 1}

    async def test_r506_counts_add_up(self, lake: TableUnderTest) -> None:
        objects = [
            packed("a", message(1, event("e1")), message(2, "{"), message(3, event("e1"))),
            packed("b", message(4, [event("e2"), event(""), event("e3")]), message(5, event("e2"))),
            PackedObject("c", b"not zstd"),
        ]
        staged, committed = await load(lake.table, *objects)
        assert (staged.messages, staged.events, staged.rejects) == (5, 7, 2)
        assert [name for name, _ in staged.damaged] == ["c"]
        assert (committed.rows, committed.duplicates) == (3, 2)
        assert staged.events == committed.rows + committed.duplicates + staged.rejects
        assert len(await lake.rows()) == 3

    async def test_an_object_that_is_damaged_anywhere_gives_no_row(self, lake: TableUnderTest) -> None:
        whole = packed("a", message(1, event("e1")), message(2, event("e2"))).packed
        flipped = whole[:20] + bytes([whole[20] ^ 1]) + whole[21:]
        no_line = compress(join_lines([write_line(message(3, event("e3"))), b"no line"]))
        damaged = [b"", b"x", whole[:-1], whole[:-8], flipped, whole + b"x", whole + whole, no_line]
        objects = [PackedObject(f"o{number}", content) for number, content in enumerate(damaged)]
        staged, committed = await load(lake.table, *objects)
        assert [name for name, _ in staged.damaged] == [name for name, _ in objects]
        assert (staged.events, committed.rows) == (0, 0)

    async def test_r506_rejects_are_kept_with_their_reasons(self, lake: TableUnderTest) -> None:
        await lake.table.register(declared({"name": "v", "type": "double"}))
        objects = [
            packed("a", message(1, event("e1", data={"v": "x"})), message(2, "{")),
            packed("b", message(3, [event("e2", data={"v": 1}), event("e3", data={"v": True})])),
        ]
        staged, committed = await load(lake.table, *objects)
        assert (staged.rejects, committed.rows) == (3, 1)
        lines = [line for kept in staged.quarantine for line in split_lines(decompress(kept.packed, kept.name))]
        assert all(name.startswith("quarantine/date=2026-01-31/") for name, _ in staged.quarantine)
        assert [b'"m1"' in lines[0], b"data.v: must be a number" in lines[0]] == [True, True]
        assert b'"m2"' in lines[1]
        assert b"[1].data.v: must be a number" in lines[2]
        again, _ = await load(lake.table, *objects)
        assert [name for name, _ in again.quarantine] == [name for name, _ in staged.quarantine]

    async def test_fc47_loading_again_changes_nothing(self, lake: TableUnderTest) -> None:
        objects = packed("a", *(message(number, event(f"e{number}")) for number in range(50)))
        _, first = await load(lake.table, objects)
        before = sorted(await lake.rows(), key=str)
        _, second = await load(lake.table, objects)
        assert (second.rows, second.duplicates, second.days) == (0, 50, {})
        assert second.version == first.version
        assert sorted(await lake.rows(), key=str) == before

    async def test_fc47_what_is_not_committed_leaves_nothing(self, lake: TableUnderTest) -> None:
        async with lake.table.load(0) as into:
            await into.stage([packed("a", message(1, event("e1")))])
        assert await lake.rows() == []

    async def test_fc47_late_events_land_in_their_own_day_once(self, lake: TableUnderTest) -> None:
        late = event("late", time="2026-01-28T10:00:00Z")
        await load(lake.table, packed("a", message(1, event("old", time="2026-01-28T09:00:00Z"))))
        _, first = await load(lake.table, packed("b", message(2, late), message(3, event("today"))))
        assert first.days == {date(2026, 1, 28): 1, DAY: 1}
        _, second = await load(lake.table, packed("c", message(4, late)))
        assert (second.rows, second.duplicates) == (0, 1)
        assert sorted(str(row["id"]) for row in await lake.rows()) == ["late", "old", "today"]

    async def test_r506_the_first_copy_stays(self, lake: TableUnderTest) -> None:
        def copy(number: int, second: int) -> RawMessage:
            return message(number, event("e1", data=number), ARRIVED.replace(second=second))

        await load(lake.table, packed("a", copy(1, 9)), packed("b", copy(2, 5)), packed("c", copy(3, 7)))
        assert [row["data"] for row in await lake.rows()] == ["2"]
        await load(lake.table, packed("d", copy(4, 1)))
        assert [row["data"] for row in await lake.rows()] == ["2"]

    async def test_r506_one_event_sent_again_across_midnight_is_one_row(self, lake: TableUnderTest) -> None:
        first = message(1, event("e1"), datetime(2026, 1, 30, 23, 59, 59, tzinfo=UTC))
        again = message(2, event("e1"), datetime(2026, 1, 31, 0, 0, 1, tzinfo=UTC))
        await load(lake.table, packed("a", first))
        _, committed = await load(lake.table, packed("b", again))
        assert (committed.rows, committed.duplicates) == (0, 1)

    async def test_r506_sources_are_kept_apart(self, lake: TableUnderTest) -> None:
        pairs = [("/a", "b"), ("/a/b", ""), ("/a", "b\u00a0"), ("/b", "b"), ("/a", "B")]
        events = [event(id_ or "x", source=source) for source, id_ in pairs]
        _, committed = await load(lake.table, packed("a", message(1, events)))
        assert committed.rows == 5

    async def test_fc46_columns_keep_the_type_that_was_declared(self, lake: TableUnderTest) -> None:
        await lake.table.register(
            declared({"name": "v", "type": "double"}, {"name": "id_upper", "type": "long", "field": "Id"})
        )
        days: list[Row] = [{"v": 1.5}, {"v": 2}, {"v": None}, {"v": "x"}]
        for number, data in enumerate(days, 1):
            await load(
                lake.table,
                packed("a", message(number, event(f"e{number}", time=f"2026-01-0{number}T00:00:00Z", data=data))),
            )
        await lake.table.register(
            declared(
                {"name": "v", "type": "double"},
                {"name": "s", "type": {"struct": [{"name": "a", "type": "long"}, {"name": "z", "type": "long"}]}},
                {"name": "id_upper", "type": "long", "field": "Id"},
                {"name": "id_lower", "type": "string", "field": "id"},
            )
        )
        day5 = event("e5", time="2026-01-05T00:00:00Z", data={"v": 5, "Id": 1, "id": "one", "s": {"a": 1, "z": 2}})
        await load(lake.table, packed("a", message(5, day5)))
        await lake.table.register(
            declared(
                {"name": "v", "type": "double"},
                {"name": "s", "type": {"struct": [{"name": name, "type": "long"} for name in ("a", "m", "z")]}},
                {"name": "id_upper", "type": "long", "field": "Id"},
                {"name": "id_lower", "type": "string", "field": "id"},
            )
        )
        day6 = event("e6", time="2026-01-06T00:00:00Z", data={"s": {"a": 3, "m": 4, "z": 5}})
        await load(lake.table, packed("a", message(6, day6)))
        found = {row["id"]: row["priced"] for row in await lake.rows()}
        assert set(found) == {"e1", "e2", "e3", "e5", "e6"}
        assert [found[f"e{number}"]["v"] for number in (1, 2, 3, 5, 6)] == [1.5, 2.0, None, 5.0, None]
        assert found["e1"].get("s") is None
        assert found["e5"] == {"v": 5.0, "id_upper": 1, "id_lower": "one", "s": {"a": 1, "m": None, "z": 2}} or (
            found["e5"]["s"] == {"a": 1, "z": 2}
        )
        assert found["e6"]["s"] == {"a": 3, "m": 4, "z": 5}

    async def test_every_type_of_column_keeps_its_values(self, lake: TableUnderTest) -> None:
        types = ["string", "boolean", "long", "double", "date", "timestamp", "json", "decimal(38,2)", {"list": "long"}]
        columns = [{"name": f"c{number}", "type": type_} for number, type_ in enumerate(types)]
        await lake.table.register(declared(*columns))
        values = ["é", True, 2**63 - 1024, 2, "2013-01-31", "2013-01-31T10:00:00+01:00", {"a": [1]}, "1.50", [1, None]]
        data = {f"c{number}": value for number, value in enumerate(values)}
        await load(lake.table, packed("a", message(1, [event("e1", data=data), event("e2", data={}), event("e3")])))
        rows = {row["id"]: row["priced"] for row in await lake.rows()}
        assert [str(value) for value in rows["e1"].values()] == [
            "é",
            "True",
            str(2**63 - 1024),
            "2.0",
            "2013-01-31",
            "2013-01-31 09:00:00+00:00",
            '{"a":[1]}',
            "1.50",
            "[1, None]",
        ]
        assert set(rows["e2"].values()) == {None}
        assert rows["e3"] is None

    async def test_schemas_are_added_to_and_never_changed(self, lake: TableUnderTest) -> None:
        assert dict(await lake.table.schemas()) == {}
        first = await lake.table.register(declared({"name": "v", "type": "double"}))
        assert await lake.table.register(declared({"name": "v", "type": "double"})) == first
        for changed in (
            declared({"name": "v", "type": "long"}),
            declared({"name": "w", "type": "double"}),
            declared({"name": "v", "type": "double", "field": "V"}),
            declared({"name": "v", "type": "double"}, view="other"),
        ):
            with pytest.raises(Invalid):
                await lake.table.register(changed)
        with pytest.raises(Invalid, match="another event type's"):
            await lake.table.register(schema_from({"type": "Other", "view": "priced", "columns": []}))
        assert dict(await lake.table.schemas()) == {"Priced": first}

    async def test_event_types_that_were_seen_have_a_view(self, lake: TableUnderTest) -> None:
        events = [event("e1"), event("e2", type="com.acme.OrderPlaced"), event("e3", type="com-acme/order placed")]
        await load(lake.table, packed("a", message(1, events)))
        views = {type_: schema.view for type_, schema in (await lake.table.schemas()).items()}
        assert views["Priced"] == "priced"
        assert views["com-acme/order placed"] == "com_acme_order_placed"
        assert len(set(views.values())) == 3
        renamed = await lake.table.register(
            schema_from({"type": "com.acme.OrderPlaced", "view": "orders", "columns": [{"name": "v", "type": "long"}]})
        )
        assert (await lake.table.schemas())["com.acme.OrderPlaced"] == renamed

    async def test_objects_may_be_staged_side_by_side(self, lake: TableUnderTest) -> None:
        objects = [packed(f"o{number}", message(number, event(f"e{number % 6}"))) for number in range(12)]
        async with lake.table.load(0) as into:
            async with asyncio.TaskGroup() as tasks:
                staging = [tasks.create_task(into.stage([one])) for one in objects]
            committed = await into.commit()
        assert sum(task.result().events for task in staging) == 12
        assert (committed.rows, committed.duplicates) == (6, 6)
