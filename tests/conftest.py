"""Fixtures that every folder of tests may use."""

from collections.abc import Iterator

import pytest

from tests import engines


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
