"""The SQLite key store and the one in memory answer the same random program alike (R-201 to R-209, FC-07)."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.memory.clock import ManualClock
from adapters.memory.key_store import MemoryKeyStore
from adapters.sqlite.database import Database
from adapters.sqlite.key_store import KEYS, SqliteKeyStore
from domain.dedup import Scope, make_scope
from ports.key_store import KeyStore
from tests.examples import START

SCOPES = [make_scope("a", "1"), make_scope("a", "2"), make_scope("long:a", "1")]
NAMES = ["k0", "k1", "k2", "k3", "é", "x" * 600]

scopes = st.sampled_from(SCOPES)
names = st.sampled_from(NAMES)
ttls = st.sampled_from([1, 2, 5, 10]).map(lambda seconds: timedelta(seconds=seconds))
PROGRAMS = st.lists(
    st.one_of(
        st.tuples(st.just("claim"), scopes, st.lists(names, min_size=1, max_size=5), ttls),
        st.tuples(st.just("exist"), scopes, st.lists(names, min_size=1, max_size=5)),
        st.tuples(st.just("get"), scopes, names),
        st.tuples(st.just("put"), scopes, names, st.binary(max_size=3), ttls),
        st.tuples(st.just("count"), scopes),
        st.tuples(st.just("forget"), scopes),
        st.tuples(st.just("pass"), st.sampled_from([0.5, 1, 3, 10])),
    ),
    min_size=10,
    max_size=50,
)


class Plain:
    """What the port says, written down without a thought for speed; it judges the other two."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.until: dict[Scope, Any] = {}
        self.claimed: set[tuple[Scope, str]] = set()
        self.values: dict[tuple[Scope, str], tuple[Any, bytes]] = {}

    async def claim(self, scope: Scope, keys: list[str], ttl: timedelta) -> list[bool]:
        now = self.clock.now()
        if self.until.get(scope, now) <= now:
            self.claimed = {key for key in self.claimed if key[0] != scope}
        self.until[scope] = max(self.until.get(scope, now), now + ttl)
        answers: list[bool] = []
        for key in keys:
            answers.append(not (await self.exist(scope, [key]))[0])
            self.claimed.add((scope, key))
        return answers

    async def exist(self, scope: Scope, keys: list[str]) -> list[bool]:
        return [await self.get(scope, key) is not None for key in keys]

    async def get(self, scope: Scope, key: str) -> bytes | None:
        now = self.clock.now()
        until, value = self.values.get((scope, key), (now, b""))
        if until > now:
            return value
        return b"" if self.until.get(scope, now) > now and (scope, key) in self.claimed else None

    async def put(self, scope: Scope, key: str, value: bytes, ttl: timedelta) -> None:
        self.values[scope, key] = (self.clock.now() + ttl, value)

    async def count(self, scope: Scope) -> int:
        now = self.clock.now()
        return sum(key[0] == scope for key in self.claimed) if self.until.get(scope, now) > now else 0

    async def forget(self, scope: Scope) -> int:
        forgotten = await self.count(scope)
        self.claimed = {key for key in self.claimed if key[0] != scope}
        self.values = {key: value for key, value in self.values.items() if key[0] != scope}
        self.until.pop(scope, None)
        return forgotten


async def run(program: list[tuple[Any, ...]], path: Path) -> None:
    clock = ManualClock(START)
    database = Database(path, KEYS)
    plain = Plain(clock)
    stores: list[KeyStore] = [MemoryKeyStore(clock), SqliteKeyStore(database, clock)]
    try:
        for name, *arguments in program:
            if name == "pass":
                clock.advance(*arguments)
                continue
            judge: Callable[..., Awaitable[Any]] = getattr(plain, name)
            expected = await judge(*arguments)
            for store in stores:
                assert await getattr(store, name)(*arguments) == expected, (type(store).__name__, name, arguments)
    finally:
        await database.aclose()


@settings(max_examples=100, deadline=None)
@given(PROGRAMS)
def test_r209_both_stores_answer_as_the_port_says(program: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(program, Path(folder) / "keys.db"))
