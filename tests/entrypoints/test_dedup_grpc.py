"""CONTRACTS § 2: the service over gRPC, in this process, over stores that a test may hold up or break."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from itertools import count
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from structlog.testing import capture_logs

from adapters.grpc.gen.interlock.dedup.v1 import dedup_pb2 as pb
from adapters.grpc.wire import rpc
from application import dedup
from entrypoints.grpc import dedup as service
from tests.entrypoints.dedup_server import (
    DOWN,
    Served,
    Tokens,
    WatchedKeys,
    a_check,
    checks,
    fields_at_fault,
    refused,
    served,
)
from tests.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_loop")]

NO_METADATA: dict[str, str] = {}
SCOPE: dict[str, Any] = {"service_code": "pricing", "run_id": "run-1"}
MESSAGES: dict[str, Callable[..., Any]] = {
    "CheckIfNew": lambda **more: pb.CheckIfNewRequest(**({**SCOPE, "key": "k"} | more)),
    "CheckManyIfNew": lambda **more: pb.CheckManyIfNewRequest(**({**SCOPE, "keys": ["k"]} | more)),
    "Get": lambda **more: pb.GetRequest(**({**SCOPE, "key": "k"} | more)),
    "Set": lambda **more: pb.SetRequest(**({**SCOPE, "key": "k", "value": b"v"} | more)),
    "Exists": lambda **more: pb.ExistsRequest(**({**SCOPE, "key": "k"} | more)),
    "RunStats": lambda **more: pb.RunStatsRequest(**(SCOPE | more)),
    "ForgetRun": lambda **more: pb.ForgetRunRequest(**(SCOPE | more)),
}
KEYED = ("CheckIfNew", "Get", "Set", "Exists")
SPANNED = ("CheckIfNew", "CheckManyIfNew", "Set")
BAD_CODES = ("", "Pricing", "-pricing", ".x", "a b", "long:", "long:-a", "LONG:a", "short:a", "é", "a" * 64, "a\n")
BAD_SPANS = (
    Duration(),
    Duration(seconds=-1),
    Duration(nanos=-1),
    Duration(seconds=2_592_000, nanos=1),
    Duration(seconds=2_592_001),
    Duration(seconds=315_576_000_000),
    Duration(seconds=1, nanos=-1),
)
BROKEN: list[tuple[str, Mapping[str, object], str]] = [
    *((name, {"service_code": code}, "service_code") for name in MESSAGES for code in BAD_CODES),
    *((name, {"run_id": run_id}, "run_id") for name in MESSAGES for run_id in ("", "x" * 129)),
    *((name, {"key": key}, "key") for name in KEYED for key in ("", "x" * 65_537, "é" * 32_769)),
    *((name, {"ttl": span}, "ttl") for name in SPANNED for span in BAD_SPANS),
    ("CheckManyIfNew", {"keys": []}, "keys"),
    ("CheckManyIfNew", {"keys": ["k"] * 10_001}, "keys"),
    ("CheckManyIfNew", {"keys": ["a", "", "b"]}, "keys[1]"),
    ("CheckManyIfNew", {"keys": ["a", "b", "x" * 65_537]}, "keys[2]"),
    ("Set", {"value": b"x" * 307_201}, "value"),
]
LEGAL: list[tuple[str, Mapping[str, object]]] = [
    *((name, {"service_code": code}) for name in MESSAGES for code in ("a", "0", "long:a", "a._-", "a" * 63)),
    *((name, {"run_id": run_id}) for name in MESSAGES for run_id in ("x" * 128, "日本\x00 😀", "😀" * 128)),
    *((name, {"key": key}) for name in KEYED for key in ("x" * 65_536, "é" * 32_768, "\x00")),
    *((name, {"ttl": span}) for name in SPANNED for span in (Duration(nanos=1), Duration(seconds=2_592_000))),
    ("CheckManyIfNew", {"keys": [str(number) for number in range(10_000)]}),
    ("Set", {"value": b"x" * 307_200}),
]


@pytest.fixture
def store() -> WatchedKeys:
    return WatchedKeys()


@pytest.fixture
async def server(store: WatchedKeys) -> AsyncIterator[Served]:
    async with served(store) as server:
        yield server


async def test_bad_arguments_each_rule_broken_one_by_one(server: Served, store: WatchedKeys) -> None:
    for name, change, field in BROKEN:
        error = await refused(server.ask(name, MESSAGES[name](**change)))
        assert (error.code(), fields_at_fault(error)) == (grpc.StatusCode.INVALID_ARGUMENT, [field]), (name, change)
    assert store.claims == 0


async def test_what_is_just_legal_is_taken(server: Served) -> None:
    for name, change in LEGAL:
        await server.ask(name, MESSAGES[name](**change))


async def test_r201_r202_r209_the_calls_do_what_the_contract_says(server: Served) -> None:
    assert (await server.ask("CheckIfNew", a_check("a"))) == pb.CheckIfNewResponse(is_new=True)
    assert (await server.ask("CheckIfNew", a_check("a"))) == pb.CheckIfNewResponse()
    many = await server.ask("CheckManyIfNew", checks("a", "b", "b"))
    assert many == pb.CheckManyIfNewResponse(is_new=[False, True, False])
    assert (await server.ask("Exists", MESSAGES["Exists"](key="a"))) == pb.ExistsResponse(exists=True)
    assert (await server.ask("Exists", MESSAGES["Exists"](key="z"))) == pb.ExistsResponse()
    assert (await server.ask("Get", MESSAGES["Get"](key="a"))) == pb.GetResponse(found=True)
    assert (await server.ask("Get", MESSAGES["Get"](key="z"))) == pb.GetResponse()
    assert (await server.ask("Set", MESSAGES["Set"](key="a", value=b"\x00v"))) == pb.SetResponse()
    assert (await server.ask("Get", MESSAGES["Get"](key="a"))) == pb.GetResponse(found=True, value=b"\x00v")
    assert (await server.ask("RunStats", MESSAGES["RunStats"]())) == pb.RunStatsResponse(keys=2)
    assert (await server.ask("ForgetRun", MESSAGES["ForgetRun"]())) == pb.ForgetRunResponse(forgotten=2)
    assert (await server.ask("CheckIfNew", a_check("a"))) == pb.CheckIfNewResponse(is_new=True)


async def test_fc07_look_first_and_remember_after_success(server: Served) -> None:
    """A crawler that must not lose pages looks with Exists, fetches, and tells with Set. Another run starts afresh."""
    looks = MESSAGES["Exists"](key="page")
    assert not (await server.ask("Exists", looks)).exists
    assert not (await server.ask("Exists", looks)).exists, "looking claims nothing: a failed fetch is tried again"
    await server.ask("Set", MESSAGES["Set"](key="page", value=b""))
    assert (await server.ask("Exists", looks)).exists
    assert not (await server.ask("CheckIfNew", a_check("page"))).is_new
    assert (await server.ask("CheckIfNew", a_check("page", run_id="run-2"))).is_new


async def test_r205_long_and_short_are_different_scopes(server: Served) -> None:
    for code in ("pricing", "long:pricing"):
        assert (await server.ask("CheckIfNew", a_check("a", service_code=code))).is_new


async def test_r208_fc09_a_store_that_is_down_degrades_answers(store: WatchedKeys, server: Served) -> None:
    """Apart from misses, and logged once a period."""
    with capture_logs() as logged:
        await _check_degraded_answers(store, server)
    assert [line["log_level"] for line in logged] == ["warning"]


async def _check_degraded_answers(store: WatchedKeys, server: Served) -> None:
    store.error = DOWN
    assert await server.ask("CheckIfNew", a_check()) == pb.CheckIfNewResponse(is_new=True, degraded=True)
    many = await server.ask("CheckManyIfNew", checks("a", "b"))
    assert many == pb.CheckManyIfNewResponse(is_new=[True, True], degraded=True)
    assert await server.ask("Get", MESSAGES["Get"]()) == pb.GetResponse(degraded=True)
    assert await server.ask("Exists", MESSAGES["Exists"]()) == pb.ExistsResponse(degraded=True)
    assert await server.ask("RunStats", MESSAGES["RunStats"]()) == pb.RunStatsResponse(degraded=True)
    for name in ("Set", "ForgetRun"):
        error = await refused(server.ask(name, MESSAGES[name]()))
        assert (error.code(), fields_at_fault(error)) == (grpc.StatusCode.UNAVAILABLE, [])
    assert server.metrics.total("dedup_reads_total", outcome="degraded") == 2
    assert server.metrics.total("dedup_reads_total", outcome="missing") == 0
    assert server.metrics.total("dedup_degraded_total", call="check") == 2


async def test_set_says_that_a_target_missed_it(store: WatchedKeys) -> None:
    down = WatchedKeys()
    down.error = DOWN
    async with served(store, down) as server:
        assert await server.ask("Set", MESSAGES["Set"]()) == pb.SetResponse(degraded=True)
        assert (await refused(server.ask("ForgetRun", MESSAGES["ForgetRun"]()))).code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("name", MESSAGES)
async def test_fc09_a_mistake_of_our_own_is_internal_and_tells_nothing(
    name: str, store: WatchedKeys, server: Served
) -> None:
    store.error = TypeError("secret: /srv/app/key.py")
    error = await refused(server.ask(name, MESSAGES[name]()))
    assert error.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in str(error.details())


async def test_fc11_a_cancellation_from_within_is_answered_at_once(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cancelled(*_: object) -> None:
        raise asyncio.CancelledError

    for name in ("check_if_new", "get", "put", "exist", "count", "forget"):
        monkeypatch.setattr(dedup, name, cancelled)
    async with asyncio.timeout(5):
        for name, message in MESSAGES.items():
            assert (await refused(server.ask(name, message(), seconds=60))).code() is grpc.StatusCode.INTERNAL
        stream = server.stream()
        await stream.write(checks("a"))
        assert (await refused(stream.read())).code() is grpc.StatusCode.INTERNAL


async def test_fc11_a_store_that_cancels_itself_is_a_store_that_failed(store: WatchedKeys, server: Served) -> None:
    store.error = asyncio.CancelledError()
    async with asyncio.timeout(5):
        assert (await server.ask("CheckIfNew", a_check(), seconds=60)).degraded
        assert (await server.ask("Get", MESSAGES["Get"](), seconds=60)).degraded
        assert (await refused(server.ask("Set", MESSAGES["Set"]()))).code() is grpc.StatusCode.UNAVAILABLE


async def test_fc11_stop_waits_for_the_clean_up_of_handlers() -> None:
    """The grace period is over at once, the handler is cut off, and its clean-up takes its time."""
    cleaned: list[bool] = []
    entered = asyncio.Event()

    class Slow(WatchedKeys):
        async def _enter(self) -> None:
            try:
                entered.set()
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.3)
                cleaned.append(True)

    async with served(Slow(), deadline=60, grace=0.05) as server:
        call = asyncio.create_task(server.ask("CheckIfNew", a_check(), seconds=60))
        await entered.wait()
    assert cleaned == [True]
    assert (await refused(call)).code() is grpc.StatusCode.UNAVAILABLE


async def test_calls_in_hand_finish_and_new_ones_are_refused(store: WatchedKeys) -> None:
    store.gate.clear()
    async with served(store, deadline=60) as server:
        calls = [asyncio.create_task(server.ask("CheckIfNew", a_check(str(number)))) for number in range(20)]
        await until(lambda: store.in_work == 20)
        late: list[grpc.aio.AioRpcError] = []

        async def finish() -> None:
            await until(lambda: server.calls._stopping)
            late.append(await refused(server.ask("CheckIfNew", a_check("late"), seconds=2)))
            store.gate.set()

        finishing = asyncio.create_task(finish())
    await finishing
    assert [(await call).is_new for call in calls] == [True] * 20
    assert late[0].code() is grpc.StatusCode.UNAVAILABLE
    assert store.claims == 20


async def test_the_callers_deadline_limits_the_call(store: WatchedKeys, server: Served) -> None:
    """The cache's own is 5 s; a caller with 0.5 s is told what is known before they are over."""
    store.gate.clear()
    assert await server.ask("CheckIfNew", a_check(), seconds=0.5) == pb.CheckIfNewResponse(is_new=True, degraded=True)
    await until(lambda: store.in_work == 0)


async def test_a_caller_that_goes_away_leaves_nothing_behind(store: WatchedKeys, server: Served) -> None:
    """FC-13 (5)."""
    store.gate.clear()
    call = asyncio.create_task(server.ask("CheckIfNew", a_check()))
    await until(lambda: store.in_work == 1)
    call.cancel()
    await until(lambda: store.in_work == 0)
    async with asyncio.timeout(2):
        await server.calls.drained()


async def test_health_and_reflection(store: WatchedKeys) -> None:
    name = "interlock.dedup.v1.DedupCache"
    async with served(store, grace=0.5) as server:
        stub: Any = health_pb2_grpc.HealthStub(server.channel)
        for service in ("", name):
            reply = await stub.Check(health_pb2.HealthCheckRequest(service=service))
            assert reply.status == health_pb2.HealthCheckResponse.SERVING
        assert name in await asyncio.to_thread(_reflected, server.port)
        watch: Any = stub.Watch(health_pb2.HealthCheckRequest(service=name))
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        told = asyncio.create_task(watch.read())
    assert (await told).status == health_pb2.HealthCheckResponse.NOT_SERVING


def _reflected(port: int) -> list[str]:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        file = database.FindFileContainingSymbol("interlock.dedup.v1.DedupCache")
        assert {method.name for method in file.service[0].method} == {*MESSAGES, "CheckStream"}
        return list(database.get_services())


async def test_at_a_stop_under_load_callers_are_told_unavailable() -> None:
    """Each asks again as soon as it is answered, so that there are always calls that gRPC has yet to hand out."""

    async def ask(port: int, number: int) -> grpc.StatusCode:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            method = rpc("CheckIfNew")
            ask = channel.unary_unary(method.path, method.serialize, method.deserialize)
            for turn in count():
                try:
                    await ask(a_check(f"{number}-{turn}"), timeout=10)
                except grpc.aio.AioRpcError as error:
                    return error.code()
                if turn == 5:
                    warm.append(number)
        raise AssertionError

    warm: list[int] = []
    async with served(WatchedKeys()) as server:
        asking = [asyncio.create_task(ask(server.port, number)) for number in range(20)]
        await until(lambda: len(warm) == 20)
    assert set(await asyncio.gather(*asking)) == {grpc.StatusCode.UNAVAILABLE}


async def test_every_degraded_answer_is_told_of(
    store: WatchedKeys, server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first at once, the rest when the period ends, and none afterwards."""
    monkeypatch.setattr(service, "TOLD_SECONDS", 0.3)
    store.error = DOWN
    with capture_logs() as logged:
        for number in range(12):
            await server.ask("CheckIfNew", a_check(str(number)))
        await until(lambda: len(logged) == 2)
        await asyncio.sleep(0.7)  # two periods in which another line would have been written
    assert [line["degraded_since_the_last_line"] for line in logged] == [1, 11]


async def test_tokens_open_what_their_scopes_say(store: WatchedKeys) -> None:
    operators = {"RunStats", "ForgetRun"}
    async with served(store, access=Tokens()) as server:
        for name, message in MESSAGES.items():
            for shown in (
                NO_METADATA,
                {"authorization": "crawler"},
                {"authorization": "Basic crawler"},
                {"authorization": "Bearer x"},
            ):
                assert (
                    await refused(server.ask(name, message(), 10, **shown))
                ).code() is grpc.StatusCode.UNAUTHENTICATED
            good, other = ("admin", "crawler") if name in operators else ("crawler", "admin")
            await server.ask(name, message(), authorization=f"Bearer {good}")
            await server.ask(name, message(), authorization=f"bearer {good}")
            error = await refused(server.ask(name, message(), authorization=f"Bearer {other}"))
            assert error.code() is grpc.StatusCode.PERMISSION_DENIED
        stream = server.stream(authorization="Bearer admin")
        assert (await refused(stream.read())).code() is grpc.StatusCode.PERMISSION_DENIED


async def test_r201_of_many_concurrent_callers_one_is_told_new(server: Served) -> None:
    for number in range(50):
        answers = await asyncio.gather(*(server.ask("CheckIfNew", a_check(str(number))) for _ in range(64)))
        assert sum(answer.is_new for answer in answers) == 1


async def test_nothing_is_logged_for_each_call(server: Served) -> None:
    with capture_logs() as logged:
        await server.ask("CheckIfNew", a_check())
        await refused(server.ask("CheckIfNew", a_check("")))
    assert logged == []
