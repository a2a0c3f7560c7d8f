"""Answering "is this key new for this run?" from one or two targets, in time, whatever fails (R-201, R-206, R-208)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Final, NamedTuple, TypeVar

from application.deadlines import Deadlines
from application.gathering import HOLD, Gathering
from domain.dedup import Scope, Verdict, verdict
from domain.errors import Misconfigured, Unavailable
from ports.key_store import KeyStore
from ports.metrics import Metrics

T = TypeVar("T")

PRIMARY_SHARE: Final = 0.5
"""Of the time for an answer about keys, what the primary may use before the secondary decides."""

RENEWAL_SHARE: Final = 0.1
"""Of the time for an answer about keys, what may go to making the secondary remember seen ones longer."""

UNHURRIED: Final = 10 * HOLD
"""Seconds for an answer about keys, from which on claims may wait for others."""

FEW: Final = 16
"""Keys up to which a claim is worth gathering with others."""

PATIENCE: Final = 30.0
"""Seconds for counting or forgetting a run, which may take many steps, where the caller sets no limit."""


@dataclass(frozen=True, slots=True)
class DedupCache:
    """The targets behind one answer.

    Attributes:
        deadline: seconds after which an answer about keys is given with what is known by then.
        gathers: whether claims of few keys that come close together are made as one, unless the deadline is too short
            to wait: for targets that claim many as fast as one.
    """

    primary: KeyStore
    secondary: KeyStore | None
    metrics: Metrics
    deadline: float = 1.0
    gathers: bool = False
    limits: Deadlines = field(default_factory=Deadlines, init=False, repr=False)
    together: "Gathering[tuple[Scope, timedelta], Sequence[str], Verdict]" = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Gather no claim yet."""
        answer = partial(_check_all, self, seconds=self.deadline - HOLD)
        object.__setattr__(self, "together", Gathering(answer))

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

    A target that was asked and did not answer is not asked again. Keys that are called new although a target was
    missing that may know them are counted as `unsure`, apart from `new` (FC-09). Keys that the primary has seen are
    renewed on the secondary, for the answer "seen" promises `ttl` there as well; where that fails, the answer stands.

    Args:
        cache: the targets.
        scope: service and run.
        keys: checked keys; one that is repeated is new at most once.
        ttl: how long they are remembered at least.
        seconds: the caller's own time limit, where it is shorter than the cache's.
    """
    is_unhurried = cache.deadline >= UNHURRIED and (seconds is None or seconds >= cache.deadline)
    if cache.gathers and is_unhurried and len(keys) <= FEW:
        return await cache.together.ask((scope, ttl), keys)
    return (await _check_all(cache, (scope, ttl), [keys], seconds))[0]


async def _check_all(
    cache: DedupCache, where: tuple[Scope, timedelta], asked_in_all: list[Sequence[str]], seconds: float | None = None
) -> list[Verdict]:
    """Answer several claims of one scope and life span by one claim; each gets the verdict that it would get alone."""
    scope, ttl = where
    keys = asked_in_all[0] if len(asked_in_all) == 1 else [key for asked in asked_in_all for key in asked]
    first, limit = _limits(cache, seconds)
    end = asyncio.get_running_loop().time() + limit
    claimed = await _answer(cache, "primary", "claim", cache.primary.claim(scope, keys, ttl), first)
    asked = keys if claimed is None else [key for key, new in zip(keys, claimed, strict=True) if new]
    second: list[bool] | None
    if cache.secondary is None:
        second = None if claimed is None else [True] * len(asked)
    elif not asked:
        second = []
    else:
        left = end - asyncio.get_running_loop().time()
        second = await _answer(cache, "secondary", "claim", cache.secondary.claim(scope, asked, ttl), left)
    if cache.secondary is not None and claimed is not None and second is not None and not all(claimed):
        seen = list(dict.fromkeys(key for key, new in zip(keys, claimed, strict=True) if not new))
        left = min(end - asyncio.get_running_loop().time(), limit * RENEWAL_SHARE)
        await _answer(cache, "secondary", "renew", _renew(cache.secondary, scope, seen, ttl), left)
    told = _verdicts(asked_in_all, claimed, second)
    _count_checked(cache, told, len(keys))
    return told


def _verdicts(
    asked_in_all: list[Sequence[str]], claimed: list[bool] | None, second: list[bool] | None
) -> list[Verdict]:
    """Give each claim its part of what the targets said of all keys, and the verdict that follows from it."""
    told: list[Verdict] = []
    start = start_of_second = 0
    for keys in asked_in_all:
        end = start + len(keys)
        part = None if claimed is None else claimed[start:end]
        end_of_second = start_of_second + (len(keys) if part is None else sum(part))
        told.append(verdict(keys, part, None if second is None else second[start_of_second:end_of_second]))
        start, start_of_second = end, end_of_second
    return told


def _count_checked(cache: DedupCache, told: list[Verdict], keys: int) -> None:
    new = sum([sum(one.is_new) for one in told if not one.degraded])
    degraded = [one for one in told if one.degraded]
    unsure = sum([sum(one.is_new) for one in degraded])
    for outcome, number in (("new", new), ("unsure", unsure), ("seen", keys - new - unsure)):
        if number:
            cache.metrics.count("dedup_checked_keys_total", number, outcome=outcome)
    if degraded:
        cache.metrics.count("dedup_degraded_total", len(degraded), call="check")


async def exist(cache: DedupCache, scope: Scope, keys: Sequence[str], seconds: float | None = None) -> Existence:
    """Say which keys any target knows; degraded where one that failed might have known a missing key (FC-13).

    Where one target knows them all, the other is not waited for.
    """
    answers = await _ask_all(
        cache, "exist", lambda store: store.exist(scope, keys), _limits(cache, seconds), lambda _, known: all(known)
    )
    found = [any(answer[index] for answer in answers if answer is not None) for index in range(len(keys))]
    return Existence(found, _told_degraded(cache, "exist", degraded=None in answers and not all(found)))


async def get(cache: DedupCache, scope: Scope, key: str, seconds: float | None = None) -> Value:
    """Give a key's value from any target, a value before none; degraded where a failed one might have had it (FC-13).

    Where the primary has a value, the secondary is not waited for; the secondary's counts where the primary has none,
    or did not answer.
    """

    async def ask(store: KeyStore) -> tuple[bytes | None]:
        return (await store.get(scope, key),)

    answers = await _ask_all(
        cache, "get", ask, _limits(cache, seconds), lambda target, found: target == "primary" and bool(found[0])
    )
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

    _, limit = _limits(cache, seconds)
    answers = await _ask_all(cache, "put", ask, (limit, limit))
    if not any(answers):
        raise Unavailable("the dedup cache", "no target took the value")
    return _told_degraded(cache, "put", degraded=None in answers)


async def count(cache: DedupCache, scope: Scope, seconds: float | None = None) -> KeyCount:
    """Give how many keys a run has: of two targets, what the one that knows more says."""
    limit = PATIENCE if seconds is None else seconds
    answers = await _ask_all(cache, "count", lambda store: store.count(scope), (limit, limit))
    known = [answer for answer in answers if answer is not None]
    return KeyCount(max(known, default=0), _told_degraded(cache, "count", degraded=None in answers))


async def forget(cache: DedupCache, scope: Scope, seconds: float | None = None) -> int:
    """Forget a run on every target, and give how many keys it had.

    Raises:
        Unavailable: a target did not answer and may still know the run; repeating the call is safe.
    """
    limit = PATIENCE if seconds is None else seconds
    answers = await _ask_all(cache, "forget", lambda store: store.forget(scope), (limit, limit))
    numbers = [answer for answer in answers if answer is not None]
    if len(numbers) < len(answers):
        raise Unavailable("the dedup cache", "a target did not answer and may still know the run; repeat the call")
    return max(numbers)


async def _renew(store: KeyStore, scope: Scope, keys: Sequence[str], ttl: timedelta) -> None:
    """Let a store remember for `ttl` from now those keys that it has (ADR 0010).

    What it has not is not claimed: whom the primary told "new" may be on the way to it, and would be told "seen".
    """
    known = [key for key, is_known in zip(keys, await store.exist(scope, keys), strict=True) if is_known]
    if known:
        await store.claim(scope, known, ttl)


def _limits(cache: DedupCache, seconds: float | None) -> tuple[float, float]:
    """Give how long the primary may take, and how long the whole answer."""
    limit = cache.deadline if seconds is None else min(seconds, cache.deadline)
    return limit if cache.secondary is None else limit * PRIMARY_SHARE, limit


async def _ask_all(
    cache: DedupCache,
    call: str,
    ask: Callable[[KeyStore], Awaitable[T]],
    limits: tuple[float, float],
    is_enough: Callable[[str, T], bool] = lambda _, __: False,
) -> list[T | None]:
    """Ask every target at once. No task outlives the call.

    Args:
        cache: the targets.
        call: its name in figures.
        ask: asks one.
        limits: seconds for the primary and for the secondary.
        is_enough: given a target's name and its answer: whether the other need not be waited for.

    Returns:
        An answer for each target; None stands for one that failed, was too slow, or was not waited for.
    """
    tasks = {
        asyncio.create_task(_answer(cache, name, call, ask(store), limit)): name
        for (name, store), limit in zip(cache.targets.items(), limits, strict=False)
    }
    waiting = set(tasks)
    enough = False
    try:
        while waiting and not enough:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            answers = [(tasks[task], task.result()) for task in done]
            enough = any(answer is not None and is_enough(name, answer) for name, answer in answers)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return [None if task.cancelled() else task.result() for task in tasks]


async def _answer(cache: DedupCache, target: str, call: str, asked: Awaitable[T], seconds: float) -> T | None:
    """Wait for a target so long; None where it failed or was too slow. Mistakes of our own are raised (FC-09)."""
    try:
        return await cache.limits.within(seconds, asked)
    except TimeoutError:
        reason = "timeout"
    except (Misconfigured, Unavailable) as error:
        reason = error.code
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        reason = "cancelled"  # from within the target, as of a connection that was closed: nobody asked us to end
    cache.metrics.count("dedup_target_failures_total", target=target, call=call, reason=reason)
    return None


def _told_degraded(cache: DedupCache, call: str, *, degraded: bool) -> bool:
    if degraded:
        cache.metrics.count("dedup_degraded_total", call=call)
    return degraded
