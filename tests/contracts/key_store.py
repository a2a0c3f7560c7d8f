"""What every key store promises (ports/key_store.py). Subclass it and provide the `store` and `let_pass` fixtures."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import ClassVar

from domain.dedup import Scope, make_scope
from ports.key_store import KeyStore

HOUR = timedelta(hours=1)
PRICING = make_scope("pricing", "run-1")

LetPass = Callable[[float], Awaitable[None]]


class KeyStoreContract:
    """One class of tests an adapter.

    Attributes:
        adapter: the module under test.
        many: keys of one call.
        short: a life span in seconds, long enough that tests on this engine do not outlive it by accident.
    """

    adapter: ClassVar[str]
    many: ClassVar[int] = 700
    short: ClassVar[float] = 1.0

    async def test_r201_a_key_is_new_once(self, store: KeyStore) -> None:
        assert await store.claim(PRICING, ["a", "b"], HOUR) == [True, True]
        assert await store.claim(PRICING, ["b", "c", "a"], HOUR) == [False, True, False]

    async def test_r209_a_key_repeated_in_one_call_is_new_at_most_once(self, store: KeyStore) -> None:
        assert await store.claim(PRICING, ["a", "b", "a", "a"], HOUR) == [True, True, False, False]

    async def test_many_keys_in_one_call_come_back_in_order(self, store: KeyStore) -> None:
        keys = [f"https://shop.example/item/{number}" for number in range(self.many)]
        assert await store.claim(PRICING, keys[::2], HOUR) == [True] * (self.many // 2)
        assert await store.claim(PRICING, keys, HOUR) == [number % 2 == 1 for number in range(self.many)]
        assert await store.exist(PRICING, keys) == [True] * self.many

    async def test_r201_of_many_concurrent_askers_one_is_told_new(self, store: KeyStore) -> None:
        for number in range(10):
            keys = [f"k{number}", f"l{number}"]
            async with asyncio.TaskGroup() as tasks:
                asked = [tasks.create_task(store.claim(PRICING, keys, HOUR)) for _ in range(32)]
            answers = [task.result() for task in asked]
            assert [sum(answer[index] for answer in answers) for index in (0, 1)] == [1, 1]

    async def test_r203_scopes_do_not_meet_whatever_their_names_hold(self, store: KeyStore) -> None:
        runs = ["b", "b.c", "b:c", '","', "é", "e\u0301", " b", "{b}", "b\x00", "日本😀" * 32]
        scopes = [Scope("a", run) for run in runs] + [Scope("a.b", "c"), Scope("long:a", "b")]
        for scope in scopes:
            assert await store.claim(scope, ["k"], HOUR) == [True], scope
        for scope in scopes:
            assert await store.count(scope) == 1
            assert await store.forget(scope) == 1
            assert await store.exist(scope, ["k"]) == [False]

    async def test_fc05_short_digests_that_clash_are_kept_apart(self, store: KeyStore) -> None:
        pairs = [("33892", "87731"), ("41110", "67321")]
        for scope in (PRICING, make_scope("long:pricing", "run-1")):
            for first, second in pairs:
                one, two = f"https://shop.example/item/{first}", f"https://shop.example/item/{second}"
                await store.put(scope, one, b"one", HOUR)
                assert await store.get(scope, two) is None
                assert await store.claim(scope, [two], HOUR) == [True]

    async def test_r202_get_put_and_exist(self, store: KeyStore) -> None:
        assert await store.exist(PRICING, ["a"]) == [False]
        assert await store.get(PRICING, "a") is None
        await store.claim(PRICING, ["a"], HOUR)
        assert await store.get(PRICING, "a") == b""
        assert await store.exist(PRICING, ["a", "b"]) == [True, False]
        value = bytes(range(256)) * 40
        await store.put(PRICING, "a", value, HOUR)
        assert await store.get(PRICING, "a") == value
        await store.put(PRICING, "a", b"other", HOUR)
        assert await store.get(PRICING, "a") == b"other"

    async def test_a_key_that_only_has_a_value_is_known_too(self, store: KeyStore) -> None:
        await store.put(PRICING, "a", b"", HOUR)
        assert await store.exist(PRICING, ["a"]) == [True]
        assert await store.get(PRICING, "a") == b""
        assert await store.claim(PRICING, ["a", "b"], HOUR) == [False, True]

    async def test_odd_keys_are_kept_apart(self, store: KeyStore) -> None:
        keys = ["a", "A", " a", "a ", "é", "e\u0301", "a\x00", "日本😀", "x" * 65_536, "x" * 65_535, "a\r\nb", "*"]
        assert await store.claim(PRICING, keys, HOUR) == [True] * len(keys)
        assert await store.claim(PRICING, keys, HOUR) == [False] * len(keys)

    async def test_r209_counts_and_forgets_a_run(self, store: KeyStore) -> None:
        assert (await store.count(PRICING), await store.forget(PRICING)) == (0, 0)
        other = make_scope("pricing", "run-2")
        await store.claim(PRICING, [f"k{number}" for number in range(100)], HOUR)
        await store.claim(PRICING, ["k1", "k2", "new"], HOUR)
        await store.claim(other, ["k1"], HOUR)
        await store.put(PRICING, "k1", b"v", HOUR)
        await store.put(PRICING, "w", b"v", HOUR)
        assert await store.count(PRICING) == 101
        assert await store.forget(PRICING) == 101
        assert await store.count(PRICING) == 0
        assert await store.exist(PRICING, ["k1", "w"]) == [False, False]
        assert await store.get(PRICING, "w") is None
        assert await store.count(other) == 1
        assert await store.claim(PRICING, ["k1", "w"], HOUR) == [True, True]

    async def test_r209_keys_expire_with_their_run(self, store: KeyStore, let_pass: LetPass) -> None:
        await store.claim(PRICING, ["a"], timedelta(seconds=self.short))
        assert await store.exist(PRICING, ["a"]) == [True]
        await let_pass(self.short * 1.3 + 0.1)
        assert await store.exist(PRICING, ["a"]) == [False]
        assert await store.get(PRICING, "a") is None
        assert await store.count(PRICING) == 0
        assert await store.claim(PRICING, ["a"], timedelta(seconds=self.short)) == [True]

    async def test_a_key_lives_at_least_as_long_as_it_was_given(self, store: KeyStore, let_pass: LetPass) -> None:
        await store.claim(PRICING, ["long"], HOUR)
        await store.claim(PRICING, ["short"], timedelta(seconds=self.short))
        await let_pass(self.short * 1.3 + 0.1)
        assert await store.exist(PRICING, ["long"]) == [True]
        await store.claim(PRICING, ["long", "again"], timedelta(seconds=self.short))
        await let_pass(self.short * 1.3 + 0.1)
        assert await store.exist(PRICING, ["long"]) == [True]

    async def test_a_value_lives_exactly_its_own_time(self, store: KeyStore, let_pass: LetPass) -> None:
        await store.claim(PRICING, ["claimed"], HOUR)
        await store.put(PRICING, "claimed", b"v", timedelta(seconds=self.short))
        await store.put(PRICING, "valued", b"v", timedelta(seconds=self.short))
        await store.put(PRICING, "lasting", b"v", HOUR)
        await let_pass(self.short * 1.3 + 0.1)
        assert await store.get(PRICING, "claimed") == b""
        assert await store.get(PRICING, "valued") is None
        assert await store.get(PRICING, "lasting") == b"v"
        assert await store.claim(PRICING, ["valued", "lasting"], HOUR) == [True, False]
