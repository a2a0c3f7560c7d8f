"""Fixtures that every folder of tests may use."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests import engines, redis_engines, temporal_engines

# The same examples in every run: a failure is somebody's change. INTERLOCK_TEST_EXPLORE=1 looks for new ones.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("exploring", deadline=None)
settings.load_profile("exploring" if os.environ.get("INTERLOCK_TEST_EXPLORE") else "steady")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def ministack() -> Iterator[engines.Engine]:
    """An engine with sound transactions and true FIFO queues, or the one that `AWS_ENDPOINT_URL` points at."""
    with engines.ministack() as engine:
        yield engine


@pytest.fixture(scope="session")
def moto() -> Iterator[engines.Engine]:
    """An engine for one caller at a time."""
    with engines.moto() as engine:
        yield engine


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """A server for tests that take turns, or the one that `INTERLOCK_TEST_REDIS_URL` points at."""
    with redis_engines.shared_server() as url:
        yield url


@pytest.fixture(scope="session")
def redis_cluster() -> Iterator[redis_engines.ClusterOfSix]:
    """Three primaries, each with a replica."""
    with redis_engines.cluster() as six:
        yield six


@pytest.fixture(scope="session")
def temporal_address() -> Iterator[str]:
    """A Temporal server that tests share, or the one that `INTERLOCK_TEST_TEMPORAL_ADDRESS` points at."""
    with temporal_engines.shared_address() as address:
        yield address


@pytest.fixture(scope="module")
async def one_loop(anyio_backend: str) -> str:
    """Run a module's tests in one event loop: gRPC polls for all loops at once, and stumbles over those that closed."""
    return anyio_backend
