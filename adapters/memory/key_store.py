"""A key store in one process's memory, bounded and expiring (ports/key_store.py)."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from domain.dedup import Scope, key_hash, key_hashes, scope_digest
from domain.errors import Unavailable
from ports.clock import Clock
from ports.metrics import Metrics

DEFAULT_MAX_KEYS: Final = 5_000_000
BYTES_A_KEY: Final = 128
KEYS_A_RUN: Final = 5
_FEW: Final = 1024
_BETWEEN_SWEEPS: Final = timedelta(seconds=1)
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


class _Value(NamedTuple):
    until: datetime
    value: bytes

    @property
    def weight(self) -> int:
        """What it counts for, in keys."""
        return 1 + len(self.value) // BYTES_A_KEY


@dataclass(slots=True)
class _Run:
    """What is known of one scope: keys that all end together, and values that each have their own end."""

    until: datetime = _NEVER
    claimed: set[bytes] = field(default_factory=set)
    values: dict[bytes, _Value] = field(default_factory=dict)

    @property
    def weight(self) -> int:
        """What it counts for, in keys."""
        return KEYS_A_RUN + len(self.claimed) + sum(value.weight for value in self.values.values())

    def value(self, hashed: bytes, now: datetime) -> _Value | None:
        """Give a value that is not past its time."""
        value = self.values.get(hashed)
        return value if value is not None and value.until > now else None

    def knows(self, hashed: bytes, now: datetime) -> bool:
        """Say whether a key is remembered, or has a value."""
        return (self.until > now and hashed in self.claimed) or self.value(hashed, now) is not None

    def living(self, now: datetime) -> int:
        """Count the keys and values that are not past their time."""
        values = sum(value.until > now for value in self.values.values())
        return values + (len(self.claimed) if self.until > now else 0)

    def expire(self, now: datetime) -> None:
        """Let go of what is past its time."""
        if self.until <= now:
            self.claimed = set()
        if self.values:
            self.values = {hashed: value for hashed, value in self.values.items() if value.until > now}


class MemoryKeyStore:
    """All keys in sets. Methods never wait, so each is atomic in its loop; other processes do not see them.

    Where the store is full, what has expired goes first, then the run that was longest without a write, as a whole.
    The run that asks never goes: where it alone fills the store, it is refused what it wants to add.

    Args:
        clock: what life spans are measured by.
        max_keys: how many keys are held at most, each in about 100 bytes. A value counts as one, and as one more for
            every 128 bytes of it; a run counts as five.
        metrics: where keys and values that had to go before their time are counted (`dedup_evicted_keys_total`).
    """

    def __init__(self, clock: Clock, *, max_keys: int = DEFAULT_MAX_KEYS, metrics: Metrics | None = None) -> None:
        self._clock = clock
        self._metrics = metrics
        self._max_keys = max_keys
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        self._weight = 0
        self._sweep_at = _FEW
        self._swept = _NEVER

    async def claim(self, scope: Scope, keys: Sequence[str], ttl: timedelta, /) -> list[bool]:
        """Remember keys, and say of each whether it is new; see the port.

        Raises:
            Unavailable: this run alone fills the store. Nothing was remembered.
        """
        now = self._clock.now()
        run = self._open(scope, now)
        hashes = key_hashes(scope, keys)
        self._add(run, len(set(hashes).difference(run.claimed)), now)
        run.until = max(run.until, now + ttl)
        answers: list[bool] = []
        for hashed in hashes:
            answers.append(not run.knows(hashed, now))
            run.claimed.add(hashed)
        return answers

    async def exist(self, scope: Scope, keys: Sequence[str], /) -> list[bool]:
        """Say of each key whether it is remembered, or has a value."""
        run, now = self._look(scope), self._clock.now()
        return [run.knows(key_hash(scope, key), now) for key in keys]

    async def get(self, scope: Scope, key: str, /) -> bytes | None:
        """Give a key's value."""
        run, now, hashed = self._look(scope), self._clock.now(), key_hash(scope, key)
        value = run.value(hashed, now)
        if value is not None:
            return value.value
        return b"" if run.knows(hashed, now) else None

    async def put(self, scope: Scope, key: str, value: bytes, ttl: timedelta, /) -> None:
        """Give a key a value.

        Raises:
            Unavailable: this run alone fills the store. The value it had, if any, stands.
        """
        now = self._clock.now()
        run = self._open(scope, now)
        hashed = key_hash(scope, key)
        old, new = run.values.get(hashed), _Value(now + ttl, value)
        self._add(run, new.weight - (old.weight if old else 0), now)
        run.values[hashed] = new

    async def count(self, scope: Scope, /) -> int:
        """Give how many keys of a scope were claimed and are remembered."""
        run = self._look(scope)
        return len(run.claimed) if run.until > self._clock.now() else 0

    async def forget(self, scope: Scope, /) -> int:
        """Forget a scope's keys and values."""
        forgotten = await self.count(scope)
        run = self._runs.pop(scope_digest(scope), None)
        self._weight -= run.weight if run else 0
        return forgotten

    def _look(self, scope: Scope) -> _Run:
        return self._runs.get(scope_digest(scope)) or _Run()

    def _open(self, scope: Scope, now: datetime) -> _Run:
        """Give a run to write to: the last in the order of dropping, without keys of an earlier life."""
        digest = scope_digest(scope)
        run = self._runs.get(digest)
        if run is None:
            run = self._runs[digest] = _Run()
            self._weight += KEYS_A_RUN
        self._runs.move_to_end(digest)
        if run.until <= now:
            self._weight -= len(run.claimed)
            run.claimed = set()
        return run

    def _add(self, run: _Run, weight: int, now: datetime) -> None:
        """Take up room for a run."""
        if self._weight + weight > self._sweep_at or (
            self._weight + weight > self._max_keys and now >= self._swept + _BETWEEN_SWEEPS
        ):
            self._sweep(run, now)
        while self._weight + weight > self._max_keys and len(self._runs) > 1:
            _, dropped = self._runs.popitem(last=False)
            self._weight -= dropped.weight
            if self._metrics is not None and (living := dropped.living(now)):
                self._metrics.count("dedup_evicted_keys_total", living)
        if self._weight + weight > self._max_keys:
            raise Unavailable("the key store in memory", f"one run fills all of its {self._max_keys} places")
        self._weight += weight

    def _sweep(self, asking: _Run, now: datetime) -> None:
        """Drop what has expired. It looks at every run, so it is done when the store has doubled, or is full."""
        for digest, run in list(self._runs.items()):
            run.expire(now)
            if not (run.claimed or run.values or run is asking):
                del self._runs[digest]
        self._weight = sum(run.weight for run in self._runs.values())
        self._sweep_at = max(_FEW, 2 * self._weight)
        self._swept = now
