"""Fixtures that every folder of tests may use."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests import engines

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
