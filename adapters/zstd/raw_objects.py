"""Packed raw objects, read by the daily rule a line at a time: no more of one is unpacked than is being looked at."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import zstandard

from adapters.zstd.object_store import compress
from domain.daily import PackedObject, Rejected, Row, Rule, quarantine_of
from domain.errors import Malformed

MAX_LINE_BYTES: Final = 16 * 1024 * 1024

_CHUNK: Final = 64 * 1024


class Read(NamedTuple):
    """What an object holds: rows, the number of messages, and of rejected events, and where these are to be kept."""

    rows: list[Row]
    messages: int
    rejects: int
    quarantine: tuple[PackedObject, ...]


def read_object(rule: Rule, packed: bytes) -> Read:
    """Read one object by the daily rule.

    Raises:
        Malformed: it is damaged.
    """
    rows: list[Row] = []
    rejected: list[Rejected] = []
    messages = 0
    for line in _lines(packed):
        new, refused = rule.rows(line)
        rows += new
        messages += 1
        if refused is not None:
            rejected.append(refused)
    if not rejected:
        return Read(rows, messages, 0, ())
    name, kept = quarantine_of(rejected)
    rejects = sum(len(one.rejections) for one in rejected)
    return Read(rows, messages, rejects, (PackedObject(name, compress(kept)),))


def _lines(packed: bytes) -> Iterator[bytes]:
    """Unpack an object a piece at a time, and give its lines.

    Raises:
        Malformed: it is no zstd frame, is damaged or cut short, or has a line of more than 16 MiB.
    """
    reader = zstandard.ZstdDecompressor().decompressobj()
    rest = b""
    try:
        for start in range(0, len(packed), _CHUNK):
            *lines, rest = (rest + reader.decompress(packed[start : start + _CHUNK])).split(b"\n")
            yield from filter(None, lines)
            if len(rest) > MAX_LINE_BYTES:
                raise Malformed("", f"has a line of more than {MAX_LINE_BYTES} bytes")
    except zstandard.ZstdError:
        raise Malformed("", "is no zstd frame, or a broken one") from None
    if not reader.eof:
        raise Malformed("", "was cut short")
    if reader.unused_data:
        raise Malformed("", "has more after its zstd frame")
    if rest:
        yield rest
