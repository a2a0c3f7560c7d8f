"""Memory, folder, S3, and any of them under zstd, keep the contract of object stores."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.filesystem.object_store import FilesystemObjectStore
from adapters.memory.object_store import MemoryObjectStore
from adapters.s3.object_store import S3ObjectStore
from adapters.zstd.object_store import ZstdObjectStore
from tests.contracts.object_store import ConcurrentObjectStoreContract, ObjectStoreContract
from tests.engines import Engine, bucket

pytestmark = pytest.mark.anyio


class TestMemory(ObjectStoreContract, ConcurrentObjectStoreContract):
    adapter = "adapters.memory.object_store"

    @pytest.fixture
    def objects(self) -> MemoryObjectStore:
        return MemoryObjectStore()


class TestFolder(ObjectStoreContract, ConcurrentObjectStoreContract):
    adapter = "adapters.filesystem.object_store"

    @pytest.fixture
    def objects(self, tmp_path: Path) -> FilesystemObjectStore:
        return FilesystemObjectStore(tmp_path / "not" / "there" / "yet")


class TestZstd(ObjectStoreContract, ConcurrentObjectStoreContract):
    adapter = "adapters.zstd.object_store"

    @pytest.fixture
    def objects(self) -> ZstdObjectStore:
        return ZstdObjectStore(MemoryObjectStore())


class TestS3(ObjectStoreContract, ConcurrentObjectStoreContract):
    adapter = "adapters.s3.object_store"

    @pytest.fixture
    def objects(self, ministack: Engine) -> Iterator[S3ObjectStore]:
        with bucket(ministack) as name:
            yield S3ObjectStore(ministack.aws, name)


class TestS3OnMoto(ObjectStoreContract):
    adapter = "adapters.s3.object_store"

    @pytest.fixture
    def objects(self, moto: Engine) -> Iterator[S3ObjectStore]:
        with bucket(moto) as name:
            yield S3ObjectStore(moto.aws, name)
