"""The dedup service for tests: in this process over any store, or as a process of its own."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from pydantic import SecretStr

from adapters.grpc.client import DedupClient
from adapters.grpc.gen.interlock.dedup.v1 import dedup_pb2 as pb
from adapters.grpc.wire import rpc
from adapters.memory.key_store import MemoryKeyStore
from adapters.memory.metrics import MemoryMetrics
from adapters.system.clock import SystemClock
from application.dedup import DedupCache
from domain.access import Caller
from domain.dedup import Scope, make_scope
from domain.errors import Unauthenticated, Unavailable
from entrypoints.grpc.calls import Calls
from entrypoints.grpc.dedup import DedupService
from entrypoints.grpc.server import Listening, serving
from ports.access import Access
from ports.key_store import KeyStore

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0


class Served(NamedTuple):
    """A server in this process, and a channel to it."""

    port: int
    channel: grpc.aio.Channel
    metrics: MemoryMetrics
    calls: Calls

    async def ask(self, name: str, request: Message, seconds: float | None = 10, **metadata: str) -> Any:
        """Call a method of one answer."""
        method = rpc(name)
        call = self.channel.unary_unary(method.path, method.serialize, method.deserialize)
        return await call(request, timeout=seconds, metadata=tuple(metadata.items()))

    def stream(self, **metadata: str) -> Any:
        """Open a stream of checks."""
        method = rpc("CheckStream")
        open_stream = self.channel.stream_stream(method.path, method.serialize, method.deserialize)
        return open_stream(metadata=tuple(metadata.items()))


class WatchedKeys(MemoryKeyStore):
    """A store that can hang, be down, or fail as a bug does.

    Attributes:
        gate: claims wait for it.
        error: what every call raises instead.
        claims: how many were sent.
        in_work: how many wait.
        most: the most that ever waited at a time.
    """

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: BaseException | None = None
        self.claims = self.in_work = self.most = 0

    async def _enter(self) -> None:
        if self.error is not None:
            raise self.error
        self.in_work += 1
        self.most = max(self.most, self.in_work)
        try:
            await self.gate.wait()
        finally:
            self.in_work -= 1

    async def claim(self, scope: Scope, keys: Sequence[str], ttl: timedelta, /) -> list[bool]:
        self.claims += 1
        await self._enter()
        return await super().claim(scope, keys, ttl)

    async def exist(self, scope: Scope, keys: Sequence[str], /) -> list[bool]:
        await self._enter()
        return await super().exist(scope, keys)

    async def get(self, scope: Scope, key: str, /) -> bytes | None:
        await self._enter()
        return await super().get(scope, key)

    async def put(self, scope: Scope, key: str, value: bytes, ttl: timedelta, /) -> None:
        await self._enter()
        await super().put(scope, key, value, ttl)

    async def count(self, scope: Scope, /) -> int:
        await self._enter()
        return await super().count(scope)

    async def forget(self, scope: Scope, /) -> int:
        await self._enter()
        return await super().forget(scope)


async def reached(client: DedupClient) -> DedupClient:
    """Give a client once its connection stands: on a machine with no time to spare, a first try may be turned away."""
    scope = make_scope("warm-up", "run-1")
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await client.check(scope, ["a"])
            except Unavailable:
                await asyncio.sleep(0.05)
            else:
                return client


DOWN = Unavailable("a store", "connection refused")


@asynccontextmanager
async def served(
    primary: KeyStore,
    secondary: KeyStore | None = None,
    *,
    access: Access | None = None,
    deadline: float = 5.0,
    grace: float = 5.0,
    port: int = 0,
) -> AsyncIterator[Served]:
    """Serve stores in this process."""
    metrics = MemoryMetrics()
    cache = DedupCache(primary, secondary, metrics, deadline, gathers=True)
    service = DedupService(cache, metrics, timedelta(hours=24)).service
    calls = Calls(metrics, access)
    how = Listening("127.0.0.1", port, None, shared=False, max_message_bytes=4 * 1024 * 1024, grace_seconds=grace)
    channels: list[grpc.aio.Channel] = []
    try:
        async with serving(calls, [service], how) as taken:
            channels.append(grpc.aio.insecure_channel(f"127.0.0.1:{taken}"))
            yield Served(taken, channels[0], metrics, calls)
    finally:
        # It outlives the server, and lets calls end: what callers see of a stop is part of the tests.
        for channel in channels:
            await channel.close(grace=2)


def a_check(key: str = "k", *, service_code: str = "pricing", run_id: str = "run-1") -> pb.CheckIfNewRequest:
    """Give a valid question."""
    return pb.CheckIfNewRequest(service_code=service_code, run_id=run_id, key=key)


def checks(*keys: str, service_code: str = "pricing", run_id: str = "run-1") -> pb.CheckManyIfNewRequest:
    """Give a valid question about several keys."""
    return pb.CheckManyIfNewRequest(service_code=service_code, run_id=run_id, keys=keys)


async def refused(call: Any) -> grpc.aio.AioRpcError:
    """Give the error that a call ends with."""
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return error.value


def fields_at_fault(error: grpc.aio.AioRpcError) -> list[str]:
    """Give the fields that an error's google.rpc.BadRequest names."""
    for name, value in error.trailing_metadata() or ():
        if name == "grpc-status-details-bin":
            assert isinstance(value, bytes)
            status = status_pb2.Status.FromString(value)
            assert (status.code, status.message) == (error.code().value[0], error.details())
            broken = error_details_pb2.BadRequest()
            assert status.details[0].Unpack(broken)
            return [violation.field for violation in broken.field_violations]
    return []


class ServerProcess(NamedTuple):
    """A server of its own."""

    process: "subprocess.Popen[str]"
    host: str
    port: int

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"{self.host}:{self.port}"

    def stop(self) -> tuple[int, str]:
        """Send SIGTERM, and give the exit code and what it wrote since it listened."""
        self.process.terminate()
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors


@contextmanager
def server_process(
    *options: str, module: str = "entrypoints.cli.main", variables: Mapping[str, str] | None = None
) -> Iterator[ServerProcess]:
    """Run `interlock dedup serve` on a free port; it is stopped at the end, if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, "dedup", "serve", *(() if "--port" in options else ("--port", "0")), *options],
        env=environment(variables or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        line = ""
        while process.stderr is not None and (line := process.stderr.readline()):
            if found := re.search(r"listens on (\S+):(\d+)", line):
                yield ServerProcess(process, found[1], int(found[2]))
                break
        assert line, "it ended before it listened"
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
        process.communicate()


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Give our environment with these variables of Interlock and no others."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    return {**kept, **variables}


def interlock(*arguments: str, stdin: str = "", **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "entrypoints.cli.main", *arguments],
        env=environment(variables),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        cwd=ROOT,
    )


class Tokens:
    """Knows two tokens, until it forgets them."""

    def __init__(self) -> None:
        self.known = {"crawler": Caller("crawler", ["ingest"]), "admin": Caller("admin", ["view", "operate"])}

    async def identify(self, token: SecretStr, now: datetime, /) -> Caller:
        assert now.tzinfo is not None
        caller = self.known.get(token.get_secret_value())
        if caller is None:
            raise Unauthenticated(token_shown=True)
        return caller
