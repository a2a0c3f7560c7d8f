"""Large content under fire: writers that stop half-way, folders and buckets that cannot be used (FC-33)."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adapters.filesystem.payload_store import FilePayloadStore
from adapters.s3.payload_store import S3PayloadStore
from domain.errors import Misconfigured, Unavailable
from tests.aws_faults import answering, refusal
from tests.contracts.payload_store import KEY
from tests.engines import Engine, bucket

pytestmark = pytest.mark.anyio


async def test_content_has_its_name_only_once_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is cut off before the last step leaves nothing that a reader meets, and may try again."""
    store = FilePayloadStore(tmp_path / "payloads")

    def full(descriptor: int) -> None:
        raise OSError(28, f"No space left on device {descriptor and ''}".strip())

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(Unavailable, match="No space left"):
            await store.put(KEY, b"content")
    assert await store.get(KEY) is None
    assert [path for path in (tmp_path / "payloads").rglob("*") if path.is_file()] == []
    await store.put(KEY, b"content")
    assert await store.get(KEY) == b"content"


async def test_a_folder_that_cannot_be_used_is_told_with_its_fix(tmp_path: Path) -> None:
    (tmp_path / "payloads").write_text("a file")
    store = FilePayloadStore(tmp_path / "payloads")
    with pytest.raises(Misconfigured, match="check the folder and its permissions"):
        await store.put(KEY, b"content")
    assert await store.get(KEY) is None


async def test_putting_again_writes_nothing(tmp_path: Path) -> None:
    store = FilePayloadStore(tmp_path)
    await store.put(KEY, b"content")
    before = (tmp_path / KEY).stat()
    await store.put(KEY, b"content")
    assert (tmp_path / KEY).stat() == before


@pytest.fixture
def name(ministack: Engine) -> Iterator[str]:
    with bucket(ministack) as name:
        yield name


def client_of(engine: Engine) -> Any:
    return engine.aws.s3.client()


async def test_s3_a_copy_makes_no_second_version(ministack: Engine, name: str) -> None:
    client = client_of(ministack)
    client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    store = S3PayloadStore(ministack.aws, name)
    async with asyncio.TaskGroup() as tasks:
        for _ in range(4):
            tasks.create_task(store.put(KEY, b"content"))
    versions = client.list_object_versions(Bucket=name)["Versions"]
    assert len(versions) == 1
    client.delete_object(Bucket=name, Key=KEY, VersionId=versions[0]["VersionId"])


async def test_s3_a_put_that_meets_another_is_made_again(ministack: Engine, name: str) -> None:
    """S3 answers 409 where another writer of the key is under way, who may yet fail."""
    store = S3PayloadStore(ministack.aws, name)
    with answering(client_of(ministack), "PutObject", [refusal("ConditionalRequestConflict"), None]) as sent:
        await store.put(KEY, b"content")
    assert [request["headers"].get("If-None-Match") for request in sent] == ["*", None]
    assert await store.get(KEY) == b"content"


@pytest.mark.parametrize(
    ("code", "error"), [("SlowDown", Unavailable), ("AccessDenied", Misconfigured), ("NoSuchBucket", Misconfigured)]
)
async def test_s3_other_refusals_are_told(ministack: Engine, name: str, code: str, error: type[Exception]) -> None:
    store = S3PayloadStore(ministack.aws, name)
    client = client_of(ministack)
    with answering(client, "PutObject", [refusal(code)] * 3), pytest.raises(error) as caught:
        await store.put(KEY, b"content")
    assert "secret" not in str(caught.value)
    with answering(client, "GetObject", [refusal(code)] * 3), pytest.raises(error):
        await store.get(KEY)
