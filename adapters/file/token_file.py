"""The tokens file: a JSON list of records with hashed secrets (`INTERLOCK_AUTH__TOKENS_FILE`)."""

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from domain.access import Caller, TokenRecord, read_tokens, verify, write_tokens
from domain.errors import Invalid, Misconfigured, Unavailable

_DEPENDENCY: Final = "tokens file"


class TokenFile:
    """Judges tokens by a file, and reads it again whenever it has changed: revoking needs no restart."""

    def __init__(self, path: Path) -> None:
        """Judge by the file at a path; it is read at the first call."""
        self._path = path
        self._seen: tuple[int, ...] | None = None
        self._records: Mapping[str, TokenRecord] = {}

    async def identify(self, token: SecretStr, now: datetime, /) -> Caller:
        """Say whose token this is; see the port."""
        return verify(self._current(), token, now)

    async def check(self) -> None:
        """Make sure that the file can be read.

        Raises:
            Unavailable: it cannot.
        """
        self._current()

    def _current(self) -> Mapping[str, TokenRecord]:
        try:
            if _fingerprint(self._path.stat()) != self._seen:
                self._read()
        except OSError as error:
            raise Unavailable(_DEPENDENCY, error.strerror or type(error).__name__) from None
        except Invalid as error:
            raise Unavailable(_DEPENDENCY, str(error)) from None
        return self._records

    def _read(self) -> None:
        with self._path.open("rb") as file:
            fingerprint = _fingerprint(os.fstat(file.fileno()))
            self._records = read_tokens(file.read())
            self._seen = fingerprint


def add_token(path: Path, record: TokenRecord) -> None:
    """Add a token to the file, and make the file where there is none: mode 0600, replaced in one step.

    Raises:
        Misconfigured: the file holds something else, or cannot be written.
    """
    _change(path, lambda records: {**records, record.id: record})


def remove_token(path: Path, token_id: str) -> None:
    """Take a token out of the file; from the next call on it opens nothing.

    Raises:
        Misconfigured: there is no such token, the file holds something else, or it cannot be written.
    """

    def without(records: Mapping[str, TokenRecord]) -> dict[str, TokenRecord]:
        if token_id not in records:
            raise Misconfigured("auth.tokens_file", f"holds no token {token_id!r}")
        return {other: record for other, record in records.items() if other != token_id}

    _change(path, without)


def _change(path: Path, change: Callable[[Mapping[str, TokenRecord]], Mapping[str, TokenRecord]]) -> None:
    try:
        with _only_writer(path.parent) as folder:
            records = read_tokens(path.read_bytes()) if path.exists() else {}
            _replace(path, write_tokens(change(records).values()), folder)
    except Invalid as error:
        raise Misconfigured("auth.tokens_file", f"is not a tokens file: {error}") from None
    except OSError as error:
        raise Misconfigured("auth.tokens_file", error.strerror or type(error).__name__) from None


def _fingerprint(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


@contextmanager
def _only_writer(folder: Path) -> Iterator[int]:
    """Hold the folder's lock, so that of two commands that add a token at once neither is lost."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def _replace(path: Path, text: str, folder: int) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    os.fsync(folder)
