"""The rules of deduplication (CONTRACTS § 2; R-203 to R-209)."""

import hashlib
from datetime import timedelta
from typing import Any

import pytest

from domain import dedup
from domain.dedup import (
    MAX_KEYS,
    Verdict,
    check_keys,
    check_ttl,
    count_clashes,
    expected_clashes,
    key_hash,
    make_scope,
    scope_digest,
    verdict,
)
from domain.errors import Invalid

SHORT = make_scope("pricing", "run-1")
LONG = make_scope("long:pricing", "run-1")
LONE_SURROGATE = "\ud800"


@pytest.mark.parametrize(
    "service_code", ["a", "0", "pricing", "a.b_c-d", "a" * 63, "long:a", "long:" + "a" * 63, "long", "long.x", "9-"]
)
@pytest.mark.parametrize("run_id", ["r", " ", "\x00", "r" * 128, "日本😀" * 32, "a\nb", "é", '","'])
def test_r203_good_names_are_kept_as_they_came(service_code: str, run_id: str) -> None:
    scope = make_scope(service_code, run_id)
    assert scope == (service_code, run_id)
    assert scope.is_long == service_code.startswith("long:")


@pytest.mark.parametrize(
    "service_code",
    [
        "", "A", "pricing ", " pricing", "pricing\n", "-a", ".a", "_a", "a" * 64, "long:", "long:long:a", "LONG:a",
        "long:" + "a" * 64, "short:a", "a:b", "a/b", "é", "aé", "\u0661", "a\x00", "a,b",
    ],
)  # fmt: skip
def test_a_service_code_that_breaks_its_rule_is_refused_by_name(service_code: str) -> None:
    with pytest.raises(Invalid, match=r"\(long:\)\?") as refused:
        make_scope(service_code, "r")
    assert refused.value.place == "service_code"


@pytest.mark.parametrize("run_id", ["", "r" * 129, LONE_SURROGATE, "a" + LONE_SURROGATE])
def test_a_run_id_that_breaks_its_rule_is_refused_by_name(run_id: str) -> None:
    with pytest.raises(Invalid, match="1 to 128 characters") as refused:
        make_scope("a", run_id)
    assert refused.value.place == "run_id"


@pytest.mark.parametrize("key", ["k", " ", "\x00", "x" * 65_536, "é" * 32_768, "😀" * 16_384])
def test_keys_have_1_to_65536_bytes(key: str) -> None:
    check_keys([key], "key")
    check_keys([key] * MAX_KEYS)


@pytest.mark.parametrize(
    "key", ["", "x" * 65_537, "é" * 32_769, "é" + "x" * 65_535, "😀" * 16_384 + "x", LONE_SURROGATE]
)
def test_a_key_that_breaks_its_rule_is_refused_by_place(key: str) -> None:
    with pytest.raises(Invalid, match="1 to 65536 bytes as UTF-8") as refused:
        check_keys([key], "key")
    assert refused.value.place == "key"
    with pytest.raises(Invalid) as refused:
        check_keys(["a", "b", key, ""])
    assert refused.value.place == "keys[2]"


@pytest.mark.parametrize("number", [0, MAX_KEYS + 1])
def test_a_request_has_1_to_10000_keys(number: int) -> None:
    with pytest.raises(Invalid, match="1 to 10000 keys") as refused:
        check_keys(["a"] * number)
    assert refused.value.place == "keys"


@pytest.mark.parametrize("ttl", [timedelta(microseconds=1), timedelta(hours=24), timedelta(days=30)])
def test_a_life_span_is_over_zero_and_at_most_30_days(ttl: timedelta) -> None:
    assert check_ttl(ttl) == ttl


@pytest.mark.parametrize("ttl", [timedelta(), timedelta(microseconds=-1), timedelta(days=30, microseconds=1)])
def test_a_life_span_that_breaks_its_rule_is_refused(ttl: timedelta) -> None:
    with pytest.raises(Invalid, match="over zero and at most 30 days") as refused:
        check_ttl(ttl)
    assert refused.value.place == "ttl"


def test_an_absent_life_span_is_the_default_of_24_hours_or_what_is_configured() -> None:
    assert check_ttl(None) == timedelta(hours=24)
    assert check_ttl(None, timedelta(minutes=5)) == timedelta(minutes=5)


def test_r203_the_digest_of_a_scope_is_fixed_for_good() -> None:
    """Stores hold it: were it to change, every key would be new."""
    framed = '["dedup","pricing","run-1"]'
    assert scope_digest(SHORT) == hashlib.sha256(framed.encode()).hexdigest()[:32]
    assert scope_digest(SHORT) == "cbcffba358798c785ea00c31625478a9"
    assert scope_digest(LONG) != scope_digest(SHORT)


def test_r204_r205_the_hash_of_a_key_is_fixed_for_good() -> None:
    url = "https://shop.example/item/33892"
    assert key_hash(SHORT, url) == hashlib.blake2b(url.encode(), digest_size=8).digest()
    assert key_hash(LONG, url) == hashlib.blake2b(url.encode(), digest_size=16).digest()
    assert key_hash(SHORT, "a").hex() == "40f89e395b66422f"
    assert key_hash(LONG, "a").hex() == "27c35e6e9373877f29e562464e46497e"


def test_r204_the_memo_keeps_the_forms_apart_and_hashes_a_hot_key_once(monkeypatch: pytest.MonkeyPatch) -> None:
    dedup._remembered.cache_clear()
    hashed: list[Any] = []
    real = hashlib.blake2b

    def counting(data: bytes, *, digest_size: int) -> Any:
        hashed.append((data, digest_size))
        return real(data, digest_size=digest_size)

    monkeypatch.setattr("hashlib.blake2b", counting)
    other_run = make_scope("pricing", "run-2")
    for _ in range(3):
        for scope, size in ((SHORT, 8), (LONG, 16), (other_run, 8)):
            assert len(key_hash(scope, "hot")) == size
    assert hashed == [(b"hot", 8), (b"hot", 16)]
    dedup._remembered.cache_clear()


def test_r204_the_memo_is_bounded_in_keys_and_in_their_length() -> None:
    dedup._remembered.cache_clear()
    for number in range(2000):
        key_hash(SHORT, str(number))
    long_key = "x" * 600
    assert key_hash(SHORT, long_key) == hashlib.blake2b(long_key.encode(), digest_size=8).digest()
    memo = dedup._remembered.cache_info()
    assert (memo.currsize, memo.maxsize) == (1024, 1024)
    dedup._remembered.cache_clear()


@pytest.mark.parametrize(
    ("first", "second"), [("33892", "87731"), ("41110", "67321")], ids=["SHA-256 at 32 bits", "MD5 at 32 bits"]
)
def test_fc05_keys_that_clash_under_short_digests_do_not_clash_under_ours(first: str, second: str) -> None:
    one, two = (f"https://shop.example/item/{number}" for number in (first, second))
    digests = [hashlib.sha256, hashlib.md5]
    assert any(digest(one.encode()).digest()[:4] == digest(two.encode()).digest()[:4] for digest in digests)
    for scope in (SHORT, LONG):
        assert key_hash(scope, one) != key_hash(scope, two)
    assert count_clashes([one, two]) == 0


def test_fc05_the_size_guide() -> None:
    assert expected_clashes(10**6, bits=32) == pytest.approx(116.4, rel=0.01)
    assert expected_clashes(10**7, bits=48) == pytest.approx(0.178, rel=0.01)
    assert expected_clashes(10**8, bits=64) == pytest.approx(2.7e-4, rel=0.01)
    assert (expected_clashes(0, bits=8), expected_clashes(1, bits=8), expected_clashes(2, bits=8)) == (0, 0, 1 / 256)


def test_fc05_the_table_in_the_module_is_what_the_formula_gives() -> None:
    assert dedup.__doc__ is not None
    rows = {
        int(line.split("bits")[0].split(",")[1]): [float(cell) for cell in line.split("bits")[1].split()]
        for line in dedup.__doc__.splitlines()
        if "bits  " in line
    }
    assert rows.keys() == {64, 128}
    for bits, cells in rows.items():
        for cell, keys in zip(cells, (10**6, 10**7, 10**8, 10**9), strict=True):
            assert expected_clashes(keys, bits=bits) == pytest.approx(cell, rel=0.03)


@pytest.mark.parametrize(("keys", "size"), [(2_000, 2), (60_000, 3), (250_000, 4)])
def test_fc05_clashes_are_as_many_as_the_formula_expects(keys: int, size: int) -> None:
    """Measured at reduced width, where there are enough to count; within five standard deviations."""
    expected = expected_clashes(keys, bits=8 * size)
    measured = count_clashes((f"https://shop.example/item/{number}" for number in range(keys)), size=size)
    assert abs(measured - expected) <= 5 * expected**0.5
    assert measured > 0


def test_fc05_clashes_are_counted_among_different_keys() -> None:
    assert count_clashes(["a", "a", "b"]) == 0
    assert count_clashes(map(str, range(10_000)), size=1) == 10_000 - 256


N, S = True, False
TABLE = [
    # primary, secondary: answer, degraded
    (S, None, S, False),
    (N, N, N, False),
    (N, S, S, False),
    (N, "-", N, True),
    ("-", N, N, True),
    ("-", S, S, True),
    ("-", "-", N, True),
]


@pytest.mark.parametrize(("primary", "secondary", "answer", "degraded"), TABLE)
def test_r206_the_truth_table_row_by_row(primary: Any, secondary: Any, *, answer: bool, degraded: bool) -> None:
    claimed = None if primary == "-" else [primary]
    second = None if secondary == "-" else [] if secondary is None else [secondary]
    assert verdict(["k"], claimed, second) == Verdict([answer], degraded)


def test_the_truth_table_in_the_module_is_the_one_that_is_tested() -> None:
    words = {N: "new", S: "seen", "-": "-", None: "."}
    rows = [f"{words[p]} {words[s]} {words[a]} {'yes' if d else 'no'}" for p, s, a, d in TABLE]
    lines = [" ".join(line.split()) for line in (dedup.__doc__ or "").splitlines()]
    start = lines.index("primary secondary answer degraded") + 1
    assert [" ".join(line.split()[:4]) for line in lines[start : start + len(rows)]] == rows
    assert lines[start + len(rows)] == ""


def test_r206_answers_of_several_keys_are_put_in_the_order_of_the_request() -> None:
    keys = ["a", "b", "c", "d"]
    assert verdict(keys, [N, S, N, N], [S, N, N]) == Verdict([S, S, N, N], degraded=False)
    assert verdict(keys, [N, S, N, S], None) == Verdict([N, S, N, S], degraded=True)
    assert verdict(keys, [S, S, S, S], None) == Verdict([S] * 4, degraded=False), "nothing was left to ask"
    assert verdict(keys, None, [N, S, S, N]) == Verdict([N, S, S, N], degraded=True)


def test_r208_a_repeated_key_is_new_at_most_once_when_nobody_answers() -> None:
    assert verdict(["a", "b", "a", "c", "b"], None, None) == Verdict([N, N, S, N, S], degraded=True)
