"""Large content in files (ports/payload_store.py)."""

import asyncio
import contextlib
import os
import uuid
from pathlib import Path

from domain.errors import Misconfigured, Unavailable


class FilePayloadStore:
    """A file for each key, under a folder that is made at first use.

    A file is written under another name, brought to the disk and then named: whoever finds it finds all of it.
    """

    def __init__(self, folder: Path) -> None:
        """Keep content under this folder."""
        self._folder = folder

    async def put(self, key: str, content: bytes, /) -> None:
        """Keep content."""
        await asyncio.to_thread(self._put, self._folder / key, content)

    async def get(self, key: str, /) -> bytes | None:
        """Give content."""
        return await asyncio.to_thread(self._get, self._folder / key)

    def _put(self, path: Path, content: bytes) -> None:
        if path.exists():
            return
        unnamed = path.with_name(f"{path.name}.{uuid.uuid4().hex}.new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with unnamed.open("xb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                unnamed.replace(path)
            except OSError:
                with contextlib.suppress(OSError):
                    unnamed.unlink()
                raise
            for folder in path.parents:  # each may be new, and then its name is not on the disk yet
                _sync(folder)
                if folder == self._folder.parent:
                    break
        except OSError as error:
            raise self._translated(error) from error

    def _get(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._translated(error) from error

    def _translated(self, error: OSError) -> Unavailable | Misconfigured:
        """Say whose trouble it is: rights and names are for a person to put right, all else may pass."""
        reason = error.strerror or type(error).__name__
        if isinstance(error, (PermissionError, NotADirectoryError, FileExistsError, IsADirectoryError)):
            return Misconfigured(str(self._folder), f"cannot be used: {reason}; check the folder and its permissions")
        return Unavailable(self._folder.name, reason)


def _sync(folder: Path) -> None:
    """Bring a folder's list of names to the disk."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
