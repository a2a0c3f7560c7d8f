"""The client of the dedup service keeps the contract of the key store, against a server over a store in memory."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from adapters.grpc.client import DedupClient
from adapters.grpc.key_store import GrpcKeyStore
from adapters.memory.key_store import MemoryKeyStore
from adapters.system.clock import SystemClock
from tests.contracts.key_store import KeyStoreContract, LetPass
from tests.entrypoints.dedup_server import served

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_loop")]


class TestGrpcKeyStore(KeyStoreContract):
    adapter = "adapters.grpc.key_store"

    @pytest.fixture
    async def store(self) -> AsyncIterator[GrpcKeyStore]:
        async with (
            served(MemoryKeyStore(SystemClock())) as server,
            DedupClient(f"127.0.0.1:{server.port}", deadline=10) as client,
        ):
            yield GrpcKeyStore(client)

    @pytest.fixture
    def let_pass(self) -> LetPass:
        return asyncio.sleep
