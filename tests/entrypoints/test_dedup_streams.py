"""CONTRACTS § 2: streams of checks, in this process, over stores that a test may hold up or break."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Coroutine
from datetime import datetime
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from pydantic import SecretStr

from adapters.grpc.gen.interlock.dedup.v1 import dedup_pb2 as pb
from adapters.memory.metrics import MemoryMetrics
from domain.access import Caller
from entrypoints.grpc import calls
from tests.entrypoints.dedup_server import (
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


@pytest.fixture
def store() -> WatchedKeys:
    return WatchedKeys()


@pytest.fixture
async def server(store: WatchedKeys) -> AsyncIterator[Served]:
    async with served(store) as server:
        yield server


async def test_a_stream_answers_in_order_whatever_takes_longer() -> None:
    class Uneven(WatchedKeys):
        async def _enter(self) -> None:
            await asyncio.sleep(0.05 if self.claims % 2 else 0)

    async with served(Uneven()) as server:
        stream = server.stream()
        for number in range(40):
            await stream.write(checks("same", *(f"{number}-{part}" for part in range(number + 1))))
        await stream.done_writing()
        lengths = []
        seen = 0
        while (answer := await stream.read()) is not grpc.aio.EOF:
            lengths.append(len(answer.is_new))
            seen += not answer.is_new[0]
            assert all(answer.is_new[1:])
        assert lengths == [number + 2 for number in range(40)]
        assert seen == 39
        assert await stream.code() is grpc.StatusCode.OK


async def test_a_stream_takes_a_bounded_number_into_work(store: WatchedKeys, server: Served) -> None:
    store.gate.clear()
    stream = server.stream()
    sent = 0

    async def send() -> None:
        nonlocal sent
        for number in range(2000):
            await stream.write(checks(*(f"{number}-{part}-{'x' * 1000}" for part in range(20))))
            sent += 1
        await stream.done_writing()

    sending = asyncio.create_task(send())
    await until(lambda: store.in_work == calls.IN_WORK)
    await asyncio.sleep(0.5)  # time in which more would have been taken
    assert store.in_work == store.most == calls.IN_WORK
    assert sent < 2000, "the client is held back too"
    store.gate.set()
    answers = 0
    while await stream.read() is not grpc.aio.EOF:
        answers += 1
    await sending
    assert answers == 2000
    assert store.most == calls.IN_WORK


async def test_a_stream_that_is_cancelled_as_a_request_comes_begins_no_other_and_leaves_none_unawaited() -> None:
    """What is begun behind its end is claimed for nobody; what is never awaited is complained of on stderr."""
    answers: list[Coroutine[Any, Any, Message]] = []

    async def claim() -> Message:
        return pb.CheckManyIfNewResponse()

    def answer(_: Message, __: float | None) -> Awaitable[Message]:
        answers.append(claim())
        return answers[-1]

    class Leaving:
        """A call whose caller leaves in the moment in which its first request is read."""

        async def read(self) -> bytes:
            await asyncio.sleep(0)
            handling.cancel()
            return checks("k").SerializeToString()

        def time_remaining(self) -> None:
            return None

    read = pb.CheckManyIfNewRequest.FromString
    stream = calls.Calls(MemoryMetrics(), None)._stream("CheckStream", calls.Method(answer, "ingest"), read)
    handling = asyncio.ensure_future(stream(None, Leaving()))
    await asyncio.wait([handling])
    assert handling.cancelled()
    assert [inspect.getcoroutinestate(one) for one in answers] == [inspect.CORO_CLOSED]


async def test_a_bad_request_ends_a_stream_after_the_answers_before_it(server: Served) -> None:
    stream = server.stream()
    await stream.write(checks("a"))
    await stream.write(checks("a", "b"))
    await stream.write(checks("a", service_code="Bad"))
    assert [list((await stream.read()).is_new), list((await stream.read()).is_new)] == [[True], [False, True]]
    error = await refused(stream.read())
    assert (error.code(), fields_at_fault(error)) == (grpc.StatusCode.INVALID_ARGUMENT, ["service_code"])


async def test_nothing_behind_a_bad_request_of_a_stream_is_claimed(store: WatchedKeys, server: Served) -> None:
    """Nobody would be told what became of it."""
    await server.ask("CheckIfNew", a_check("warm"))
    stream = server.stream()
    store.gate.clear()
    for number in range(5):
        await stream.write(checks(f"before-{number}"))
    await stream.write(checks("x", ""))
    for number in range(5):
        await stream.write(checks(f"behind-{number}"))
    await until(lambda: store.in_work == 5)
    store.gate.set()
    assert [list((await stream.read()).is_new) for _ in range(5)] == [[True]] * 5
    assert fields_at_fault(await refused(stream.read())) == ["keys[1]"]
    assert (await server.ask("RunStats", pb.RunStatsRequest(service_code="pricing", run_id="run-1"))).keys == 6


async def test_nothing_behind_a_revoked_token_is_claimed(store: WatchedKeys, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge takes its time, so that requests wait behind the one that it is asked for."""
    gate = asyncio.Event()
    gate.set()

    class Slow(Tokens):
        async def identify(self, token: SecretStr, now: datetime, /) -> Caller:
            await gate.wait()
            return await super().identify(token, now)

    monkeypatch.setattr(calls, "JUDGED_SECONDS", 0.0)
    tokens = Slow()
    async with served(store, access=tokens) as server:
        stream = server.stream(authorization="Bearer crawler")
        await stream.write(checks("a"))
        assert list((await stream.read()).is_new) == [True]
        tokens.known.clear()
        gate.clear()
        for number in range(10):
            await stream.write(checks(f"behind-{number}"))
        gate.set()
        assert (await refused(stream.read())).code() is grpc.StatusCode.UNAUTHENTICATED
    assert store.claims == 1


async def test_stopping_ends_streams_after_what_they_have_read(store: WatchedKeys) -> None:
    store.gate.clear()
    async with served(store, deadline=60) as server:
        stream, idle = server.stream(), server.stream()
        await idle.write(checks("first", run_id="run-2"))
        await stream.write(checks("a"))
        await until(lambda: store.in_work == 2)

        async def finish() -> None:
            await until(lambda: server.calls._stopping)
            store.gate.set()

        finishing = asyncio.create_task(finish())
        reading = asyncio.create_task(stream.read())
        await asyncio.sleep(0)
    await finishing
    assert list((await reading).is_new) == [True]
    assert (await refused(stream.read())).code() is grpc.StatusCode.UNAVAILABLE


async def test_a_streams_token_is_judged_again(store: WatchedKeys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "JUDGED_SECONDS", 0.0)
    tokens = Tokens()
    async with served(store, access=tokens) as server:
        stream = server.stream(authorization="Bearer crawler")
        await stream.write(checks("a"))
        assert list((await stream.read()).is_new) == [True]
        tokens.known.clear()
        await stream.write(checks("b"))
        assert (await refused(stream.read())).code() is grpc.StatusCode.UNAUTHENTICATED
