"""Answering "is this key new for this run?" from one or two targets, in time, whatever fails (R-201, R-206, R-208)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, NamedTuple, TypeVar

from domain.dedup import Scope, Verdict, verdict
from domain.errors import Unavailable
from ports.key_store import KeyStore
from ports.metrics import Metrics

T = TypeVar("T")

PRIMARY_SHARE: Final = 0.5
"""Of the time for a claim, what the primary may use before the secondary decides."""


@dataclass(frozen=True, slots=True)
class DedupCache:
    """The targets behind one answer.

    Attributes:
        deadline: seconds after which an answer is given with what is known by then.
    """

    primary: KeyStore
    secondary: KeyStore | None
    metrics: Metrics
    deadline: float = 1.0

    @property
    def targets(self) -> dict[str, KeyStore]:
        """The targets by name."""
        return {"primary": self.primary} | ({} if self.secondary is None else {"secondary": self.secondary})


class Value(NamedTuple):
    """What was found under a key: None where it is unknown, or no target could say."""

    value: bytes | None
    degraded: bool


class Existence(NamedTuple):
    """Which keys are known."""

    exists: list[bool]
    degraded: bool


class KeyCount(NamedTuple):
    """How many keys a run has."""

    keys: int
    degraded: bool


async def check_if_new(
    cache: DedupCache, scope: Scope, keys: Sequence[str], ttl: timedelta, seconds: float | None = None
) -> Verdict:
    """Say of each key whether it is new in its scope, and remember it (R-201). Never fails because a target is down.

    One round trip to each target; a target that was asked and did not answer is not asked again.

    Args:
        cache: the targets.
        scope: service and run.
        keys: checked keys; one that is repeated is new at most once.
        ttl: how long they are remembered at least.
        seconds: the caller's own time limit, where it is shorter than the cache's.
    """
    limit = cache.deadline if seconds is None else min(seconds, cache.deadline)
    end = asyncio.get_running_loop().time() + limit
    share = limit if cache.secondary is None else limit * PRIMARY_SHARE
    claimed = await _answer(cache, "primary", "claim", cache.primary.claim(scope, keys, ttl), share)
    asked = keys if claimed is None else [key for key, new in zip(keys, claimed, strict=True) if new]
    second: list[bool] | None
    if cache.secondary is None:
        second = None if claimed is None else [True] * len(asked)
    elif not asked:
        second = []
    else:
        left = end - asyncio.get_running_loop().time()
        second = await _answer(cache, "secondary", "claim", cache.secondary.claim(scope, asked, ttl), left)
    if claimed is None and second is None:
        told = Verdict([True] * len(keys), degraded=True)
    else:
        told = verdict(claimed, second)
    new = sum(told.is_new)
    cache.metrics.count("dedup_checked_keys_total", new, outcome="new")
    cache.metrics.count("dedup_checked_keys_total", len(keys) - new, outcome="seen")
    if told.degraded:
        cache.metrics.count("dedup_degraded_total", call="check")
    return told


async def exist(cache: DedupCache, scope: Scope, keys: Sequence[str], seconds: float | None = None) -> Existence:
    """Say which keys any target knows; degraded where one that failed might have known a missing key (FC-13)."""
    answers = await _ask_all(cache, "exist", lambda store: store.exist(scope, keys), seconds)
    found = [any(answer[index] for answer in answers if answer is not None) for index in range(len(keys))]
    return Existence(found, _told_degraded(cache, "exist", degraded=None in answers and not all(found)))


async def get(cache: DedupCache, scope: Scope, key: str, seconds: float | None = None) -> Value:
    """Give a key's value from any target, a value before none; degraded where a failed one might have had it."""

    async def ask(store: KeyStore) -> tuple[bytes | None]:
        return (await store.get(scope, key),)

    answers = await _ask_all(cache, "get", ask, seconds)
    values = [answer[0] for answer in answers if answer is not None and answer[0] is not None]
    value = max(values, key=bool, default=None)
    return Value(value, _told_degraded(cache, "get", degraded=None in answers and not value))


async def put(
    cache: DedupCache, scope: Scope, key: str, value: bytes, ttl: timedelta, seconds: float | None = None
) -> bool:
    """Give a key a value on every target.

    Returns:
        Whether a target missed it.

    Raises:
        Unavailable: all of them did.
    """

    async def ask(store: KeyStore) -> bool:
        await store.put(scope, key, value, ttl)
        return True

    answers = await _ask_all(cache, "put", ask, seconds)
    if not any(answers):
        raise Unavailable("the dedup cache", "no target took the value")
    return _told_degraded(cache, "put", degraded=None in answers)


async def count(cache: DedupCache, scope: Scope, seconds: float | None = None) -> KeyCount:
    """Give how many keys a run has: of two targets, what the one that knows more says."""
    answers = await _ask_all(cache, "count", lambda store: store.count(scope), seconds)
    known = [answer for answer in answers if answer is not None]
    return KeyCount(max(known, default=0), _told_degraded(cache, "count", degraded=None in answers))


async def forget(cache: DedupCache, scope: Scope, seconds: float | None = None) -> int:
    """Forget a run on every target, and give how many keys it had.

    Raises:
        Unavailable: a target did not answer and may still know the run; repeating the call is safe.
    """
    answers = await _ask_all(cache, "forget", lambda store: store.forget(scope), seconds)
    numbers = [answer for answer in answers if answer is not None]
    if len(numbers) < len(answers):
        raise Unavailable("the dedup cache", "a target did not answer and may still know the run; repeat the call")
    return max(numbers)


async def _ask_all(
    cache: DedupCache, call: str, ask: Callable[[KeyStore], Awaitable[T]], seconds: float | None
) -> list[T | None]:
    """Ask every target at once; None stands for one that failed or was too slow. No task outlives the call."""
    limit = cache.deadline if seconds is None else min(seconds, cache.deadline)
    async with asyncio.TaskGroup() as tasks:
        asked = [
            tasks.create_task(_answer(cache, name, call, ask(store), limit)) for name, store in cache.targets.items()
        ]
    return [task.result() for task in asked]


async def _answer(cache: DedupCache, target: str, call: str, asked: Awaitable[T], seconds: float) -> T | None:
    """Wait for a target so long; None where it failed or was too slow. Mistakes of our own are raised (FC-09)."""
    try:
        async with asyncio.timeout(max(seconds, 0)):
            return await asked
    except (Unavailable, TimeoutError) as error:
        reason = "timeout" if isinstance(error, TimeoutError) else error.code
        cache.metrics.count("dedup_target_failures_total", target=target, call=call, reason=reason)
        return None


def _told_degraded(cache: DedupCache, call: str, *, degraded: bool) -> bool:
    if degraded:
        cache.metrics.count("dedup_degraded_total", call=call)
    return degraded
