"""Objects as files: kills, full disks, rights, and what is left of writers that died (adapters/filesystem)."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adapters.filesystem.object_store import ABANDONED_SECONDS, PARTS, FilesystemObjectStore
from adapters.memory.object_store import MemoryObjectStore
from adapters.zstd.object_store import ZstdObjectStore, compress
from domain.errors import Malformed, Misconfigured, Unavailable

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
WRITER = """
import asyncio, sys
from pathlib import Path
from adapters.filesystem.object_store import FilesystemObjectStore
async def write():
    objects = FilesystemObjectStore(Path(sys.argv[1]))
    number = 0
    while True:
        number += 1
        if await objects.put(f"raw/{sys.argv[2]}-{number:06}", b"%d;" % number * 100_000):
            print(number, flush=True)
asyncio.run(write())
"""


def write_and_die(folder: Path, name: str, seconds: float) -> list[str]:
    """Start a writer, kill it a moment after its third object, and give the numbers that it was answered."""
    command = [sys.executable, "-c", WRITER, str(folder), name]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        answered = [writer.stdout.readline() for _ in range(3)]
        time.sleep(seconds)
        writer.send_signal(signal.SIGKILL)
        answered += writer.stdout.readlines()
    return [line for line in answered if line.endswith("\n")]


async def test_killed_writers_leave_whole_objects_and_every_answered_one(tmp_path: Path) -> None:
    objects = FilesystemObjectStore(tmp_path)
    for turn in range(5):
        answered = write_and_die(tmp_path, f"w{turn}", 0.007 * turn)
        page = await objects.list(f"raw/w{turn}-")
        assert len(page.objects) >= len(answered) >= 3
        for one in page.objects:
            number = int(one.name.rpartition("-")[2])
            assert await objects.get(one.name) == b"%d;" % number * 100_000


async def test_what_a_dead_writer_left_is_no_object_and_goes_when_it_is_old(tmp_path: Path) -> None:
    parts = tmp_path / PARTS
    parts.mkdir()
    for name in ("old", "new"):
        (parts / name).write_bytes(b"half")
    long_ago = time.time() - ABANDONED_SECONDS - 10
    os.utime(parts / "old", (long_ago, long_ago))
    objects = FilesystemObjectStore(tmp_path)
    assert (await objects.list("")).objects == []
    await objects.put("raw/a", b"x")
    assert [one.name for one in (await objects.list("")).objects] == ["raw/a"]
    assert [part.name for part in parts.iterdir()] == ["new"]


async def test_each_object_and_each_new_folder_is_brought_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def seen(handle: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()).removeprefix(str(tmp_path)))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", seen)
    objects = FilesystemObjectStore(tmp_path / "objects")
    await objects.put("raw/day/a", b"x")
    file, *_ = [place for place in synced if place.startswith(f"/objects/{PARTS}/")]
    assert {"", "/objects", "/objects/raw", "/objects/raw/day"} <= set(synced)
    assert synced.index(file) < len(synced) - 1 - synced[::-1].index("/objects/raw/day")
    del synced[:]
    await objects.put("raw/day/a", b"again")
    assert synced == ["/objects/raw/day"], "whoever was first may not have come so far"


def failing(error: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(error, os.strerror(error))

    return fail


@pytest.mark.parametrize(
    ("call", "error", "kind", "told"),
    [
        ("fsync", errno.ENOSPC, Unavailable, "object folder is unavailable: No space left on device"),
        ("fsync", errno.EIO, Unavailable, "Input/output error"),
        ("link", errno.EDQUOT, Unavailable, "Disk quota exceeded"),
        ("link", errno.EPERM, Misconfigured, "check its permissions and file system"),
        ("link", errno.EROFS, Misconfigured, "Read-only file system"),
    ],
)
async def test_trouble_of_the_disk_is_told_as_what_the_caller_can_do(
    call: str, error: int, kind: type[Exception], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = FilesystemObjectStore(tmp_path)
    await objects.put("raw/a", b"x")
    monkeypatch.setattr(os, call, failing(error))
    with pytest.raises(kind, match=told):
        await objects.put("raw/b", b"x")
    monkeypatch.undo()
    assert await objects.get("raw/b") is None
    assert list((tmp_path / PARTS).iterdir()) == []
    assert await objects.put("raw/b", b"x") is True


async def test_a_file_in_the_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "objects").write_text("a file")
    objects = FilesystemObjectStore(tmp_path / "objects")
    with pytest.raises(Misconfigured, match="objects cannot be kept in it"):
        await objects.put("raw/a", b"x")
    assert (await objects.list("")).objects == []


async def test_a_name_that_is_a_folder_already_is_told(tmp_path: Path) -> None:
    objects = FilesystemObjectStore(tmp_path)
    await objects.put("raw/a/b", b"x")
    with pytest.raises(Misconfigured, match="Is a directory"):
        await objects.put("raw/a", b"x")


async def test_a_folder_that_somebody_removed_is_made_again(tmp_path: Path) -> None:
    objects = FilesystemObjectStore(tmp_path)
    await objects.put("raw/day/a", b"x")
    (tmp_path / "raw" / "day" / "a").unlink()
    (tmp_path / "raw" / "day").rmdir()
    assert await objects.put("raw/day/b", b"x") is True
    assert [one.name for one in (await objects.list("raw/")).objects] == ["raw/day/b"]


async def test_no_folder_yet_is_a_store_without_objects(tmp_path: Path) -> None:
    objects = FilesystemObjectStore(tmp_path / "none")
    assert (await objects.list("raw/")).objects == []
    assert await objects.get("raw/a") is None
    await objects.delete("raw/a")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "data", [b"", b"no frame", compress(b"x" * 10_000)[:-3], b"\x28\xb5\x2f\xfd", compress(b"x")[:-1] + b"?"]
)
async def test_what_is_no_whole_frame_is_told_by_its_name(data: bytes) -> None:
    plain = MemoryObjectStore()
    await plain.put("raw/a.zst", data)
    with pytest.raises(Malformed, match=r"raw/a.zst: is no zstd frame, or a broken one"):
        await ZstdObjectStore(plain).get("raw/a.zst")


async def test_a_frame_that_says_it_is_huge_is_refused_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapters.zstd.object_store.MAX_BYTES", 1000)
    objects = ZstdObjectStore(MemoryObjectStore())
    await objects.put("a", b"x" * 1000)
    await objects.put("b", b"x" * 1001)
    assert await objects.get("a") == b"x" * 1000
    with pytest.raises(Malformed, match="b: unpacks to more than 1000 bytes"):
        await objects.get("b")


async def test_what_is_no_file_is_no_object_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    objects = FilesystemObjectStore(tmp_path)
    await objects.put("raw/a", b"a")
    os.mkfifo(tmp_path / "raw" / "pipe")
    assert [one.name for one in (await objects.list("raw/")).objects] == ["raw/a"]
