import hmac
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from domain.access import (
    RANDOM_BYTES,
    SCOPES,
    Caller,
    Scope,
    TokenRecord,
    issue_token,
    read_tokens,
    require,
    verify,
    write_tokens,
)
from domain.errors import Forbidden, Invalid, Unauthenticated

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ISSUED = issue_token("ada", ["view"], NOW + timedelta(hours=1), bytes(range(RANDOM_BYTES)))
TEXT = ISSUED.text.get_secret_value()
RECORDS = {ISSUED.record.id: ISSUED.record}


def changed(text: str, at: int) -> str:
    return text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]


def test_a_token_opens_what_it_was_issued_for() -> None:
    assert verify(RECORDS, ISSUED.text, NOW) == Caller("ada", frozenset({"view"}))


@given(st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES), st.sets(st.sampled_from(SCOPES), min_size=1))
def test_every_issued_token_is_known_again_and_no_other(randomness: bytes, scopes: set[Scope]) -> None:
    token = issue_token("bob", scopes, NOW + timedelta(hours=1), randomness)
    records = read_tokens(write_tokens([token.record, ISSUED.record]).encode())
    assert verify(records, token.text, NOW) == Caller("bob", frozenset(scopes))
    with pytest.raises(Unauthenticated):
        verify(records, SecretStr(changed(token.text.get_secret_value(), -2)), NOW)


@pytest.mark.parametrize(
    ("text", "now"),
    [
        pytest.param("", NOW, id="empty"),
        pytest.param(TEXT[:-1], NOW, id="cut"),
        pytest.param(TEXT + "A", NOW, id="longer"),
        pytest.param(TEXT.upper(), NOW, id="upper case"),
        pytest.param(TEXT + "\n", NOW, id="newline"),
        pytest.param(changed(TEXT, -1), NOW, id="wrong secret"),
        pytest.param(TEXT.replace(ISSUED.record.id, "f" * 16), NOW, id="unknown id"),
        pytest.param(f"ilk_{ISSUED.record.id}_{ISSUED.record.sha256[:43]}", NOW, id="hash for secret"),
        pytest.param(f"ilk_{chr(0x660) * 16}_{TEXT[21:]}", NOW, id="digits of another script"),
        pytest.param("é" * 64, NOW, id="not ASCII"),
        pytest.param(TEXT, NOW + timedelta(hours=1), id="expired at this instant"),
        pytest.param(TEXT, NOW + timedelta(days=900), id="long expired"),
    ],
)
def test_what_opens_nothing_is_refused_without_saying_why(text: str, now: datetime) -> None:
    with pytest.raises(Unauthenticated) as refusal:
        verify(RECORDS, SecretStr(text), now)
    assert str(refusal.value) == "the token is not valid"
    assert refusal.value.__cause__ is None


def test_one_microsecond_before_it_expires_a_token_is_good() -> None:
    assert verify(RECORDS, ISSUED.text, NOW + timedelta(hours=1, microseconds=-1)).name == "ada"


@pytest.mark.parametrize("text", [TEXT, changed(TEXT, -1), TEXT.replace(ISSUED.record.id, "f" * 16), "nonsense", ""])
def test_every_token_is_compared_in_constant_time(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known or not: one comparison of two digests by `hmac.compare_digest`."""
    compared: list[tuple[str, str]] = []
    real: Callable[[str, str], bool] = hmac.compare_digest

    def spy(left: str, right: str) -> bool:
        compared.append((left, right))
        return real(left, right)

    monkeypatch.setattr(hmac, "compare_digest", spy)
    try:
        verify(RECORDS, SecretStr(text), NOW)
    except Unauthenticated:
        assert text != TEXT
    assert [(len(left), len(right)) for left, right in compared] == [(64, 64)]


def test_the_secret_is_in_no_representation_and_not_in_the_file() -> None:
    secret = TEXT[21:]
    shown = [repr(ISSUED), str(ISSUED), repr(ISSUED.record), str(ISSUED.text), write_tokens([ISSUED.record])]
    assert not [text for text in shown if secret in text or TEXT in text]
    assert ISSUED.record.sha256 not in repr(ISSUED.record)


def test_scopes_do_not_include_each_other() -> None:
    for held in SCOPES:
        caller = Caller("ada", frozenset({held}))
        for asked in SCOPES:
            if asked == held:
                require(caller, asked)
            else:
                with pytest.raises(Forbidden, match=asked):
                    require(caller, asked)


@pytest.mark.parametrize(
    ("name", "scopes", "randomness", "place"),
    [
        ("", ["view"], bytes(RANDOM_BYTES), "name"),
        ("a\nb", ["view"], bytes(RANDOM_BYTES), "name"),
        ("a" * 129, ["view"], bytes(RANDOM_BYTES), "name"),
        ("ada", [], bytes(RANDOM_BYTES), "scopes"),
        ("ada", ["view"], bytes(RANDOM_BYTES - 1), "randomness"),
    ],
)
def test_a_token_that_breaks_a_rule_is_not_issued(
    name: str, scopes: list[Scope], randomness: bytes, place: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        issue_token(name, scopes, NOW, randomness)
    assert refusal.value.place == place


GOOD = json.loads(write_tokens([ISSUED.record]))[0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "null",
        "[1]",
        '[{"id": "a", "id": "b"}]',
        json.dumps([GOOD, GOOD]),
        json.dumps([{**GOOD, "note": "x"}]),
        json.dumps([{name: value for name, value in GOOD.items() if name != "expires_at"}]),
        json.dumps([{**GOOD, "id": "short"}]),
        json.dumps([{**GOOD, "sha256": "0" * 63}]),
        json.dumps([{**GOOD, "sha256": TEXT}]),
        json.dumps([{**GOOD, "scopes": []}]),
        json.dumps([{**GOOD, "scopes": ["admin"]}]),
        json.dumps([{**GOOD, "scopes": "view"}]),
        json.dumps([{**GOOD, "expires_at": 1900000000}]),
        json.dumps([{**GOOD, "expires_at": "2026-01-01"}]),
        "\ufeff" + json.dumps([GOOD]),
    ],
)
def test_a_tokens_file_is_read_strictly(text: str) -> None:
    with pytest.raises(Invalid) as refusal:
        read_tokens(text.encode())
    assert TEXT not in str(refusal.value)


def test_a_tokens_file_may_be_empty_of_tokens() -> None:
    assert read_tokens(b"[]") == {}


def test_records_are_read_back_as_they_were_written() -> None:
    other = TokenRecord(
        id="0" * 16, name="Zoë", sha256="0" * 64, scopes=frozenset(SCOPES), expires_at="2027-01-01T00:00:00+01:00"
    )
    assert list(read_tokens(write_tokens([ISSUED.record, other]).encode()).values()) == [ISSUED.record, other]
