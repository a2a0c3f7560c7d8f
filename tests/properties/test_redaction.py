"""Redaction, over secrets of every kind in every nesting (R-403, FC-29)."""

import contextlib
import copy
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from domain import redaction_forms, redaction_walk
from domain.redaction import RedactionPolicy, mask_text, redact
from domain.redaction_looks import plain_look
from domain.redaction_marks import MASK
from tests.secrets import NAMES, PLACES, PLAIN_NAMES, PLAIN_TEXTS, planted, wrapped

POLICIES = (
    RedactionPolicy(mask_ips=True),
    RedactionPolicy(mask_ips=True, json_depth=0),
    RedactionPolicy(mask_ips=True, json_depth=8, pseudonym_key=b"a key of the tests"),
)
policies = st.sampled_from(POLICIES)

plain_scalars = (
    st.none() | st.booleans() | st.integers(-(10**11), 10**11) | st.floats(-1e9, 1e9) | st.sampled_from(PLAIN_TEXTS)
)
plain_values = st.recursive(
    plain_scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(PLAIN_NAMES), inner, max_size=4),
    max_leaves=12,
)

PIECES = (
    *(" ", "\n", "@", ".", ":", "=", "&", "?", "//", "://", "+", "-", "*", "***", "#2", " #2", "[", "]", "{", "}", '"'),
    *(
        "'",
        "\\",
        '\\"',
        ",",
        ";",
        "<",
        ">",
        "%40",
        "%2B",
        "0",
        "1",
        "4111",
        "1111",
        "37",
        "DE89",
        "3704",
        "é",
        "\uff11",
    ),
    *("ada", "com", "x", "Bearer ", "basic ", "password", "token", "email", "key", "value", "Authorization", "null"),
    *(
        "\u200b",
        "\u202f",
        "\u0303",
        "\\u0040",
        "\\x3d",
        "\0",
        "b'",
        "('",
        "',",
        "&quot;",
        ":\\/\\/",
        "%2540",
        "%252B",
        "ba\u017fic ",
        "dTpw",
    ),
    *("eyJ", "AKIA", "-----BEGIN PRIVATE KEY-----", "END PRIVATE KEY", "[email]", "[jwt]", "10.0.0.1", "::1", "\ud800"),
    *("[email:abcdefghijklmnopabcdefgh]", "4111 1111 1111 1111", "ada@example.com", "+49 151 1234567", "\u0660"),
)
texts = st.lists(st.sampled_from(PIECES), max_size=9).map("".join)
odd_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | texts.map(json.dumps),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(texts | st.sampled_from(NAMES + PLAIN_NAMES), inner, max_size=4)
        | inner.map(json.dumps)
    ),
    max_leaves=8,
)


def everything(value: JsonValue) -> str:
    """Give all the text there is in a value, with JSON in strings written out at every level."""
    found = [json.dumps(value, ensure_ascii=False)]
    if isinstance(value, str):
        found.append(value)
        with contextlib.suppress(ValueError):
            found.append(everything(json.loads(value)) if value[:1] in {"{", "[", '"'} else "")
    elif isinstance(value, list):
        found += map(everything, value)
    elif isinstance(value, dict):
        found += [*map(everything, value), *map(everything, value.values())]
    return "\n".join(found)


def shape(value: JsonValue) -> object:
    """Give the structure and the types of a value."""
    if isinstance(value, list):
        return [shape(item) for item in value]
    if isinstance(value, dict):
        return [shape(item) for item in value.values()]
    return type(value)


@settings(deadline=None, max_examples=250)
@given(policies, planted().flatmap(lambda case: st.tuples(st.just(case[0]), wrapped(case[1], 5))))
def test_r403_no_planted_secret_survives_in_any_nesting(policy: RedactionPolicy, case: tuple[str, Any]) -> None:
    secret, payload = case
    before = copy.deepcopy(payload)
    shown = redact(policy, "OrderPlaced", payload)
    hidden = max(secret.split("\n"), key=len)
    assert hidden not in everything(shown)
    assert payload == before
    assert shape(shown) == shape(payload)


@settings(deadline=None, max_examples=100)
@given(policies, planted(), plain_values)
def test_r403_what_stands_beside_a_secret_survives(policy: RedactionPolicy, case: tuple[str, Any], plain: Any) -> None:
    shown = redact(policy, "OrderPlaced", {"first": plain, "planted": case[1], "last": [plain]})
    assert isinstance(shown, dict)
    if policy.json_depth:
        assert repr((shown["first"], shown["last"])) == repr((plain, [plain]))


@settings(deadline=None, max_examples=100)
@given(plain_values.flatmap(lambda value: wrapped(value, 3)))
def test_r403_what_is_no_secret_survives_in_any_nesting(payload: Any) -> None:
    assert redact(POLICIES[0], "OrderPlaced", payload) == payload


@settings(deadline=None, max_examples=400)
@given(policies, odd_values)
@example(POLICIES[0], {"a@b.co": 1, "[email]": 2, "c@d.ef": 3})
@example(POLICIES[0], {"password": {"hunter2": 1, "hunter3": 2}})
@example(POLICIES[0], {"Authorization: a1": 1, "Authorization: b2": 2})
@example(POLICIES[0], {"name": "email", "value": {"x1": 5}})
@example(POLICIES[0], {"name": '{"password": "' + "a " * 200 + '"}', "value": "v"})
@example(POLICIES[0], {"type": '{"a": 1, "password": "b"}', "value": "x"})
@example(POLICIES[0], {"name": "password", "valueAKIAIOSFODNN7EXAMPLE": "x"})
@example(POLICIES[0], ["\u202e--password, contrasen\u0303a=1", "x"])
def test_redacting_again_changes_nothing(policy: RedactionPolicy, payload: Any) -> None:
    once = redact(policy, "OrderPlaced", payload)
    assert repr(redact(policy, "OrderPlaced", once)) == repr(once)
    assert shape(once) == shape(payload)


@settings(deadline=None, max_examples=400)
@given(policies, texts)
def test_what_dismisses_a_text_dismisses_nothing_that_a_rule_would_find(policy: RedactionPolicy, text: str) -> None:
    shown = mask_text(policy, text)
    with pytest.MonkeyPatch.context() as patch:
        for module, name in (
            *((redaction_walk, name) for name in ("any_form", "any_form_or_ip")),
            *((redaction_forms, f"_may_hold_{name}") for name in ("secret", "iban", "number")),
        ):
            patch.setattr(module, name, lambda _: True)
        assert mask_text(policy, text) == shown


@settings(deadline=None, max_examples=400)
@given(policies, texts)
def test_masking_a_text_again_changes_nothing(policy: RedactionPolicy, text: str) -> None:
    once = mask_text(policy, text)
    assert mask_text(policy, once) == once


@settings(deadline=None, max_examples=80)
@given(
    st.dictionaries(
        st.sampled_from(["a@b.co", "c@d.ef", "[email]", "[email] #2", "x", "+4915112345678"]), st.integers(0, 9)
    )
)
def test_distinct_keys_stay_distinct(payload: Any) -> None:
    for policy in POLICIES:
        shown = redact(policy, "OrderPlaced", payload)
        assert isinstance(shown, dict)
        assert list(shown.values()) == list(payload.values())


@settings(deadline=None, max_examples=80)
@given(st.sampled_from(PLACES), st.sampled_from(PLAIN_TEXTS))
def test_r403_the_text_around_a_secret_survives(place: str, around: str) -> None:
    shown = mask_text(POLICIES[0], f"{around}\n{place.format('s3cr3tAbC9')}")
    assert shown.startswith((f"{around}\n", f"{plain_look(around)}\n"))
    assert MASK in mask_text(POLICIES[0], place.format("s3cr3tAbC9")).replace("[credentials]", MASK).replace(
        "[user_info]", MASK
    )
