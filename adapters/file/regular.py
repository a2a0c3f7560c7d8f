"""Reading files that people name: settings, tokens, certificates, declarations."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from domain.errors import Invalid, Misconfigured

T = TypeVar("T")

MAX_BYTES: Final = 16 * 1024 * 1024


def read_regular(path: Path) -> tuple[bytes, os.stat_result]:
    """Read a file whole, and say what file it was.

    Raises:
        Invalid: it is no regular file: a pipe would wait for a writer, and a device may never end; or over 16 MiB.
        OSError: it cannot be read.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise Invalid("", "it must be a regular file")
        with os.fdopen(handle, "rb", closefd=False) as file:
            raw = file.read(MAX_BYTES + 1)
    finally:
        os.close(handle)
    if len(raw) > MAX_BYTES:
        raise Invalid("", f"it must have at most {MAX_BYTES} bytes")
    return raw, status


def read_setting(path: Path, setting: str, parse: Callable[[bytes], T]) -> T:
    """Give what a file holds that a setting names.

    Args:
        path: of the file.
        setting: what names it.
        parse: gives what the bytes mean; `bytes` where they are taken as they are. It may raise `Invalid`.

    Raises:
        Misconfigured: naming the setting and the file: it cannot be read, or holds something else.
    """
    try:
        return parse(read_regular(path)[0])
    except OSError as error:
        raise Misconfigured(setting, f"{path} cannot be read: {error.strerror}") from error
    except Invalid as error:
        raise Misconfigured(setting, f"{path}: {error}") from None
