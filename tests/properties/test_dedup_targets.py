"""The dedup cache over two targets that fail, hang, lose replies, lose data and come back (R-201, R-206, R-208)."""

import asyncio
from datetime import timedelta
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from adapters.memory.metrics import MemoryMetrics
from application import dedup
from application.dedup import DedupCache, Existence
from domain.dedup import Verdict, make_scope
from domain.errors import Unavailable
from tests.dedup_targets import FAILING, Mode, ScriptedTarget
from tests.virtual_time import VirtualLoop

SCOPE: Final = make_scope("pricing", "run-1")
HOUR: Final = timedelta(hours=1)
DEADLINE: Final = 1.0
KEYS: Final = "abcdef"
ANSWERING: Final[tuple[Mode, ...]] = ("up", "slow")

MODES = st.sampled_from([*ANSWERING * 3, *FAILING])
REQUESTS = st.lists(st.sampled_from(KEYS), min_size=1, max_size=4)


class Target(ScriptedTarget):
    """Remembers how each asker fared with its first claim; a later one renews what was seen, and decides nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.fared: dict[asyncio.Task[object] | None, Mode] = {}

    async def claim(self, *args: object) -> list[bool]:
        self.fared.setdefault(asyncio.current_task(), self.script[0] if self.script else self.mode)
        return await super().claim(*args)  # type: ignore[arg-type]


class TwoTargets(RuleBasedStateMachine):
    """Askers come several at a time; each call of a target takes the next mode of its script."""

    gathers = False

    @initialize()
    def start(self) -> None:
        self.loop = VirtualLoop()
        self.primary, self.secondary = Target(), Target()
        self.cache = DedupCache(self.primary, self.secondary, MemoryMetrics(), DEADLINE, gathers=self.gathers)
        # Which targets hold a key for certain: those that had it when somebody was told so without doubt.
        self.holders: dict[str, set[Target]] = {key: set() for key in KEYS}

    def teardown(self) -> None:
        self.loop.close()

    @rule(which=st.sampled_from(["primary", "secondary"]))
    def lose_data(self, which: str) -> None:
        lost: Target = getattr(self, which)
        lost.lose_data()
        for holders in self.holders.values():
            holders.discard(lost)

    @rule(which=st.sampled_from(["primary", "secondary"]), mode=MODES)
    def change(self, which: str, mode: Mode) -> None:
        getattr(self, which).mode = mode

    @rule(
        requests=st.lists(REQUESTS, min_size=1, max_size=4),
        primary=st.lists(MODES, max_size=4),
        secondary=st.lists(MODES, max_size=4),
    )
    def check(self, requests: list[list[str]], primary: list[Mode], secondary: list[Mode]) -> None:
        known = {target: self.known(target) for target in (self.primary, self.secondary)}
        self.primary.script.extend(primary)
        self.secondary.script.extend(secondary)
        told, ways = self.loop.run(self.ask(requests))
        self.primary.script.clear()
        self.secondary.script.clear()
        for keys, verdict, (first, second) in zip(requests, told, ways, strict=True):
            self.judge(keys, verdict, first, second)
        news = {key: 0 for request in requests for key in request}
        for keys, verdict in zip(requests, told, strict=True):
            for key, is_new in zip(keys, verdict.is_new, strict=True):
                news[key] += is_new
        for key, number in news.items():
            if not any(key in keys for keys in known.values()):
                assert number >= 1, "a lost reply must not make the only ones who ask all seen"
            if all(first in ANSWERING for first, _ in ways):
                assert number <= 1, "while the primary stands"
                if key in known[self.primary]:
                    assert number == 0

    def judge(self, keys: list[str], verdict: Verdict, first: Mode, second: Mode | None) -> None:
        """Hold one asker's answer against how the targets fared with it."""
        answered = {target for target, way in ((self.primary, first), (self.secondary, second)) if way in ANSWERING}
        news = [key for key, is_new in zip(keys, verdict.is_new, strict=True) if is_new]
        assert len(news) == len(set(news)), "a key repeated in one request is new at most once"
        for key in news:
            assert not answered & self.held_before[key], "a target that answers and holds it makes it seen"
        if not answered:
            assert set(news) == set(keys), "a crawl never stops because a cache is down"
        sure = first in ANSWERING and (not news or second in ANSWERING)
        assert verdict.degraded == (not sure)
        if sure:
            for key in news:
                assert key in self.known(self.primary)
                assert key in self.known(self.secondary)
                self.holders[key] = {self.primary, self.secondary}

    async def ask(self, requests: list[list[str]]) -> tuple[list[Verdict], list[tuple[Mode, Mode | None]]]:
        """Ask at once; give the answers, and how each asker fared with primary and secondary."""
        self.held_before = {key: set(holders) for key, holders in self.holders.items()}
        self.primary.fared, self.secondary.fared = {}, {}

        async def timed(keys: list[str]) -> Verdict:
            started = self.loop.time()
            verdict = await dedup.check_if_new(self.cache, SCOPE, keys, HOUR)
            assert self.loop.time() <= started + DEADLINE + 1e-9
            return verdict

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(timed(keys)) for keys in requests]
        ways: list[tuple[Mode, Mode | None]]
        if self.gathers:
            (first,), (second,) = self.primary.fared.values(), self.secondary.fared.values() or [None]
            ways = [(first, second) for _ in tasks]
        else:
            ways = [(self.primary.fared[task], self.secondary.fared.get(task)) for task in tasks]
        return [task.result() for task in tasks], ways

    @rule(keys=REQUESTS, primary=MODES, secondary=MODES)
    def look(self, keys: list[str], primary: Mode, secondary: Mode) -> None:
        known = set[str]()
        modes: list[tuple[Target, Mode]] = [(self.primary, primary), (self.secondary, secondary)]
        for target, mode in modes:
            target.script.append(mode)
            known |= self.known(target) if mode in ANSWERING else set()
        found = [key in known for key in keys]
        degraded = not all(found) and not {primary, secondary} <= set(ANSWERING)
        assert self.loop.run(dedup.exist(self.cache, SCOPE, keys)) == Existence(found, degraded)

    @rule(primary=MODES, secondary=MODES)
    def forget(self, primary: Mode, secondary: Mode) -> None:
        known = [self.known(target) for target in (self.primary, self.secondary)]
        self.primary.script.append(primary)
        self.secondary.script.append(secondary)
        try:
            forgotten = self.loop.run(dedup.forget(self.cache, SCOPE))
        except Unavailable:
            assert not {primary, secondary} <= set(ANSWERING)
            for target in (self.primary, self.secondary):
                for key in set(KEYS) - self.known(target):
                    self.holders[key].discard(target)
        else:
            assert {primary, secondary} <= set(ANSWERING)
            assert forgotten == max(map(len, known))
            self.holders = {key: set() for key in KEYS}

    @invariant()
    def what_is_held_for_certain_is_there(self) -> None:
        for target in (self.primary, self.secondary):
            assert {key for key, holders in self.holders.items() if target in holders} <= self.known(target)

    def known(self, target: Target) -> set[str]:
        found = self.loop.run_until_complete(target.store.exist(SCOPE, KEYS))
        return {key for key, is_known in zip(KEYS, found, strict=True) if is_known}


class GatheredTwoTargets(TwoTargets):
    """The same where those who ask at once are answered by one claim."""

    gathers = True


TestTwoTargets = TwoTargets.TestCase
TestGatheredTwoTargets = GatheredTwoTargets.TestCase
TestTwoTargets.settings = TestGatheredTwoTargets.settings = settings(
    max_examples=150, stateful_step_count=25, deadline=None
)
