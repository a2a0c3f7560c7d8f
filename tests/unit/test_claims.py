"""What the claims of a JWT have to say before somebody gets in (CONTRACTS § 8)."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import JsonValue

from domain.access import SCOPES
from domain.claims import LEEWAY_SECONDS, ClaimRules, caller_of
from domain.errors import Unauthenticated
from tests.examples import START

RULES = ClaimRules(issuer="https://id.example/", audience="interlock")
NOW = START.timestamp()


def claims(**changes: Any) -> dict[str, JsonValue]:
    """Give good claims; a change to `...` leaves one out."""
    good = {"iss": "https://id.example/", "aud": "interlock", "sub": "ada", "exp": NOW + 300, "scope": "ingest view"}
    return {name: value for name, value in {**good, **changes}.items() if value is not ...}


def test_good_claims_name_the_caller_and_its_scopes() -> None:
    assert caller_of(claims(), RULES, START) == ("ada", {"ingest", "view"})


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": ...},
        {"exp": None},
        {"exp": True},
        {"exp": str(NOW + 300)},
        {"exp": [NOW + 300]},
        {"exp": NOW - LEEWAY_SECONDS},
        {"exp": -1},
        {"nbf": NOW + LEEWAY_SECONDS + 1},
        {"nbf": None},
        {"nbf": "0"},
        {"iss": ...},
        {"iss": "https://id.example"},
        {"iss": ["https://id.example/"]},
        {"aud": ...},
        {"aud": "interlock2"},
        {"aud": ["other"]},
        {"aud": {"interlock": 1}},
        {"aud": []},
        {"sub": ...},
        {"sub": ""},
        {"sub": "a\nb"},
        {"sub": "a" * 129},
        {"sub": 42},
    ],
    ids=str,
)
def test_a_claim_that_is_missing_or_breaks_its_rule_lets_nobody_in(changes: dict[str, Any]) -> None:
    with pytest.raises(Unauthenticated) as refused:
        caller_of(claims(**changes), RULES, START)
    assert str(refused.value) == "the token is not valid"


@pytest.mark.parametrize("value", [None, [], "text", 42, [claims()]])
def test_claims_that_are_no_object_let_nobody_in(value: JsonValue) -> None:
    with pytest.raises(Unauthenticated):
        caller_of(value, RULES, START)


def test_the_clocks_may_differ_by_a_minute_and_no_more() -> None:
    at_the_edge = claims(exp=NOW, nbf=NOW)
    assert caller_of(at_the_edge, RULES, START + timedelta(seconds=LEEWAY_SECONDS - 1)).name == "ada"
    assert caller_of(at_the_edge, RULES, START - timedelta(seconds=LEEWAY_SECONDS)).name == "ada"
    with pytest.raises(Unauthenticated):
        caller_of(at_the_edge, RULES, START + timedelta(seconds=LEEWAY_SECONDS))
    with pytest.raises(Unauthenticated):
        caller_of(at_the_edge, RULES, START - timedelta(seconds=LEEWAY_SECONDS + 1))


def test_one_of_several_audiences_is_enough() -> None:
    assert caller_of(claims(aud=["other", "interlock", 5]), RULES, START).name == "ada"


@pytest.mark.parametrize(
    ("scope", "scopes"),
    [
        ("ingest view operate", set(SCOPES)),
        ("openid  profile view", {"view"}),
        ("INGEST ingestor ingest,view", set()),
        ("", set()),
        (..., set()),
        (None, set()),
        (["operate", 5, "admin"], {"operate"}),
        ({"ingest": True}, set()),
        (["ingest view"], set()),
    ],
)
def test_only_scopes_that_are_known_and_spelled_out_count(scope: Any, scopes: set[str]) -> None:
    assert caller_of(claims(scope=scope), RULES, START).scopes == scopes


def test_scopes_may_stand_under_another_claim_behind_a_prefix() -> None:
    rules = ClaimRules(issuer=RULES.issuer, audience=RULES.audience, scopes_claim="scp", scope_prefix="interlock/")
    given = claims(scp=["interlock/ingest", "view"], scope="operate")
    assert caller_of(given, rules, START).scopes == {"ingest"}
