"""The tokens file: a JSON list of records with hashed secrets (`INTERLOCK_AUTH__TOKENS_FILE`)."""

import asyncio
import contextlib
import fcntl
import math
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from pydantic import SecretStr

from adapters.file.regular import read_regular
from domain.access import Caller, TokenRecord, read_tokens, verify, write_tokens
from domain.errors import Invalid, Misconfigured, Unavailable

Records = Mapping[str, TokenRecord]

DEPENDENCY: Final = "tokens file"


class TokenFile:
    """Judges tokens by a file, and looks at each call whether it has changed: revoking needs no restart.

    A thread looks, because a disk may hang: whoever asks is then refused, and the event loop goes on. One look answers
    all who wait for it. It is a daemon, so that no disk keeps a process from ending.

    Args:
        path: the file; it is first looked at when somebody asks.
        patience_seconds: how long to wait for the disk.
    """

    def __init__(self, path: Path, *, patience_seconds: float = 2.0) -> None:
        self._path = path
        self._patience = patience_seconds
        self._waiting: SimpleQueue[asyncio.Future[Records]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._looking_since = math.inf
        self._seen: tuple[int, ...] | None = None
        self._records: Records = {}

    async def identify(self, token: SecretStr, now: datetime, /) -> Caller:
        """Say whose token this is; see the port."""
        return verify(await self._current(), token, now)

    async def check(self) -> None:
        """Make sure that the file can be read.

        Raises:
            Unavailable: it cannot.
        """
        await self._current()

    async def _current(self) -> Records:
        future: asyncio.Future[Records] = asyncio.get_running_loop().create_future()
        if self._thread is None:
            self._thread = threading.Thread(target=self._look_always, name=DEPENDENCY, daemon=True)
            self._thread.start()
        # Whoever comes while the disk hangs is refused at once, or requests would pile up.
        if time.monotonic() - self._looking_since < self._patience:
            self._waiting.put(future)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    return await future
        raise Unavailable(DEPENDENCY, "its disk does not answer")

    def _look_always(self) -> None:
        while True:
            futures = [self._waiting.get()]
            while not self._waiting.empty():
                futures.append(self._waiting.get())
            self._looking_since = time.monotonic()
            records, error = self._look()
            self._looking_since = math.inf
            for future in futures:
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits there any more
                    future.get_loop().call_soon_threadsafe(_settle, future, records, error)

    def _look(self) -> tuple[Records, Exception | None]:
        try:
            if _fingerprint(self._path.stat()) != self._seen:
                raw, status = read_regular(self._path)
                self._records = read_tokens(raw)
                self._seen = _fingerprint(status)
        except OSError as error:
            return {}, Unavailable(DEPENDENCY, error.strerror or type(error).__name__)
        except Invalid as error:
            return {}, Unavailable(DEPENDENCY, str(error))
        except Exception as error:  # noqa: BLE001 - a fault of ours, which is the callers' to tell
            return {}, error
        return self._records, None


def list_tokens(path: Path) -> Records:
    """Give the tokens in the file, by id.

    Raises:
        Misconfigured: there is no such file, it holds something else, or it cannot be read.
    """
    with _as_misconfigured(path):
        return read_tokens(read_regular(path)[0])


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

    def without(records: Records) -> Records:
        if token_id not in records:
            raise Misconfigured(str(path), f"holds no token {token_id!r}; see `interlock token list`")
        return {other: record for other, record in records.items() if other != token_id}

    _change(path, without)


def _change(path: Path, change: Callable[[Records], Records]) -> None:
    with _as_misconfigured(path), _only_writer(path.parent) as folder:
        records = read_tokens(read_regular(path)[0]) if path.exists() else {}
        _replace(path, write_tokens(change(records).values()), folder)


@contextlib.contextmanager
def _as_misconfigured(path: Path) -> Iterator[None]:
    """Name the file and the fix; the one place where a command hears of trouble with it."""
    try:
        yield
    except Invalid as error:
        raise Misconfigured(str(path), f"is not a tokens file: {error}; name another, or restore it") from None
    except FileNotFoundError:
        fix = "make it with `interlock token create`" if path.parent.exists() else f"make {path.parent} first"
        raise Misconfigured(str(path), f"does not exist; {fix}") from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise Misconfigured(str(path), f"{reason}; name another file, or check the permissions") from None


def _settle(future: asyncio.Future[Records], records: Records, error: Exception | None) -> None:
    if future.done():  # it ran out of patience, or was cancelled
        return
    if error is None:
        future.set_result(records)
    else:
        future.set_exception(error)


def _fingerprint(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


@contextlib.contextmanager
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
