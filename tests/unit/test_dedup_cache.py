"""One answer from two targets that fail, hang and lose replies (R-206, R-208, FC-07, FC-09, FC-13)."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from adapters.memory.metrics import MemoryMetrics
from application import dedup
from application.deadlines import GRAIN
from application.dedup import DedupCache, Existence, KeyCount, Value
from application.gathering import HOLD, PROBE
from domain.dedup import Verdict, make_scope
from domain.errors import Unavailable
from tests import dedup_targets
from tests.dedup_targets import FAILING, Mode, ScriptedTarget
from tests.virtual_time import VirtualLoop, run

HOUR = timedelta(hours=1)
SCOPE = make_scope("pricing", "run-1")
N, S = True, False
DEADLINE = 1.0


@pytest.fixture(autouse=True, params=[False, True], ids=["alone", "gathered"])
def _claims(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rig, "gathers", request.param)


class Rig:
    """A cache over two scripted targets; `-` as a mode leaves the secondary out."""

    gathers = False

    def __init__(self, primary: Mode = "up", secondary: Mode | None = "up") -> None:
        self.primary = ScriptedTarget(primary)
        self.secondary = ScriptedTarget(secondary or "up")
        self.metrics = MemoryMetrics()
        self.cache = DedupCache(
            self.primary, self.secondary if secondary else None, self.metrics, DEADLINE, gathers=self.gathers
        )

    def preload(self, target: ScriptedTarget, *keys: str) -> None:
        asyncio.run(target.store.claim(SCOPE, keys, HOUR))

    def check(self, *keys: str, seconds: float | None = None) -> tuple[Verdict, float]:
        return run(dedup.check_if_new(self.cache, SCOPE, keys, HOUR, seconds))


# ----------------------------------------------------------------------------------------------------- the truth table
@pytest.mark.parametrize("failing", FAILING)
@pytest.mark.parametrize(
    ("primary", "secondary", "answer", "degraded", "asked"),
    [
        ("seen", "new", S, False, ["exist"]),
        ("seen", "seen", S, False, ["exist", "claim"]),
        ("seen", "-", S, False, ["exist"]),
        ("new", "new", N, False, ["claim"]),
        ("new", "seen", S, False, ["claim"]),
        ("new", "-", N, True, ["claim"]),
        ("-", "new", N, True, ["claim"]),
        ("-", "seen", S, True, ["claim"]),
        ("-", "-", N, True, ["claim"]),
    ],
)
def test_r206_each_row_of_the_table_for_each_way_to_fail(
    failing: Mode, primary: str, secondary: str, *, answer: bool, degraded: bool, asked: list[str]
) -> None:
    rig = Rig(failing if primary == "-" else "up", failing if secondary == "-" else "up")
    for state, target in ((primary, rig.primary), (secondary, rig.secondary)):
        if state == "seen":
            rig.preload(target, "k")
    told, took = rig.check("k")
    assert told == Verdict([answer], degraded)
    assert took <= DEADLINE
    assert (rig.primary.calls, rig.secondary.calls) == (["claim"], asked)
    assert rig.metrics.total("dedup_degraded_total", call="check") == degraded
    assert rig.metrics.total("dedup_checked_keys_total", outcome="seen") == (not answer)
    assert rig.metrics.total("dedup_checked_keys_total", outcome="unsure") == (answer and degraded)
    assert rig.metrics.total("dedup_checked_keys_total", outcome="new") == (answer and not degraded)
    failed = (primary == "-") + (secondary == "-")
    assert rig.metrics.total("dedup_target_failures_total") == failed


@pytest.mark.parametrize("failing", FAILING)
def test_r208_one_target_alone(failing: Mode) -> None:
    rig = Rig(secondary=None)
    assert rig.check("a", "b", "a")[0] == Verdict([N, N, S], degraded=False)
    assert rig.check("a", "c")[0] == Verdict([S, N], degraded=False)
    rig.primary.mode = failing
    told, took = rig.check("a", "x", "a")
    assert told == Verdict([N, N, S], degraded=True)
    assert took <= DEADLINE
    assert rig.secondary.calls == []


def test_r206_only_what_the_primary_calls_new_is_added_to_the_secondary() -> None:
    rig = Rig()
    rig.preload(rig.primary, "p")
    rig.preload(rig.secondary, "s")
    assert rig.check("p", "n", "s", "n")[0] == Verdict([S, N, S, S], degraded=False)
    (known, told), _ = run(_both(rig, ["p", "n", "s"]))
    assert (known, told) == ([True, True, True], [False, True, True]), "p was not written again"


async def _both(rig: Rig, keys: list[str]) -> tuple[list[bool], list[bool]]:
    return await rig.primary.store.exist(SCOPE, keys), await rig.secondary.store.exist(SCOPE, keys)


def test_r206_the_secondary_remembers_a_seen_key_for_as_long_as_the_primary_promised() -> None:
    rig = Rig()
    clocks = [target.clock for target in (rig.primary, rig.secondary)]
    for ttl, expected in ((timedelta(seconds=1), N), (HOUR, S)):
        told, _ = run(dedup.check_if_new(rig.cache, SCOPE, ["a", "a"], ttl))
        assert told == Verdict([expected, S], degraded=False)
    for clock in clocks:
        clock.advance(3599)
    rig.primary.lose_data()
    assert rig.check("a")[0] == Verdict([S], degraded=False)


def test_r206_who_is_seen_does_not_overtake_whom_the_primary_called_new() -> None:
    """Were the secondary claimed for a key that the primary alone has, the winner would be told "seen" there."""
    rig = Rig()
    rig.preload(rig.primary, "k")  # by one whose claim on the secondary is still to come
    assert rig.check("k")[0] == Verdict([S], degraded=False)
    assert asyncio.run(rig.secondary.store.claim(SCOPE, ["k"], HOUR)) == [N]


@pytest.mark.parametrize("failing", FAILING)
def test_r206_a_secondary_that_fails_delays_a_seen_key_little_and_changes_nothing(failing: Mode) -> None:
    rig = Rig(secondary=failing)
    rig.preload(rig.primary, "k")
    told, took = rig.check("k")
    assert told == Verdict([S], degraded=False)
    assert took <= DEADLINE * dedup.RENEWAL_SHARE + 1e-9
    assert rig.metrics.total("dedup_target_failures_total", target="secondary", call="renew") == 1


@pytest.mark.parametrize("lost", ["lose", "write and hang"])
def test_a_claim_whose_reply_was_lost_is_not_told_seen_by_itself(lost: Mode) -> None:
    rig = Rig(lost, lost)
    assert rig.check("k")[0] == Verdict([N], degraded=True)
    rig.primary.mode = "up"
    assert rig.check("k")[0] == Verdict([S], degraded=False), "it had been written all the same"


# ----------------------------------------------------------------------------------------------------------- deadlines
@pytest.mark.parametrize(
    ("primary", "secondary", "seconds", "took"),
    [
        ("hang", "up", None, 0.5),
        ("up", "hang", None, 1.0),
        ("hang", "hang", None, 1.0),
        ("hang", "hang", 0.2, 0.2),
        ("hang", "hang", 60.0, 1.0),
        ("hang", "hang", -1.0, 0.0),
        ("slow", "slow", None, 0.2),
        ("hang", None, None, 1.0),
        ("slow", None, 0.15, 0.1),
    ],
)
def test_r206_a_hanging_target_never_delays_an_answer_past_its_deadline(
    primary: Mode, secondary: Mode | None, seconds: float | None, took: float
) -> None:
    told, measured = Rig(primary, secondary).check("k", seconds=seconds)
    assert told.is_new == [N]
    assert measured <= took + 1e-9
    assert measured == pytest.approx(took, abs=HOLD + GRAIN if Rig.gathers else 1e-9)


@pytest.mark.parametrize("deadline", [0.001, HOLD, 2 * HOLD, dedup.UNHURRIED, 0.1])
def test_a_store_that_answers_within_half_of_a_short_deadline_is_heard(
    deadline: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for other claims where that would be most of his time."""
    monkeypatch.setattr(dedup_targets, "SLOW_SECONDS", deadline / 2)
    rig = Rig("slow", None)
    cache = replace(rig.cache, deadline=deadline)

    async def check(key: str) -> tuple[bool, float]:
        loop = asyncio.get_running_loop()
        start = loop.time()
        told = await dedup.check_if_new(cache, SCOPE, [key], HOUR)
        return told.degraded, loop.time() - start

    async def work() -> list[tuple[bool, float]]:
        return [await check(str(number)) for number in range(2 * PROBE)]

    told, _ = run(work())
    assert {degraded for degraded, _ in told} == {False}
    assert max(took for _, took in told) <= deadline


@pytest.mark.parametrize("seconds", [None, 0.3, -1.0])
@pytest.mark.parametrize("call", ["exist", "get", "put"])
def test_no_call_about_a_key_outlasts_its_deadline(call: str, seconds: float | None) -> None:
    rig = Rig("hang", "hang")
    work: dict[str, Callable[[], Any]] = {
        "exist": lambda: dedup.exist(rig.cache, SCOPE, ["k"], seconds),
        "get": lambda: dedup.get(rig.cache, SCOPE, "k", seconds),
        "put": lambda: dedup.put(rig.cache, SCOPE, "k", b"v", HOUR, seconds),
    }

    async def timed() -> float:
        try:
            told = await work[call]()
            assert told.degraded
        except Unavailable:
            assert call == "put"
        return asyncio.get_running_loop().time()

    assert run(timed())[0] == pytest.approx(max(0.0, 1.0 if seconds is None else seconds))


def test_counting_and_forgetting_have_the_time_that_the_caller_gives() -> None:
    rig = Rig("hang", "slow")
    rig.preload(rig.secondary, "a")
    assert run(dedup.count(rig.cache, SCOPE, 5)) == (KeyCount(1, degraded=True), 5)
    assert run(dedup.count(rig.cache, SCOPE)) == (KeyCount(1, degraded=True), dedup.PATIENCE)


# --------------------------------------------------------------------------------------------------------------- FC-13
def found(rig: Rig, seconds: float | None = None) -> tuple[Existence, float]:
    return run(dedup.exist(rig.cache, SCOPE, ["k"], seconds))


@pytest.mark.parametrize("failing", FAILING)
def test_fc13_1_the_primary_fails_and_the_secondary_has_it_later(failing: Mode) -> None:
    rig = Rig(failing, "slow")
    rig.preload(rig.secondary, "k")
    told, took = found(rig)
    assert told == Existence([True], degraded=False)
    assert took == pytest.approx(0.1)
    value, took = run(dedup.get(rig.cache, SCOPE, "k"))
    assert value == Value(b"", degraded=True), "the primary may have a value"
    assert took <= 0.5


def test_fc13_2_the_primary_says_miss_at_once_and_the_secondary_has_it() -> None:
    rig = Rig("up", "slow")
    asyncio.run(rig.secondary.store.put(SCOPE, "k", b"v", HOUR))
    assert found(rig)[0] == Existence([True], degraded=False)
    assert run(dedup.get(rig.cache, SCOPE, "k"))[0] == Value(b"v", degraded=False)


def test_fc13_3_the_primary_hangs_and_the_secondary_has_it_well_inside_the_deadline() -> None:
    rig = Rig("hang", "up")
    asyncio.run(rig.secondary.store.put(SCOPE, "k", b"v", HOUR))
    assert found(rig) == (Existence([True], degraded=False), 0.0)
    assert run(dedup.get(rig.cache, SCOPE, "k")) == (Value(b"v", degraded=False), 0.5)
    assert rig.primary.ended == 2, "nobody waits there any more"


@pytest.mark.parametrize("second", FAILING)
@pytest.mark.parametrize("first", FAILING)
def test_fc13_4_both_fail(first: Mode, second: Mode) -> None:
    rig = Rig(first, second)
    for target in (rig.primary, rig.secondary):
        rig.preload(target, "k")
    told, took = found(rig)
    assert told == Existence([False], degraded=True)
    assert took <= DEADLINE
    assert run(dedup.get(rig.cache, SCOPE, "k"))[0] == Value(None, degraded=True)
    assert rig.metrics.total("dedup_degraded_total", call="exist") == 1
    assert rig.metrics.total("dedup_degraded_total", call="get") == 1
    assert rig.metrics.total("dedup_target_failures_total") == 4


@pytest.mark.parametrize("call", ["check", "exist", "get", "put", "count", "forget"])
@pytest.mark.parametrize("turns", range(8))
@pytest.mark.parametrize("modes", [("hang", "hang"), ("up", "hang"), ("hang", "up"), ("refuse", "hang")])
def test_fc13_5_the_caller_cancels_in_the_middle(call: str, turns: int, modes: tuple[Mode, Mode]) -> None:
    """At each of the first turns of the loop. No task is left, no failure unseen: `VirtualLoop.run` holds that."""
    rig = Rig(*modes)
    work: dict[str, Callable[[], Awaitable[Any]]] = {
        "check": lambda: dedup.check_if_new(rig.cache, SCOPE, ["k"], HOUR),
        "exist": lambda: dedup.exist(rig.cache, SCOPE, ["k"]),
        "get": lambda: dedup.get(rig.cache, SCOPE, "k"),
        "put": lambda: dedup.put(rig.cache, SCOPE, "k", b"v", HOUR),
        "count": lambda: dedup.count(rig.cache, SCOPE),
        "forget": lambda: dedup.forget(rig.cache, SCOPE),
    }

    async def cancel() -> None:
        asked = asyncio.ensure_future(work[call]())
        for _ in range(turns):
            await asyncio.sleep(0)
        if not asked.done():
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
        assert rig.primary.ended == len(rig.primary.calls)
        assert rig.secondary.ended == len(rig.secondary.calls)

    _, took = run(cancel())
    assert took == 0


# --------------------------------------------------------------------------------------------------------------- FC-09
@pytest.mark.parametrize("call", ["check", "exist", "get", "put", "count", "forget"])
@pytest.mark.parametrize("modes", [("mistake", "up"), ("mistake", "hang"), ("up", "mistake"), ("mistake", "mistake")])
def test_fc09_3_a_mistake_of_our_own_surfaces_as_what_it_is(call: str, modes: tuple[Mode, Mode]) -> None:
    rig = Rig(*modes)
    work: dict[str, Callable[[], Any]] = {
        "check": lambda: dedup.check_if_new(rig.cache, SCOPE, ["k"], HOUR),
        "exist": lambda: dedup.exist(rig.cache, SCOPE, ["k"]),
        "get": lambda: dedup.get(rig.cache, SCOPE, "k"),
        "put": lambda: dedup.put(rig.cache, SCOPE, "k", b"v", HOUR),
        "count": lambda: dedup.count(rig.cache, SCOPE),
        "forget": lambda: dedup.forget(rig.cache, SCOPE),
    }
    with pytest.raises(TypeError, match="a fault of ours"):
        run(work[call]())
    assert rig.metrics.total("dedup_degraded_total") == 0


def test_fc09_failures_are_counted_by_target_call_and_reason() -> None:
    rig = Rig("refuse", "hang")
    rig.check("k")
    rig.primary.mode, rig.secondary.mode = "misconfigured", "cancel"
    found(rig)
    series = {
        tuple(dict(labels)[name] for name in ("target", "call", "reason")): number
        for (name, labels), number in rig.metrics.counters.items()
        if name == "dedup_target_failures_total"
    }
    assert series == {
        ("primary", "claim", "unavailable"): 1,
        ("secondary", "claim", "timeout"): 1,
        ("primary", "exist", "misconfigured"): 1,
        ("secondary", "exist", "cancelled"): 1,
    }


# ---------------------------------------------------------------------------------------------- values, counts, forget
def test_r202_a_value_is_put_on_both_and_a_miss_is_told() -> None:
    rig = Rig()
    assert run(dedup.put(rig.cache, SCOPE, "k", b"z, the older", HOUR))[0] is False
    rig.secondary.mode = "refuse"
    assert run(dedup.put(rig.cache, SCOPE, "k", b"a, the newer", HOUR))[0] is True
    assert rig.metrics.total("dedup_degraded_total", call="put") == 1
    rig.secondary.mode = "up"
    assert run(dedup.get(rig.cache, SCOPE, "k"))[0] == Value(b"a, the newer", degraded=False), "the primary's"
    rig.primary.mode = rig.secondary.mode = "refuse"
    with pytest.raises(Unavailable, match="no target took the value"):
        run(dedup.put(rig.cache, SCOPE, "k", b"three", HOUR))


def test_r202_a_value_wins_over_a_key_without_one() -> None:
    rig = Rig()
    rig.preload(rig.primary, "k")
    asyncio.run(rig.secondary.store.put(SCOPE, "k", b"v", HOUR))
    assert run(dedup.get(rig.cache, SCOPE, "k"))[0] == Value(b"v", degraded=False)
    rig.secondary.mode = "refuse"
    assert run(dedup.get(rig.cache, SCOPE, "k"))[0] == Value(b"", degraded=True)
    assert run(dedup.get(rig.cache, SCOPE, "unknown"))[0] == Value(None, degraded=True)


def test_r209_a_run_is_counted_by_the_target_that_knows_more() -> None:
    rig = Rig()
    rig.preload(rig.primary, "a")
    rig.preload(rig.secondary, "a", "b")
    assert run(dedup.count(rig.cache, SCOPE))[0] == KeyCount(2, degraded=False)
    rig.secondary.mode = "refuse"
    assert run(dedup.count(rig.cache, SCOPE))[0] == KeyCount(1, degraded=True)
    rig.primary.mode = "refuse"
    assert run(dedup.count(rig.cache, SCOPE))[0] == KeyCount(0, degraded=True)


def test_r209_forgetting_is_done_on_both_or_said_not_to_be() -> None:
    rig = Rig()
    rig.preload(rig.primary, "a")
    rig.preload(rig.secondary, "a", "b")
    rig.secondary.mode = "refuse"
    with pytest.raises(Unavailable, match="repeat the call"):
        run(dedup.forget(rig.cache, SCOPE))
    rig.secondary.mode = "up"
    assert run(dedup.forget(rig.cache, SCOPE))[0] == 2
    assert rig.check("a", "b")[0] == Verdict([N, N], degraded=False)


# --------------------------------------------------------------------------------------------------------------- FC-07
def test_fc07_who_claims_before_the_fetch_loses_the_page_when_the_fetch_fails_but_only_for_its_run() -> None:
    rig = Rig()
    page = "https://shop.example/item/1"
    assert rig.check(page)[0].is_new == [N]  # then the crawler crashes, or gets 503
    assert rig.check(page)[0].is_new == [S], "a claim is a claim: the contract says so"
    next_run = make_scope("pricing", "run-2")
    told, _ = run(dedup.check_if_new(rig.cache, next_run, [page], HOUR))
    assert told.is_new == [N], "entries of run 1 do not answer for run 2"


def test_fc07_exists_first_and_set_after_success_loses_no_page() -> None:
    rig = Rig()
    page = "https://shop.example/item/1"

    async def crawl(scope: Any, *, succeeds: bool) -> bool:
        """Give whether the page was fetched."""
        if (await dedup.exist(rig.cache, scope, [page])).exists[0]:
            return False
        if succeeds:
            await dedup.put(rig.cache, scope, page, b"", HOUR)
        return True

    next_run = make_scope("pricing", "run-2")
    fetched = [
        run(crawl(scope, succeeds=succeeds))[0]
        for scope, succeeds in [(SCOPE, False), (SCOPE, False), (SCOPE, True), (SCOPE, True), (next_run, True)]
    ]
    assert fetched == [True, True, True, False, True]
    assert rig.check(page)[0].is_new == [S], "what was set is known to those who claim, too"


def test_r206_of_many_concurrent_askers_one_is_told_new_in_each_round() -> None:
    rig = Rig("slow", "slow")

    async def ask() -> list[list[bool]]:
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(dedup.check_if_new(rig.cache, SCOPE, ["a", "b"], HOUR)) for _ in range(64)]
        return [task.result().is_new for task in asked]

    loop = VirtualLoop()
    for expected in ([1, 1], [0, 0]):
        answers = loop.run(ask())
        assert [sum(answer[index] for answer in answers) for index in (0, 1)] == expected
    loop.close()
