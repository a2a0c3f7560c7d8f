"""The client of the dedup service keeps the contract of the key store, against a server process."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from adapters.grpc.client import DedupClient
from adapters.grpc.key_store import GrpcKeyStore
from tests.contracts.key_store import KeyStoreContract, LetPass
from tests.entrypoints.dedup_server import ServerProcess, server_process

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_loop")]


class TestGrpcKeyStore(KeyStoreContract):
    adapter = "adapters.grpc.key_store"

    @pytest.fixture
    def server(self) -> Iterator[ServerProcess]:
        with server_process(variables={"INTERLOCK_DEDUP__BACKEND": "memory"}) as server:
            yield server

    @pytest.fixture
    async def store(self, server: ServerProcess) -> AsyncIterator[GrpcKeyStore]:
        async with DedupClient(server.address, deadline=10) as client:
            yield GrpcKeyStore(client)

    @pytest.fixture
    def let_pass(self) -> LetPass:
        return asyncio.sleep
