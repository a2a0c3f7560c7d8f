"""CONTRACTS § 3: the skip list over gRPC, in this process and in the dedup service's own server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from pydantic import SecretStr

from adapters.grpc.gen.interlock.settings.v1 import skip_list_pb2 as pb
from adapters.memory.clock import ManualClock
from adapters.memory.metrics import MemoryMetrics
from adapters.memory.skip_list_store import MemorySkipListStore
from application.skip_list import SkipListReader
from domain.access import Caller
from domain.errors import PartlyDone, Unauthenticated
from domain.skip_list import SkipEntry
from entrypoints.grpc.calls import Calls
from entrypoints.grpc.server import Listening, serving
from entrypoints.grpc.skip_list import SkipListService
from ports.access import Access
from tests.entrypoints.dedup_server import fields_at_fault, interlock, server_process
from tests.examples import START

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_loop")]

DAILY = "ReportRunCompletedEvent"
SERVICE = pb.DESCRIPTOR.services_by_name["SkipList"]


class Client:
    """A channel to a server."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    async def ask(self, name: str, request: Message, token: str = "", seconds: float = 20) -> Any:
        method = SERVICE.methods_by_name[name]
        call = self._channel.unary_unary(
            f"/{SERVICE.full_name}/{name}",
            cast("Any", GetMessageClass(method.input_type)).SerializeToString,
            cast("Any", GetMessageClass(method.output_type)).FromString,
        )
        shown = (("authorization", f"Bearer {token}"),) if token else ()
        return await call(request, timeout=seconds, metadata=shown)


@asynccontextmanager
async def serve(store: MemorySkipListStore, access: Access | None = None) -> AsyncIterator[Client]:
    calls = Calls(MemoryMetrics(), access)
    how = Listening("127.0.0.1", 0, None, shared=False, max_message_bytes=4 * 1024 * 1024, grace_seconds=5)
    async with (
        serving(calls, [SkipListService(lambda: store, ManualClock(START)).service], how) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        yield Client(channel)


def add(*report_ids: str, event_type: str = DAILY, reason: str = "bad source") -> pb.AddReportsRequest:
    return pb.AddReportsRequest(event_type=event_type, report_ids=report_ids, reason=reason)


def test_the_messages_are_those_of_the_contract() -> None:
    kinds = {
        FieldDescriptor.TYPE_STRING: "string",
        FieldDescriptor.TYPE_INT64: "int64",
        FieldDescriptor.TYPE_INT32: "int32",
    }
    told = {
        message.name: {
            field.name: (
                field.number,
                "repeated " * field.is_repeated
                + (field.message_type.name if field.message_type else kinds[field.type]),
            )
            for field in message.fields
        }
        for message in pb.DESCRIPTOR.message_types_by_name.values()
    }
    assert SERVICE.full_name == "interlock.settings.v1.SkipList"
    assert told == {
        "AddReportsRequest": {
            "event_type": (1, "string"),
            "report_ids": (2, "repeated string"),
            "reason": (3, "string"),
        },
        "AddReportsResponse": {"added": (1, "int64"), "already_listed": (2, "int64")},
        "RemoveReportsRequest": {"event_type": (1, "string"), "report_ids": (2, "repeated string")},
        "RemoveReportsResponse": {"removed": (1, "int64"), "not_listed": (2, "int64")},
        "ListReportsRequest": {"event_type": (1, "string"), "page_size": (2, "int32"), "page_token": (3, "string")},
        "ListReportsResponse": {"reports": (1, "repeated Report"), "next_page_token": (2, "string")},
        "Report": {
            "report_id": (1, "string"),
            "event_type": (2, "string"),
            "reason": (3, "string"),
            "added_at": (4, "Timestamp"),
        },
    }


async def test_r307_bulk_add_list_and_remove() -> None:
    async with serve(MemorySkipListStore()) as client:
        added = await client.ask("AddReports", add("R1", " R1 ", "R2", "R3"))
        assert (added.added, added.already_listed) == (3, 1)
        everywhere = await client.ask("AddReports", add("R1", event_type=""))
        assert (everywhere.added, everywhere.already_listed) == (1, 0)
        first = await client.ask("ListReports", pb.ListReportsRequest(event_type=DAILY, page_size=2))
        request = pb.ListReportsRequest(event_type=DAILY, page_size=2, page_token=first.next_page_token)
        second = await client.ask("ListReports", request)
        assert [report.report_id for page in (first, second) for report in page.reports] == ["R1", "R2", "R3"]
        assert second.next_page_token == ""
        report = first.reports[0]
        assert (report.event_type, report.reason) == (DAILY, "bad source")
        assert report.added_at.ToDatetime(tzinfo=UTC) == START
        removed = await client.ask("RemoveReports", pb.RemoveReportsRequest(event_type=DAILY, report_ids=["R1", "R9"]))
        assert (removed.removed, removed.not_listed) == (1, 1)
        everything = await client.ask("ListReports", pb.ListReportsRequest())
        assert [(report.event_type, report.report_id) for report in everything.reports] == [
            ("", "R1"),
            (DAILY, "R2"),
            (DAILY, "R3"),
        ]


async def test_r307_ten_thousand_ids_go_in_one_call() -> None:
    store = MemorySkipListStore()
    names = [f"R{number}" for number in range(10_000)]
    async with serve(store) as client:
        assert (await client.ask("AddReports", add(*names))).added == 10_000
        assert (await client.ask("AddReports", add(*names))).already_listed == 10_000
        removed = await client.ask("RemoveReports", pb.RemoveReportsRequest(event_type=DAILY, report_ids=names))
    assert removed.removed == 10_000
    assert await store.everything() == []


@pytest.mark.parametrize(
    ("name", "request_", "field"),
    [
        ("AddReports", add(), "report_ids"),
        ("AddReports", add(*["R"] * 10_001), "report_ids"),
        ("AddReports", add("R1", " "), "report_ids[1]"),
        ("AddReports", add("R1", event_type="T" * 129), "event_type"),
        ("AddReports", add("R1", reason="x" * 501), "reason"),
        ("RemoveReports", pb.RemoveReportsRequest(), "report_ids"),
        ("RemoveReports", pb.RemoveReportsRequest(report_ids=["x" * 257]), "report_ids[0]"),
        ("ListReports", pb.ListReportsRequest(page_size=-1), "page_size"),
        ("ListReports", pb.ListReportsRequest(page_token="x"), "page_token"),
        ("ListReports", pb.ListReportsRequest(event_type="a\nb"), "event_type"),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_a_bad_argument_is_named(name: str, request_: Message, field: str) -> None:
    async with serve(MemorySkipListStore()) as client:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await client.ask(name, request_)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert fields_at_fault(caught.value) == [field]


async def test_fc24_an_edit_done_in_part_says_what_failed_and_may_be_repeated() -> None:
    class Half(MemorySkipListStore):
        failing = True

        async def add(self, entries: Any, /) -> int:
            if not self.failing:
                return await super().add(entries)
            await super().add(entries[:1])
            raise PartlyDone("DynamoDB", 1, tuple(entry.key.report_id for entry in entries[1:]), "throttled")

    store = Half()
    async with serve(store) as client:
        with pytest.raises(grpc.aio.AioRpcError, match=r"did 1 and left 2 undone \('R2', 'R3'\)") as caught:
            await client.ask("AddReports", add("R1", "R2", "R3"))
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        store.failing = False
        again = await client.ask("AddReports", add("R1", "R2", "R3"))
    assert (again.added, again.already_listed) == (2, 1)


async def test_a_store_that_hangs_is_unavailable_before_the_caller_gives_up() -> None:
    class Hanging(MemorySkipListStore):
        async def add(self, entries: Any, /) -> int:
            await asyncio.sleep(60)
            return await super().add(entries)

    async with serve(Hanging()) as client:
        with pytest.raises(grpc.aio.AioRpcError, match="no answer in time") as caught:
            await client.ask("AddReports", add("R1"), seconds=1)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


class Tokens:
    """Judges two tokens."""

    async def identify(self, token: SecretStr, now: datetime) -> Caller:
        del now
        if token.get_secret_value() == "viewer":
            return Caller("ada", frozenset({"view"}))
        if token.get_secret_value() == "operator":
            return Caller("bob", frozenset({"view", "operate"}))
        raise Unauthenticated(token_shown=True)


async def test_edits_need_operate_and_reading_needs_view() -> None:
    store = MemorySkipListStore()
    remove = pb.RemoveReportsRequest(report_ids=["R1"])
    async with serve(store, Tokens()) as client:
        for token, name, request, code in (
            ("", "ListReports", pb.ListReportsRequest(), grpc.StatusCode.UNAUTHENTICATED),
            ("x", "ListReports", pb.ListReportsRequest(), grpc.StatusCode.UNAUTHENTICATED),
            ("viewer", "AddReports", add("R1"), grpc.StatusCode.PERMISSION_DENIED),
            ("viewer", "RemoveReports", remove, grpc.StatusCode.PERMISSION_DENIED),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await client.ask(name, request, token)
            assert caught.value.code() is code
        await client.ask("AddReports", add("R1"), "operator")
        assert len((await client.ask("ListReports", pb.ListReportsRequest(), "viewer")).reports) == 1


async def test_r307_one_server_serves_both_and_the_command_line_sees_the_same_list(tmp_path: Path) -> None:
    variables = {"INTERLOCK_DATA_DIR": str(tmp_path)}
    with server_process(variables=variables) as server:
        assert not (tmp_path / "skip-list.db").exists(), "a server that nobody asks opens nothing"
        with grpc.insecure_channel(server.address) as channel:
            listed = ProtoReflectionDescriptorDatabase(channel).get_services()
        assert {"interlock.dedup.v1.DedupCache", "interlock.settings.v1.SkipList"} <= set(listed)
        async with grpc.aio.insecure_channel(server.address) as channel:
            client = Client(channel)
            assert (await client.ask("AddReports", add("R1", "R2"))).added == 2
            run = await asyncio.to_thread(interlock, "skiplist", "list", **variables)
            assert [line.split("\t")[:3] for line in run.stdout.splitlines()[1:]] == [
                ["R1", DAILY, "bad source"],
                ["R2", DAILY, "bad source"],
            ]
            removed = await asyncio.to_thread(interlock, "skiplist", "remove", "R1", "--type", DAILY, **variables)
            assert removed.stdout == "removed 1, not listed 0\n"
            left = await client.ask("ListReports", pb.ListReportsRequest())
            assert [report.report_id for report in left.reports] == ["R2"]
        code, errors = server.stop()
    assert (code, errors.strip()) == (0, "stopped; nothing is in hand")


async def test_r307_the_router_knows_ten_thousand_ids_within_its_cache_time_and_forgets_them_again() -> None:
    store, clock = MemorySkipListStore(), ManualClock(START)
    reader = SkipListReader(store, clock, MemoryMetrics())
    names = [f"R{number}" for number in range(10_000)]

    async def skipped() -> int:
        return sum([await reader.reason(DAILY, name) is not None for name in names])

    assert await skipped() == 0
    async with serve(store) as client:
        await client.ask("AddReports", add(*names))
        clock.advance(15)
        assert await skipped() == 10_000
        await client.ask("RemoveReports", pb.RemoveReportsRequest(event_type=DAILY, report_ids=names))
        clock.advance(15)
        assert await skipped() == 0


async def test_what_the_service_lists_is_what_the_store_holds() -> None:
    store = MemorySkipListStore()
    async with serve(store) as client:
        await client.ask("AddReports", add("R1", reason=""))
    (entry,) = await store.everything()
    assert isinstance(entry, SkipEntry)
    assert (entry.reason, entry.added_at) == ("", START)
