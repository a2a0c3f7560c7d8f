"""Scopes, hashes and verdicts over random and adversarial input (R-203 to R-209)."""

import hashlib
from datetime import timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from domain.dedup import (
    MAX_TTL,
    Scope,
    check_keys,
    check_ttl,
    key_hash,
    make_scope,
    scope_digest,
    verdict,
)
from domain.errors import Invalid

# What a join, an escape or a normal form may trip over.
SPECIAL = st.sampled_from([*'",[]:.|/\\{}#\x00\n\t ', '","', "long:", "\\u0000", "é", "e\u0301", "\ufeff", "😀"])
NAMES = (
    st.lists(SPECIAL | st.text(st.characters(exclude_categories=["Cs"]), max_size=4), max_size=6)
    .map("".join)
    .filter(bool)
)
KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=600)


@given(st.tuples(NAMES, NAMES), st.tuples(NAMES, NAMES))
@example(("a", "b,c"), ("a,b", "c"))
@example(("a", 'b","c'), ('a","b', "c"))
@example(("a", "é"), ("a", "e\u0301"))
@example(("a", "\\"), ("a\\", ""))
def test_r203_different_scopes_have_different_digests(one: tuple[str, str], two: tuple[str, str]) -> None:
    first, second = Scope(*one), Scope(*two)
    assert (scope_digest(first) == scope_digest(second)) == (first == second)
    assert len(scope_digest(first)) == 32


@given(st.text(max_size=140), st.text(max_size=140))
def test_a_scope_is_made_or_one_of_its_names_is_blamed(service_code: str, run_id: str) -> None:
    blamed, scope = "", Scope("", "")
    try:
        scope = make_scope(service_code, run_id)
    except Invalid as error:
        blamed = error.place
    assert blamed in {"service_code", "run_id"} or scope == (service_code, run_id)
    assert len(scope_digest(scope)) == 32


@given(st.from_regex(r"\A(?:long:)?[a-z0-9][a-z0-9._-]{0,62}\Z"), NAMES)
def test_every_service_code_of_the_contract_is_taken(service_code: str, run_id: str) -> None:
    assert make_scope(service_code, run_id).is_long == (":" in service_code)


@given(KEYS)
def test_r205_each_form_has_its_own_hash_whoever_asked_before(key: str) -> None:
    for _ in range(2):
        for service, size in (("a", 8), ("long:a", 16), ("b", 8)):
            assert key_hash(make_scope(service, "r"), key) == hashlib.blake2b(key.encode(), digest_size=size).digest()


@given(st.text(max_size=8), st.integers(1, 20_000))
def test_keys_are_taken_by_their_bytes(text: str, times: int) -> None:
    key = text * times
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        size = 0
    try:
        check_keys([key], "key")
    except Invalid:
        assert not 1 <= size <= 65_536
    else:
        assert 1 <= size <= 65_536


@given(st.timedeltas())
def test_life_spans_are_taken_by_their_range(ttl: timedelta) -> None:
    try:
        assert check_ttl(ttl) == ttl
    except Invalid:
        assert ttl <= timedelta() or ttl > MAX_TTL
    else:
        assert timedelta() < ttl <= MAX_TTL


@given(
    rows=st.lists(st.tuples(st.sampled_from("ns"), st.sampled_from("-ns")), min_size=1, max_size=8),
    failing=st.booleans(),
)
def test_r206_each_key_is_judged_by_its_own_row(rows: list[tuple[str, str]], *, failing: bool) -> None:
    """Written another way round: seen where any target that answers knows it; targets fail for all keys at once."""
    keys = [f"k{number}" for number in range(len(rows))]
    claimed = None if failing else [primary != "s" for primary, _ in rows]
    asked = [second for (_, second), new in zip(rows, claimed or [True] * len(rows), strict=True) if new]
    second = None if "-" in asked else [answer != "s" for answer in asked]
    told = verdict(keys, claimed, second)
    answers = iter(second or [])
    for new, first in zip(told.is_new, claimed or [True] * len(rows), strict=True):
        known = not first or (second is not None and not next(answers))
        assert new != known
    assert told.degraded == (claimed is None or (second is None and any(claimed)))
