"""How keys of a scope lie in Redis (docs/reference/dedup-redis.md).

    dedup:{<scope digest>}:<buckets>:<n>   set of the hashes in bucket n; it expires with its longest-lived key
    dedup:{<scope digest>}:v               sorted set: which hashes have a value, by the millisecond it expires
    dedup:{<scope digest>}:v:<hash>        a value, with an expiry of its own

A short hash is a signed integer, so that a bucket is Redis's array of 8-byte integers; a long one is its 16 bytes. The
braces make all of a scope one slot of a cluster. The count of buckets is part of the name: another count is another
layout, in which nothing of the first is known.
"""

import struct
from binascii import crc_hqx
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from domain.dedup import Scope, key_hash, key_hashes, scope_digest

BUCKETS: Final = 256
LONG_FACTOR: Final = 8
"""A long hash takes a bucket that is searched from end to end, so its buckets are more and smaller."""

_SLOTS: Final = 16_384


class Names(NamedTuple):
    """The names of one scope.

    Attributes:
        slot: of a cluster, the same for all of them.
        bucket: what the names of buckets start with.
        values: the sorted set of values; with a colon, what the names of values start with.
    """

    slot: int
    bucket: str
    buckets: int
    values: str


@lru_cache(maxsize=4096)
def names_of(scope: Scope, buckets: int) -> Names:
    """Give the names of a scope.

    Args:
        scope: service and run.
        buckets: for short hashes; long ones have `LONG_FACTOR` times as many.
    """
    digest = scope_digest(scope)
    base = f"dedup:{{{digest}}}"
    count = buckets * LONG_FACTOR if scope.is_long else buckets
    return Names(crc_hqx(digest.encode(), 0) % _SLOTS, f"{base}:{count}:", count, f"{base}:v")


def entries(scope: Scope, keys: Sequence[str], buckets: int) -> tuple[Sequence[int | bytes], list[int]]:
    """Give what is stored of each key, and the number of its bucket."""
    if len(keys) == 1 and not scope.is_long:  # the common call, a third cheaper than as a batch of one
        number = int.from_bytes(key_hash(scope, keys[0]), "big", signed=True)
        return [number], [number % buckets]
    hashes = key_hashes(scope, keys)
    if scope.is_long:
        return hashes, [number % buckets for number in struct.unpack(">" + "8xQ" * len(keys), b"".join(hashes))]
    numbers: tuple[int, ...] = struct.unpack(f">{len(keys)}q", b"".join(hashes))
    return numbers, [number % buckets for number in numbers]


def value_name(names: Names, entry: int | bytes) -> bytes:
    """Give the name of a key's value."""
    return b"%b:%b" % (names.values.encode(), entry if isinstance(entry, bytes) else b"%d" % entry)


def bucket_names(names: Names, step: int) -> Iterator[list[str]]:
    """Give the names of all buckets, `step` at a time."""
    for start in range(0, names.buckets, step):
        yield [f"{names.bucket}{number}" for number in range(start, min(start + step, names.buckets))]
