"""Bytes that are no message, and messages with fields that nobody knows."""

from typing import Any

import grpc
import pytest

from adapters.grpc.gen.interlock.dedup.v1 import dedup_pb2 as pb
from adapters.grpc.wire import rpc
from tests.entrypoints.dedup_server import WatchedKeys, a_check, checks, fields_at_fault, refused, served

pytestmark = pytest.mark.anyio

NO_MESSAGES = (b"\xff\xff\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x02\xff\xfe", b"\x08")
"""A broken tag, a field longer than the rest, text that is no UTF-8, and a number that is missing."""


@pytest.mark.parametrize("raw", NO_MESSAGES)
async def test_bytes_that_are_no_message_are_the_callers_mistake(raw: bytes) -> None:
    store = WatchedKeys()
    async with served(store) as server:
        for method in ("CheckIfNew", "CheckManyIfNew", "Get", "Set", "Exists", "RunStats", "ForgetRun"):
            call: Any = server.channel.unary_unary(rpc(method).path)
            error = await refused(call(raw, timeout=10))
            assert (error.code(), fields_at_fault(error)) == (grpc.StatusCode.INVALID_ARGUMENT, ["message"]), method
        assert (await server.ask("CheckIfNew", a_check())).is_new


async def test_bytes_that_are_no_message_end_a_stream_after_the_answers_before_them() -> None:
    async with served(WatchedKeys()) as server:
        stream: Any = server.channel.stream_stream(rpc("CheckStream").path)()
        await stream.write(checks("a").SerializeToString())
        await stream.write(NO_MESSAGES[0])
        assert list(pb.CheckManyIfNewResponse.FromString(await stream.read()).is_new) == [True]
        error = await refused(stream.read())
        assert (error.code(), fields_at_fault(error)) == (grpc.StatusCode.INVALID_ARGUMENT, ["message"])


async def test_fields_of_a_newer_client_are_passed_over() -> None:
    async with served(WatchedKeys()) as server:
        raw = a_check().SerializeToString() + b"\xf2\x06\x03new"
        call: Any = server.channel.unary_unary(rpc("CheckIfNew").path)
        answer = await call(raw, timeout=10)
        assert pb.CheckIfNewResponse.FromString(answer).is_new
