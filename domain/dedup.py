"""Deduplication rules: scopes, key hashes, life spans, and the verdict of two targets (R-201 to R-208).

**Scopes** are framed and digested (128 bits), so that no two of them meet whatever their names hold (R-203).

**Hashes.** The short form has 64 bits, the long form (service codes that start with `long:`) 128 (R-204, R-205).
A clash makes a new key look seen. Expected clashing pairs among n keys of one run are n(n-1)/2 / 2^bits:

    keys in a run     1e6       1e7       1e8       1e9
    short, 64 bits    2.7e-8    2.7e-6    2.7e-4    0.027
    long, 128 bits    1.5e-27   1.5e-25   1.5e-23   1.5e-21

blake2b is used because keys come from outside: for faster hashes, such as xxh3, anyone can make keys that clash.
A service that switches between the forms is another scope: its old entries no longer answer.

**The verdict of a claim with two targets.** The primary claims; who is told "new" by it claims on the secondary too.
`-` is a target that failed or did not answer in time, `.` one whose answer does not matter.

    primary   secondary   answer   degraded
    seen      .           seen     no
    new       new         new      no
    new       seen        seen     no         known to the secondary: the primary was away, or came back empty
    new       -           new      yes
    -         new         new      yes        the secondary decides
    -         seen        seen     yes
    -         -           new      yes        a crawl never stops because a cache is down

Claims are atomic, so of many concurrent askers one is told "new" while the primary stands. The claim of a failed target
may have been written although its reply was lost: it is not repeated there, so no claim is told "seen" by itself.

Keys that the primary has seen are claimed on the secondary again where that has them, so that they live as long there.
Where it has them not, they are not claimed: the one who is told "new" by the primary may be on the way to it.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from domain.envelope import framed_digest
from domain.errors import Invalid

LONG_PREFIX: Final = "long:"
MAX_KEYS: Final = 10_000
MAX_KEY_BYTES: Final = 65_536
MAX_RUN_ID: Final = 128
MAX_VALUE_BYTES: Final = 300 * 1024
MAX_TTL: Final = timedelta(days=30)
DEFAULT_TTL: Final = timedelta(hours=24)
SHORT_BYTES: Final = 8
LONG_BYTES: Final = 16

_SERVICE_CODE: Final = re.compile(r"(?:long:)?[a-z0-9][a-z0-9._-]{0,62}", re.ASCII)
_MEMO_SIZE: Final = 1024
_MEMO_KEY_CHARACTERS: Final = 512


class Scope(NamedTuple):
    """Where a key belongs: a service and one of its runs."""

    service_code: str
    run_id: str

    @property
    def is_long(self) -> bool:
        """Whether keys are hashed to 128 bits."""
        return self.service_code.startswith(LONG_PREFIX)


def make_scope(service_code: str, run_id: str) -> Scope:
    """Check the names of a scope (CONTRACTS § 2).

    Raises:
        Invalid: naming `service_code` or `run_id`.
    """
    if _SERVICE_CODE.fullmatch(service_code) is None:
        raise Invalid("service_code", r"must match ^(long:)?[a-z0-9][a-z0-9._-]{0,62}$")
    if not (1 <= len(run_id) <= MAX_RUN_ID and _utf8_length(run_id)):
        raise Invalid("run_id", f"must have 1 to {MAX_RUN_ID} characters that UTF-8 can hold")
    return Scope(service_code, run_id)


def check_keys(keys: Sequence[str], field: str = "keys") -> None:
    """Check the keys of a request (CONTRACTS § 2).

    Raises:
        Invalid: naming the field, with the index where there are several.
    """
    if not 1 <= len(keys) <= MAX_KEYS:
        raise Invalid(field, f"must hold 1 to {MAX_KEYS} keys")
    for index, key in enumerate(keys):
        # Most keys are ASCII, where characters are bytes.
        if not 1 <= (len(key) if key.isascii() else _utf8_length(key)) <= MAX_KEY_BYTES:
            place = field if field == "key" else f"{field}[{index}]"
            raise Invalid(place, f"must have 1 to {MAX_KEY_BYTES} bytes as UTF-8")


def check_ttl(ttl: timedelta | None, default: timedelta = DEFAULT_TTL) -> timedelta:
    """Give the life span in force.

    Raises:
        Invalid: zero, negative, or over 30 days.
    """
    if ttl is None:
        return default
    if not timedelta() < ttl <= MAX_TTL:
        raise Invalid("ttl", "must be over zero and at most 30 days")
    return ttl


@lru_cache(maxsize=4096)
def scope_digest(scope: Scope) -> str:
    """Give the name of a scope in stores: 32 hex digits of its framed names, the same for nobody else (R-203)."""
    return framed_digest("dedup", scope.service_code, scope.run_id)[:32]


def key_hash(scope: Scope, key: str) -> bytes:
    """Give what stores keep of a key: 8 bytes, or 16 for a long service code. The key itself is never stored.

    A key has the same hash in every scope of one form; scopes keep them apart. Hot keys cost one hash: a bounded memo
    remembers them by form and key. Long keys are hashed again, so that the memo stays small.
    """
    size = LONG_BYTES if scope.is_long else SHORT_BYTES
    return _remembered(key, size) if len(key) <= _MEMO_KEY_CHARACTERS else _hash(key, size)


def key_hashes(scope: Scope, keys: Sequence[str]) -> list[bytes]:
    """Give the hash of each key. Several are not remembered: that costs more than to hash them."""
    if len(keys) == 1:
        return [key_hash(scope, keys[0])]
    size = LONG_BYTES if scope.is_long else SHORT_BYTES
    return [_hash(key, size) for key in keys]


def _hash(key: str, size: int) -> bytes:
    return hashlib.blake2b(key.encode(), digest_size=size).digest()


_remembered = lru_cache(maxsize=_MEMO_SIZE)(_hash)


def expected_clashes(keys: int, *, bits: int) -> float:
    """Give how many pairs of so many different keys of one run are expected to share a hash of so many bits."""
    return float(keys * (keys - 1) / 2 / 2**bits)


def count_clashes(keys: Iterable[str], *, size: int = SHORT_BYTES) -> int:
    """Count how many of some different keys would be taken for another, by hashes of `size` bytes (FC-05).

    With a service's own keys it tells what the short form has cost, exactly; narrower hashes show the rule at work.
    """
    different = set(keys)
    return len(different) - len({_hash(key, size) for key in different})


class Verdict(NamedTuple):
    """The answer to a claim of several keys: which are new, and whether a target was missing from it."""

    is_new: list[bool]
    degraded: bool


def verdict(keys: Sequence[str], claimed: Sequence[bool] | None, second: Sequence[bool] | None) -> Verdict:
    """Put the answers of two targets together, by the table above.

    Args:
        keys: what was asked. Where nobody answers, one that is repeated is new where it comes first.
        claimed: what the primary's claim said of each key, or None where it failed.
        second: what the secondary's claim said of each key that the primary called new (of each key, where the
            primary failed), in order; None where the secondary failed.
    """
    if claimed is None:
        if second is None:
            first = {key: index for index, key in reversed(list(enumerate(keys)))}
            second = [first[key] == index for index, key in enumerate(keys)]
        return Verdict(list(second), degraded=True)
    if second is None:
        return Verdict(list(claimed), degraded=any(claimed))
    answers = iter(second)
    return Verdict([new and next(answers) for new in claimed], degraded=False)


def _utf8_length(text: str) -> int:
    """Count a text's bytes; 0 where UTF-8 cannot hold it, as with half a surrogate pair."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return 0
