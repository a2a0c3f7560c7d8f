"""The keys of an issuer: a JSON Web Key Set at an address (RFC 7517; `INTERLOCK_AUTH__JWKS_URL`)."""

import asyncio
import contextlib
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import unquote, urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from domain.errors import Invalid, Misconfigured, Unavailable
from domain.json_reader import read_json

DEPENDENCY: Final = "JWKS"
MAX_BYTES: Final = 1024 * 1024
MAX_KEYS: Final = 100

_RETRY_SECONDS: Final = 10.0
_SOCKET_SECONDS: Final = 2.0
_PATIENCE_SECONDS: Final = 4.0
_CHUNK: Final = 64 * 1024
_RSA: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})

Keys = Mapping[tuple[str, str], PyJWK]
"""By key id and algorithm: a key verifies by one algorithm, and a token cannot choose another."""


class KeySet:
    """The keys by their ids, fetched anew before they are too old, and where a token names one that is not there.

    | age of the keys | the id is known | it is not |
    |---|---|---|
    | under half of `max_age_seconds` | used | fetched anew |
    | under `max_age_seconds` | fetched anew; where that fails, used | fetched anew; where that fails, refused |
    | over it | fetched anew; where that fails, nobody gets in | the same |

    Fetching is tried at most every ten seconds, whatever tokens come.

    So a key that the issuer takes back stops to count after `max_age_seconds`, and its new keys count at once.

    Args:
        url: `https://…`, or `file:///…` for keys that are brought along.
        algorithms: the only ones that count; keys for others are passed over.
        max_age_seconds: how old keys may be that are used.
        monotonic: a clock in seconds.

    Raises:
        Misconfigured: the address is of another kind.
    """

    def __init__(
        self,
        url: str,
        algorithms: frozenset[str],
        *,
        max_age_seconds: float = 300.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if urlsplit(url).scheme not in {"https", "file"}:
            raise Misconfigured(DEPENDENCY, "its address must start with https:// or file://")
        self._url = url
        self._algorithms = algorithms
        self._max_age = max_age_seconds
        self._monotonic = monotonic
        self._keys: Keys = {}
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._trouble = "nobody has tried"
        self._lock: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    async def key(self, key_id: str, algorithm: str) -> PyJWK | None:
        """Give a key, or None where the issuer has no such key for this algorithm.

        Raises:
            Unavailable: the keys that are known are too old, and cannot be fetched.
        """
        now, wanted = self._monotonic(), (key_id, algorithm)
        age = now - self._fetched_at
        known = wanted in self._keys and age < self._max_age
        due = not known or age >= self._max_age / 2
        somebody_fetches = known and self._own_lock().locked()
        if due and not somebody_fetches and now - self._tried_at >= _RETRY_SECONDS:
            await self._refresh(now)
        if self._monotonic() - self._fetched_at >= self._max_age:
            raise Unavailable(DEPENDENCY, f"its keys cannot be fetched: {self._trouble}")
        return self._keys.get(wanted)

    async def _refresh(self, seen_at: float) -> None:
        """Fetch the keys, one caller for all; whoever waited for that does not fetch again."""
        async with self._own_lock():
            if self._tried_at >= seen_at:
                return
            try:
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    raw = await asyncio.to_thread(_read, self._url)
                self._keys = read_keys(raw, self._algorithms)
                self._fetched_at = self._monotonic()
            except (OSError, HTTPException, Invalid) as error:
                self._trouble = _reason(error)
            self._tried_at = self._monotonic()  # not where its caller was cancelled: then the next one tries

    def _own_lock(self) -> asyncio.Lock:
        """Give this event loop's lock (FC-22)."""
        loop = asyncio.get_running_loop()
        if self._lock is None or self._lock[0] is not loop:
            self._lock = (loop, asyncio.Lock())
        return self._lock[1]


def _reason(error: Exception) -> str:
    """Say in a few words why keys did not come."""
    match error:
        case urllib.error.HTTPError():
            return f"answered with {error.code}"
        case urllib.error.URLError(reason=Exception() as cause):
            return _reason(cause)
        case ssl.SSLError():
            return error.reason or "TLS failed"
        case OSError():
            return error.strerror or type(error).__name__
        case Invalid():
            return str(error)
        case _:
            return type(error).__name__


def read_keys(raw: bytes, algorithms: frozenset[str]) -> Keys:
    """Read a key set; keys without an id, for encryption, or of other algorithms are passed over.

    Raises:
        Invalid: it is no key set, or holds no key that can be used.
    """
    value = read_json(raw)
    listed = value.get("keys") if isinstance(value, dict) else None
    if not isinstance(listed, list) or len(listed) > MAX_KEYS:
        raise Invalid("keys", f"must be a list of at most {MAX_KEYS} keys")
    keys: dict[tuple[str, str], PyJWK] = {}
    for one in listed:
        if isinstance(one, dict) and isinstance(key_id := one.get("kid"), str) and one.get("use", "sig") == "sig":
            keys |= {(key_id, key.algorithm_name): key for key in _usable(one, algorithms)}
    if not keys:
        raise Invalid("keys", "holds no key that can be used")
    return keys


def _usable(jwk: dict[str, Any], algorithms: frozenset[str]) -> list[PyJWK]:
    """Give a key for each allowed algorithm that it is for: the one it names, else every one of RSA, or its curve's."""
    is_free = jwk.get("kty") == "RSA" and "alg" not in jwk
    found: list[PyJWK] = []
    for algorithm in sorted(_RSA & algorithms) if is_free else [None]:
        with contextlib.suppress(PyJWTError, UnsupportedAlgorithm, ValueError, TypeError, KeyError, OverflowError):
            key = PyJWK(jwk, algorithm)
            if key.algorithm_name in algorithms:
                found.append(key)
    return found


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """An issuer's keys are where the setting says: an answer that leads elsewhere is none."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        del newurl
        raise urllib.error.HTTPError(req.full_url, code, msg, headers, fp)


def _read(url: str) -> bytes:
    parts = urlsplit(url)
    if parts.scheme == "file":
        with Path(unquote(parts.path)).open("rb") as file:
            return _at_most(file)
    https = urllib.request.HTTPSHandler(context=ssl.create_default_context())
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310 - the scheme was checked
    with urllib.request.build_opener(https, _NoRedirects).open(request, timeout=_SOCKET_SECONDS) as answer:
        return _at_most(answer)


def _at_most(stream: Any) -> bytes:
    """Read a bounded stream in a bounded time, however slowly it drips."""
    raw, end = bytearray(), time.monotonic() + _PATIENCE_SECONDS
    while chunk := stream.read1(_CHUNK):
        raw += chunk
        if len(raw) > MAX_BYTES or time.monotonic() > end:
            raise Invalid("", f"over {MAX_BYTES} bytes, or too slow")
    return bytes(raw)
