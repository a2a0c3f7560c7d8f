"""Objects as files below one folder: whole or not there, also after a power cut (ports/object_store.py)."""

import asyncio
import contextlib
import errno
import os
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final
from uuid import uuid4

from domain.errors import InterlockError, Misconfigured, Unavailable
from domain.objects import ObjectPage, StoredObject, check_object_name, check_prefix

PARTS: Final = ".parts"
"""Where files are written before they get their name; no object's name starts with a dot."""

ABANDONED_SECONDS: Final = 3600.0
_LATER: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.EAGAIN})


class FilesystemObjectStore:
    """A folder of a local disk, which several processes may use at a time; it is made at the first write.

    A file is written beside the objects, brought to the disk, and then linked to its name, which fails where there is
    one: so of many writers one is first, and no reader meets half a file. Then the folder is brought to the disk.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: set[Path] = set()

    async def put(self, name: str, data: bytes, /) -> bool:
        """Store an object unless there is one of this name; see the port.

        Raises:
            Unavailable: the disk is full or failed.
            Misconfigured: the folder cannot be written, or its file system has no hard links.
        """
        check_object_name(name)
        return await asyncio.to_thread(self._put, name, data)

    async def get(self, name: str, /) -> bytes | None:
        """Give an object whole, or None where there is none."""
        check_object_name(name)
        return await asyncio.to_thread(self._get, name)

    async def list(self, prefix: str, /, *, after: str = "", limit: int = 1000) -> ObjectPage:
        """Give a page of names; see the port. The folders that cannot hold any are not looked at."""
        check_prefix(prefix)
        return await asyncio.to_thread(self._list, prefix, after, limit)

    async def delete(self, name: str, /) -> None:
        """Delete an object; where there is none, nothing happens."""
        check_object_name(name)
        await asyncio.to_thread(self._delete, name)

    def _put(self, name: str, data: bytes) -> bool:
        with _translated(self._folder):
            target, parts = self._folder / name, self._folder / PARTS
            if parts not in self._made:
                self._make(parts)
                _sweep(parts)
            self._make(target.parent)
            is_new = not target.exists() and _link(parts / uuid4().hex, target, data)
            if not is_new and target.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            _sync_folder(target.parent)  # also where another was first: its name may not be on the disk yet
            return is_new

    def _get(self, name: str) -> bytes | None:
        with _translated(self._folder):
            try:
                return (self._folder / name).read_bytes()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None

    def _list(self, prefix: str, after: str, limit: int) -> ObjectPage:
        with _translated(self._folder):
            found = list(islice(_walk(self._folder, "", prefix, after), limit + 1))
        page = found[:limit]
        return ObjectPage(page, page[-1].name if len(found) > limit else None)

    def _delete(self, name: str) -> None:
        with _translated(self._folder), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            target = self._folder / name
            target.unlink()
            _sync_folder(target.parent)

    def _make(self, folder: Path) -> None:
        """Make a folder and those above it, and bring their names to the disk, once in the life of this process."""
        if folder in self._made and folder.is_dir():
            return
        if folder != self._folder:
            self._make(folder.parent)
        folder.mkdir(parents=folder == self._folder, exist_ok=True)
        _sync_folder(folder.parent)
        self._made.add(folder)


def _sweep(parts: Path) -> None:
    """Remove what processes left that were killed while they wrote."""
    for part in parts.iterdir():
        with contextlib.suppress(FileNotFoundError):
            if time.time() - part.stat().st_mtime > ABANDONED_SECONDS:
                part.unlink()


def _link(part: Path, target: Path, data: bytes) -> bool:
    """Write a file and give it its name; false where another has that name."""
    try:
        with part.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(part, target)
    except FileExistsError:
        return False
    finally:
        part.unlink(missing_ok=True)
    return True


def _walk(folder: Path, above: str, prefix: str, after: str) -> Iterator[StoredObject]:
    """Give objects in the order of names: as text, a folder's name ends with its slash."""
    try:
        with os.scandir(folder) as entries:
            here = [(f"{above}{entry.name}{'/' * entry.is_dir()}", entry) for entry in entries if entry.name[0] != "."]
    except (FileNotFoundError, NotADirectoryError):
        return
    for name, entry in sorted(here, key=lambda pair: pair[0]):
        if not name.endswith("/"):
            if name.startswith(prefix) and name > after and entry.is_file():  # a pipe would keep its reader waiting
                with contextlib.suppress(FileNotFoundError):  # deleted since
                    yield StoredObject(name, entry.stat().st_size)
        elif (name.startswith(prefix) or prefix.startswith(name)) and (name > after or after.startswith(name)):
            yield from _walk(Path(entry.path), name, prefix, after)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _translated(folder: Path) -> Iterator[None]:
    """Say in the terms of domain/errors.py what the system said.

    | errno | |
    |---|---|
    | disk full, quota, input or output failed, no files left | `Unavailable` |
    | anything else: rights, read-only, no hard links, a file in the place of a folder | `Misconfigured` |
    """
    try:
        yield
    except OSError as error:
        raise _error(folder, error) from error


def _error(folder: Path, error: OSError) -> InterlockError:
    reason = error.strerror or type(error).__name__
    if error.errno in _LATER:
        return Unavailable("object folder", reason)
    return Misconfigured(str(folder), f"objects cannot be kept in it: {reason}; check its permissions and file system")
