"""The policy of a token holds for the whole stage, and for nothing beside it (FC-37)."""

import re
from fnmatch import fnmatchcase
from itertools import combinations
from typing import Any

import pytest

from domain.access import SCOPES, Caller, Scope
from domain.errors import Invalid
from domain.gateway import CACHE_SECONDS, stage_policy

STAGE = "arn:aws:execute-api:eu-west-1:123456789012:abcdef1234/prod"

# Every call of CONTRACTS § 4, and the scope that it needs.
CALLS: dict[str, Scope | None] = {
    "POST/v1/intake": "ingest",
    "POST/v1/events": "ingest",
    "GET/v1/events": "view",
    "GET/v1/events/2013-01-01-UA-1545": "view",
    "GET/v1/events/a%2Fb/history": "view",
    "POST/v1/events/a%2Fb/transitions": "operate",
    "GET/v1/activity": "view",
    "GET/v1/router/explain": "view",
    "GET/healthz": None,
    "GET/readyz": None,
}
NEIGHBOURS = (
    "GET/v1/intake", "DELETE/v1/events", "POST/v1/events/batch", "POST/v1/events/e1", "PUT/v1/events/e1/transitions",
    "POST/v1/intake/x", "POST/v1/intakes", "POST/v2/intake", "GET/v1/eventsx", "GET/metrics", "GET/", "POST/",
)  # fmt: skip


def opens(answer: dict[str, Any], arn: str) -> bool:
    """Judge a call as IAM does: a Deny wins, and what no Allow names is denied."""
    effects = {
        statement["Effect"]
        for statement in answer["policyDocument"]["Statement"]
        if any(fnmatchcase(arn, re.sub(r"([\[?])", r"[\1]", resource)) for resource in statement["Resource"])
    }
    return effects == {"Allow"}


@pytest.mark.parametrize("scopes", [some for number in range(4) for some in combinations(SCOPES, number)], ids=str)
def test_fc37_whichever_path_was_called_first_the_answer_opens_what_the_scopes_open_and_no_neighbour(
    scopes: tuple[Scope, ...],
) -> None:
    answers = [stage_policy(Caller("ada", scopes), f"{STAGE}/{call}") for call in (*CALLS, *NEIGHBOURS)]
    assert all(answer == answers[0] for answer in answers), "it is kept for the token, so the path must not matter"
    for call, scope in CALLS.items():
        assert opens(answers[0], f"{STAGE}/{call}") == (bool(scopes) if scope is None else scope in scopes), call
    assert not any(opens(answers[0], f"{STAGE}/{call}") for call in NEIGHBOURS)
    assert answers[0]["principalId"] == "ada"
    assert set(answers[0]["context"]["scopes"].split()) == set(scopes)


def test_fc37_the_same_token_at_another_stage_or_api_gets_a_policy_of_its_own() -> None:
    answer = stage_policy(Caller("ada", SCOPES), f"{STAGE}/GET/v1/events")
    for other in (STAGE.replace("prod", "test"), STAGE.replace("prod", "prod2"), STAGE.replace("abcdef", "bcdefa")):
        assert not any(opens(answer, f"{other}/{call}") for call in CALLS)


def test_fc37_a_known_caller_without_a_scope_is_denied_in_so_many_words() -> None:
    (statement,) = stage_policy(Caller("ada", ()), f"{STAGE}/GET/v1/events")["policyDocument"]["Statement"]
    assert (statement["Effect"], statement["Resource"]) == ("Deny", [f"{STAGE}/*"])


def test_fc37_how_long_a_revoked_token_works_is_bounded() -> None:
    assert 0 < CACHE_SECONDS <= 300


@pytest.mark.parametrize(
    "arn",
    [
        None, "", 5, STAGE, f"{STAGE}/", "*", f"{STAGE}*/GET/x", "arn:aws:execute-api:eu-west-1:1:abc/prod/GET/x",
        f"{STAGE}/GET\n/x".replace("GET\n", "get"), STAGE.replace("prod", "p/r") + "/GET/", f"x{STAGE}/GET/",
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_method_of_a_stage_gets_no_policy(arn: object) -> None:
    with pytest.raises(Invalid, match="methodArn"):
        stage_policy(Caller("ada", SCOPES), arn)


@pytest.mark.parametrize("arn", [f"{STAGE}/GET/", f"{STAGE}/GET", f"{STAGE}/POST/v1/a b\n*", f"{STAGE}-1/OPTIONS/x"])
def test_any_path_of_a_stage_gets_one(arn: str) -> None:
    assert stage_policy(Caller("ada", SCOPES), arn)["policyDocument"]["Statement"][0]["Effect"] == "Allow"
