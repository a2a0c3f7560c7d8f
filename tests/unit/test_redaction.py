"""Redaction by examples: names, forms, keys, JSON in strings, safe-lists, pseudonyms, and what goes wrong (R-403)."""

import copy
import json
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

import pytest
from pydantic import JsonValue

from domain import redaction
from domain.errors import Invalid
from domain.json_reader import MAX_DEPTH
from domain.redaction import RedactionPolicy, mask_text, read_policy, redact, report
from domain.redaction_checks import is_card, is_iban
from domain.redaction_marks import MASK, Marks
from domain.redaction_names import MAX_CACHED, MAX_NAME, NameRules, is_field_name
from domain.redaction_walk import Walk
from tests.secrets import NAMES, PLAIN_NAMES

POLICY = RedactionPolicy()
KEYED = RedactionPolicy(pseudonym_key=b"a key of the tests", mask_ips=True)


def seen(payload: JsonValue, **policy: Any) -> JsonValue:
    return redact(RedactionPolicy(**policy), "OrderPlaced", payload)


def test_fc29_nothing_that_is_sensitive_survives_and_everything_else_does() -> None:
    payload: dict[str, JsonValue] = {
        "items": [{"email": "p@example.com"}],
        "m": [["x", {"Password": "s1"}]],
        "x-api-key": "s2",
        "apiKey": "s3",
        "API_KEY": "s4",
        "password": {"old": "s5", "hint": ["s6"]},
        "token": None,
        "tokenizer": "bpe",
    }
    stored = copy.deepcopy(payload)
    assert redact(POLICY, "OrderPlaced", payload) == {
        "items": [{"email": MASK}],
        "m": [["x", {"Password": MASK}]],
        "x-api-key": MASK,
        "apiKey": MASK,
        "API_KEY": MASK,
        "password": {"old": MASK, "hint": [MASK]},
        "token": None,
        "tokenizer": "bpe",
    }
    assert payload == stored
    line = mask_text(POLICY, f"cannot store {json.dumps(payload)}")
    assert not any(secret in line for secret in ("s1", "s2", "s3", "s4", "s5", "s6", "p@example.com"))


@pytest.mark.parametrize("name", NAMES)
def test_r403_a_sensitive_name_masks_all_that_hangs_under_it(name: str) -> None:
    value: JsonValue = {"old": "x1", "more": [{"a": 7, "b": 1.5, "c": True, "d": None, "e": ""}]}
    assert seen({name: value}) == {name: {"old": MASK, "more": [{"a": 0, "b": 0.0, "c": True, "d": None, "e": ""}]}}


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_r403_a_name_that_only_looks_so_masks_nothing(name: str) -> None:
    assert seen({name: "gold"}) == {name: "gold"}


@pytest.mark.parametrize("key", ["hunter2", "kJhGfDs", "a b", "s3cr3t-token", "x" * 41, "é", "", "a..b"])
def test_a_key_below_a_secret_name_may_be_the_secret(key: str) -> None:
    assert not is_field_name(key)
    assert seen({"passwords": {key: 1, "old": {key: "x"}}}) == {"passwords": {MASK: 0, "old": {MASK: MASK}}}


def test_r403_secrets_as_keys_are_masked_and_distinct_keys_stay_distinct() -> None:
    shown = seen({"b@x.org": 1, "[email]": 2, "a@x.org": {"c@x.org": 3}, "[email] #2": 4, "plain": 5})
    assert shown == {"[email] #3": 1, "[email]": 2, "[email] #4": {"[email]": 3}, "[email] #2": 4, "plain": 5}
    assert seen({"tokens": {"a1": "x", "b2": "y", "c3": "z"}}) == {
        "tokens": {MASK: MASK, f"{MASK} #2": MASK, f"{MASK} #3": MASK}
    }
    many: dict[str, JsonValue] = {f"person{number}@x.org": number for number in range(5000)}
    assert isinstance(kept := seen(many), dict)
    assert list(kept.values()) == list(many.values())


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        ([{"key": "Password", "value": "x"}], [{"key": "Password", "value": MASK}]),
        ({"Value": [1, "x"], "Name": "api-key"}, {"Value": [0, MASK], "Name": "api-key"}),
        (
            {"field": "email", "old_value": "a", "newValue": "b"},
            {"field": "email", "old_value": MASK, "newValue": MASK},
        ),
        ({"k": "pin", "v": 1234, "at": "now"}, {"k": "pin", "v": 0, "at": "now"}),
        ({"key": "colour", "value": "red"}, {"key": "colour", "value": "red"}),
        ([["Cookie", "a=b"], ["Accept", "*/*"]], [["Cookie", MASK], ["Accept", "*/*"]]),
        ([["email", "name"], "email"], [["email", "name"], "email"]),
        ([["Cookie", "a=b"], None, ["a", 1, 2]], [["Cookie", MASK], None, ["a", 1, 2]]),
        (["Authorization", "Custom a1"], ["Authorization", MASK]),
        (["mysql", "--password", "hunter2", "-v"], ["mysql", "--password", MASK, "-v"]),
        (["Host", "x", "Set-Cookie", "a=1", "Accept", "y"], ["Host", "x", "Set-Cookie", MASK, "Accept", "y"]),
        (["Authorization", "Content-Type", "Cookie"], ["Authorization", "Content-Type", "Cookie"]),
        (["the password was changed", "see 1"], ["the password was changed", "see 1"]),
        (
            {"op": "replace", "path": "/user/password", "value": "x"},
            {"op": "replace", "path": "/user/password", "value": MASK},
        ),
        ({"id": "password", "value": "x", "data": "y"}, {"id": "password", "value": MASK, "data": "y"}),
        ({"id": "tokens", "value": 1200}, {"id": "tokens", "value": 1200}),
        ({"type": "mobile", "value": 0.4}, {"type": "mobile", "value": 0.4}),
        ({"\uff50assword": "x", "contrasen\u0303a": "y"}, {"\uff50assword": MASK, "contrasen\u0303a": MASK}),
        (["password", "email"], ["password", "email"]),
    ],
)
def test_r403_pairs_of_name_and_value_are_read_as_members(payload: Any, shown: JsonValue) -> None:
    assert seen(payload) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mail Ada.Lovelace+x@Example.co.uk, or call", "mail [email], or call"),
        ("?to=ada%40example.com&x=1", "?to=[email]&x=1"),
        ('"ada l"@example.com', "[email]"),
        ("ada\uff20example.com", "[email]"),
        ("lodash@4.17.21 icon@2x.png @ada a@b", "lodash@4.17.21 icon@2x.png @ada a@b"),
        ("call +49 (0) 151 / 1234567 now", "call [phone] now"),
        ("tel:+14155550123;", "tel:[phone];"),
        ("phone=%2B14155550123", "phone=[phone]"),
        (
            "+1.23456789, +012345678 5+12345678 +1234567890123456789",
            "+1.23456789, +012345678 5+12345678 +1234567890123456789",
        ),
        ("4111 1111 1111 1111 123", "[card] 123"),
        ("5500-0000-0000-0004.", "[card]."),
        ("378282246310005 and 6011000990139424", "[card] and [card]"),
        ("\uff14\uff11\uff11\uff11111111111111", "[card]"),
        ("\u0664111111111111111", "[card]"),
        (
            "4111111111111112 1654646400123 0.4111111111111111 a4111111111111111",
            "4111111111111112 1654646400123 0.4111111111111111 a4111111111111111",
        ),
        ("DE89 3704 0044 0532 0130 00 is mine", "[iban] is mine"),
        ("to gb82west12345698765432", "to [iban]"),
        ("DE89370400440532013001", "DE89370400440532013001"),
        ("Bearer abc.DEF-123 then", "Bearer [credentials] then"),
        ("bearer bearer s3cr3tABC", "bearer bearer [credentials]"),
        ("basic YWRhOmh1bnRlcjI= and basic training", "basic [credentials] and basic training"),
        ("x eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln y", "x [jwt] y"),
        ("eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0", "[jwt]"),
        ("eyJjdXJzb3IiOjF9", "eyJjdXJzb3IiOjF9"),
        ("id AKIAIOSFODNN7EXAMPLE,", "id [aws_key],"),
        ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "[aws_key]"),
        ("da39a3ee5e6b4b0d3255bfef95601890afd80709", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "[api_key]"),
        ("-----BEGIN EC PRIVATE KEY-----\nMHc\n-----END EC PRIVATE KEY----- rest", "[private_key] rest"),
        ("-----BEGIN PRIVATE KEY-----\nMHcCAQEEIB", "[private_key]"),
        ("-----BEGIN CERTIFICATE-----\nMHc", "-----BEGIN CERTIFICATE-----\nMHc"),
        ("https://ada:hunter2@shop.example/a@b", "https://[user_info]@shop.example/a@b"),
        ("redis://:hun/ter2@cache:6379", "redis://[user_info]@cache:6379"),
        ("https://shop.example:8080/@ada", "https://shop.example:8080/@ada"),
        ("https://x.example/a?sig=abc&lang=en&code=xyz", f"https://x.example/a?sig={MASK}&lang=en&code={MASK}"),
        ("code=7 key=value", "code=7 key=value"),
        ("Authorization: Basic a b c\nHost: x", f"Authorization: {MASK}\nHost: x"),
        ("password = hunter2; user=ada", f"password = {MASK}; user=ada"),
        ("password: 'it\\'s' and more", f"password: '{MASK}' and more"),
        ('{"password": {"old": "s5"', f'{{"password": {MASK}'),
        ('log: [{"key": "password", "value": "x"}]', f'log: [{{"key": "password", "value": "{MASK}"}}]'),
        ("token=null&password=&secret=***", "token=null&password=&secret=***"),
        ("the e-mail: see below; https://x.example", "the e-mail: see below; https://x.example"),
        ("private_key: -----BEGIN PRIVATE KEY-----\nMHc", "private_key: [private_key]"),
        ("email=ada@example.com&password=[x", f"email=[email]&password={MASK}"),
        ("password:          hunter2 ok", f"password:          {MASK} ok"),
        ("password\xa0:\xa0hunter2\nok", f"password\xa0:\xa0{MASK}\nok"),
        ('Bearer "hunter2ABC" then', 'Bearer "[credentials]" then'),
        ("--password x", f"--password {MASK}"),
        ("basic YTpi(", "basic [credentials]("),
        ("half \ud83d of a pair", MASK),
        ("mysql --password hunter2 -v --user ada", f"mysql --password {MASK} -v --user ada"),
        ("run --api-key 'a b' --token -v", f"run --api-key '{MASK}' --token -v"),
        ("<a:Password Type='x'>hunter2</a:Password><b>x</b>", f"<a:Password Type='x'>{MASK}</a:Password><b>x</b>"),
        ("%7B%22password%22%3A%22hunter2%22%7D", f"%7B%22password%22%3A{MASK}"),
        ("a%253D1%2526password%253Dhunter2", f"a%253D1%2526password%253D{MASK}"),
        ("to=https%3A%2F%2Fada%3Ahunter2%40x%2Fa", "to=https%3A%2F%2F[user_info]%40x%2Fa"),
        ("https%3A%2F%2Fx.example%2F%3Fa%40b", "https%3A%2F%2Fx.example%2F%3Fa%40b"),
        ("10.0.0.1 is not asked for", "10.0.0.1 is not asked for"),
        ("{'password': b'hunter2', 'a': b'x'}", f"{{'password': b'{MASK}', 'a': b'x'}}"),
        ("[('a', 'b'), ('Cookie', 'a=1'), ('c', 'd')]", f"[('a', 'b'), ('Cookie', '{MASK}'), ('c', 'd')]"),
        ("(b'token', b'x1')", f"(b'token', b'{MASK}')"),
        ("columns ('password', 'email')", "columns ('password', 'email')"),
        ("&quot;pin&quot;:&quot;1&quot;,&quot;a&quot;:2", f"&quot;pin&quot;:&quot;{MASK}&quot;,&quot;a&quot;:2"),
        ("?a=1&amp;key=hunter2&amp;b=2", f"?a=1&amp;key={MASK}&amp;b=2"),
        ("<Pin><![CDATA[12]]></Pin><b>x</b>", f"<Pin><![CDATA[{MASK}</Pin><b>x</b>"),
        (r'{"url":"https:\/\/ada:hunter2@shop.example\/a', r'{"url":"https:\/\/[user_info]@shop.example\/a'),
        (r"password\u003dhunter2 and ada\x40example.com \ud83d\ude00", rf"password={MASK} and [email] \ud83d\ude00"),
        (r"C:\users\xavier\u00e9.txt", r"C:\users\xavier\u00e9.txt"),
        ("hint%3Dada%2540example.com&x", "[email]&x"),
        ("tel%253D%252B14155550123", "tel%253D[phone]"),
        ("to=https%253A%252F%252Fada%253Ahunter2%2540x", "to=https%253A%252F%252F[user_info]%2540x"),
    ],
)
def test_r403_secrets_in_text_are_known_by_their_form(text: str, shown: str) -> None:
    assert mask_text(POLICY, text) == shown
    assert seen(["", {"remark": text}]) == ["", {"remark": shown}]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("from 10.0.0.1, 2001:db8::1 and ::1.", "from [ip], [ip] and [ip]."),
        ("::ffff:10.0.0.1", "[ip]"),
        (
            "version 1.2.3, 999.1.1.1, 12:30:45, std::vector, 1.2.3.4.5",
            "version 1.2.3, 999.1.1.1, 12:30:45, std::vector, 1.2.3.4.5",
        ),
    ],
)
def test_r403_ip_addresses_are_masked_by_option(text: str, shown: str) -> None:
    assert mask_text(RedactionPolicy(mask_ips=True), text) == shown
    assert seen({"client_ip": "x", "remark": text}, mask_ips=True) == {"client_ip": MASK, "remark": shown}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("t\xe9l.\xa0: +33\u202f6\u202f12\u202f34\u202f56\u202f78 !", "t\xe9l. : [phone] !"),
        ("+33 6 12 34 56\u202f78", MASK),
        ("\u202610.0.0.1", "\u2026[ip]"),
        ("('pin', '\u24df')", f"('pin', '{MASK}')"),
        ("ada@example.com\xa0+33\u202f6\u202f12\u202f34\u202f56\u202f78", "[email] [phone]"),
        ("4111\u30001111\u30001111\u30001111", "[card]"),
        ("DE89\u20093704\u20090044\u20090532\u20090130\u200900", "[iban]"),
        ("Bearer\u2003abc.DEF-123", "Bearer [credentials]"),
        ("ada\u200b@exam\xadple.com", "[email]"),
        ("\u202d4111\u200b1111\u200b1111\u200b1111\u202c", "[card]"),
        ("4\x001\x001\x001\x001\x001\x001\x001\x001\x001\x001\x001\x001\x001\x001\x001", "[card]"),
        ("pass\u200dword\u200e: hunter2", f"password: {MASK}"),
        ("contrasen\u0303a=hunter2", f"contrase\xf1a={MASK}"),
        ("\U0001d429\U0001d422\U0001d427\ufe55 hunter2", f"pin: {MASK}"),
        ("ada\ufe6bexample.com", "[email]"),
        ("ba\u017fic YWRhOmh1bnRlcjI=", "basic [credentials]"),
    ],
)
def test_r403_secrets_are_known_by_how_they_look(text: str, shown: str) -> None:
    policy = RedactionPolicy(mask_ips=True)
    assert mask_text(policy, text) == shown
    assert redact(policy, "", {"remark": text, text: None}) == {"remark": shown, shown: None}


@pytest.mark.parametrize(
    "around", ["\U0001f468\u200d\U0001f469\ufe0f 3\xa0\xbd\u2026", "\u202bshalom\u202c\u200f", "e\u0301\u202f!"]
)
def test_what_looks_otherwise_than_it_is_written_stays_beside_a_secret(around: str) -> None:
    assert mask_text(POLICY, around) == around
    assert mask_text(POLICY, f"{around} ada@example.com {around}") == f"{around} [email] {around}"


def test_a_member_that_names_a_secret_names_it_as_it_is_shown_too() -> None:
    payload: JsonValue = {"type": '{"a": 1, "password": "b"}', "value": "x"}
    assert seen(payload) == {"type": f'{{"a":1,"password":"{MASK}"}}', "value": MASK}
    assert seen({"name": "pin", "valueAKIAIOSFODNN7EXAMPLE": "x"}) == {"name": "pin", "value[aws_key]": MASK}
    assert seen(["\u202e--password, contrasen\u0303a=1", "y"]) == [f"--password, contrase\xf1a={MASK}", MASK]


@pytest.mark.parametrize("number", [4111111111111111, -4111111111111111, 378282246310005, 4111111111111111.0])
def test_r403_a_card_number_as_a_number_becomes_nought(number: float) -> None:
    shown = seen([number])
    assert shown == [0]
    assert isinstance(shown, list)
    assert type(shown[0]) is type(number)


@pytest.mark.parametrize("number", [4111111111111112, 1654646400123, 10**18, 0.5, 1e300, float("inf"), -7, 10**400])
def test_other_numbers_stay(number: float) -> None:
    assert seen([number, {"a": number}]) == [number, {"a": number}]


def test_r403_json_in_strings_is_looked_into_to_the_stated_depth_and_masked_whole_below() -> None:
    text: JsonValue = {"password": "x1", "rest": [1, "é"]}
    for _ in range(3):
        text = json.dumps({"inner": text}, ensure_ascii=False)
    shown = seen({"a": text})
    assert isinstance(shown, dict)
    for _ in range(3):
        inner = shown.get("a", shown.get("inner"))
        assert isinstance(inner, str)
        shown = json.loads(inner)
    assert shown == {"inner": {"password": MASK, "rest": [1, "é"]}}
    assert seen({"a": text}, json_depth=0) == {"a": MASK}
    assert "x1" not in json.dumps(seen({"a": text}, json_depth=2))
    assert seen({"a": json.dumps({"b": json.dumps({"c": "x"})})}, json_depth=1) == {
        "a": json.dumps({"b": MASK}, separators=(",", ":"))
    }


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{ "a" : 1.50, "b": 1e400, "c": NaN, "d": 12345678901234567890 }', None),
        ('{"password": "x", "password": null}', MASK),
        ('{"a": 1}\n{"password": ["x"]}', MASK),
        ("[1] see the note: {x}", None),
        ("[" * 100_000, None),
        ("[" * 70 + '"a@b.co"' + "]" * 70, MASK),
        ('"' + "a@b.co" + '"', '"[email]"'),
        ('{"password": "\\ud800", "b": "\\u00e9"}', '{"password":"***","b":"\\u00e9"}'),
        ('{"n": ' + "1" * 5000 + ', "password": "x"}', MASK),
        ('\ufeff{"password": "x"}', '{"password":"***"}'),
    ],
)
def test_json_in_a_string_that_readers_may_differ_over_is_masked_whole(text: str, shown: str | None) -> None:
    assert mask_text(POLICY, text) == (text if shown is None else shown)


class Word(StrEnum):
    """A kind of string that JSON does not have."""

    SECRET = "s3cr3t"


@pytest.mark.parametrize(
    "odd",
    [
        {"a": {1: "x"}},
        {"a": (1, 2)},
        {"a": {1, 2}},
        {"a": b"s3cr3t"},
        {"a": Decimal(1)},
        {"a": datetime(2026, 1, 1, tzinfo=UTC)},
        {"password": {"a": object()}},
        {"a": [object()]},
        object(),
        {"a": Word.SECRET},
    ],
)
def test_r403_what_json_does_not_have_masks_the_payload_whole(odd: Any) -> None:
    assert redact(POLICY, "OrderPlaced", odd) == MASK
    assert report(POLICY, [("OrderPlaced", odd)]).whole == 1


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}, lambda inner: {"password": inner}])
def test_r403_a_payload_nested_too_deeply_is_masked_whole(wrap: Any) -> None:
    payload: JsonValue = "x"
    for _ in range(MAX_DEPTH):
        payload = wrap(payload)
    assert redact(POLICY, "OrderPlaced", payload) != MASK
    assert redact(POLICY, "OrderPlaced", wrap(payload)) == MASK
    endless: list[JsonValue] = []
    endless.append(endless)
    assert redact(POLICY, "OrderPlaced", endless) == MASK


def test_r403_a_fault_of_ours_masks_the_payload_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr(Walk, "_pass", fail)
    assert redact(POLICY, "OrderPlaced", {"a": "long enough: s3cr3t"}) == MASK
    assert mask_text(POLICY, "long enough: s3cr3t") == MASK


def test_r403_what_does_not_settle_is_masked_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Walk, "_pass", lambda _, text: (text + "=1", False))
    assert mask_text(POLICY, "a: s3cr3t") == MASK


@pytest.mark.parametrize("scalar", [None, True, False, 0, 1.5, "", "gold"])
def test_scalars_that_are_no_secrets_stay(scalar: JsonValue) -> None:
    assert seen(scalar) is scalar
    assert seen({"password": scalar}) == {
        "password": scalar and (scalar if scalar is True else MASK if isinstance(scalar, str) else 0)
    }


def test_r403_safe_members_are_shown_for_their_event_types_alone() -> None:
    safe = {"OrderPlaced": ["contact.email", "lines.token", "auth"], "*": ["credentials.user", "note"]}
    payload: JsonValue = {
        "contact": {"email": "shop@example.com", "phone": "x"},
        "email": "ada@example.com",
        "lines": [{"token": "DOGE", "password": "x"}, {"token": {"email": "a@b.co", "secret": "y"}}],
        "auth": "oauth",
        "credentials": {"user": "ada", "other": {"user": "b"}},
        "note": ["call +4915112345678, Bearer abc123", '{"password":"x"}'],
    }
    policy = read_policy(json.dumps({"safe": safe}).encode())
    assert redact(policy, "OrderPlaced", payload) == {
        "contact": {"email": "shop@example.com", "phone": MASK},
        "email": MASK,
        "lines": [{"token": "DOGE", "password": MASK}, {"token": {"email": "a@b.co", "secret": MASK}}],
        "auth": "oauth",
        "credentials": {"user": "ada", "other": {"user": MASK}},
        "note": ["call +4915112345678, Bearer [credentials]", '{"password":"***"}'],
    }
    other = redact(policy, "OrderPaid", payload)
    assert isinstance(other, dict)
    assert other["contact"] == {"email": MASK, "phone": MASK}
    assert other["credentials"] == {"user": "ada", "other": {"user": MASK}}
    assert other["auth"] == MASK
    assert redact(policy, "", {"note": "+4915112345678"}) == {"note": "[phone]"}


def test_r403_what_is_remembered_of_a_name_opens_no_key() -> None:
    policy = read_policy(b'{"safe": {"OrderPlaced": ["open"]}}')
    met: list[JsonValue] = [{"name": "ada@example.com"}, "ada@example.com=1", {"open": {"ada@example.com": 1}}]
    for once in met:
        redact(policy, "OrderPlaced", [once, [["ada@example.com", 1]]])
        redact(policy, "OrderPlaced", once)
        assert redact(policy, "OrderPaid", {"ada@example.com": 1}) == {"[email]": 1}


def test_names_of_the_policy_are_taken_in_any_style() -> None:
    policy = {
        "secret_names": frozenset({"BadgeNo"}),
        "personal_names": frozenset({"nick-name"}),
        "plain_names": frozenset({"token_ring"}),
    }
    payload: JsonValue = {"badge_no": "x", "NICKNAME": "x", "tokenRing": "x", "token": "x"}
    assert seen(payload, **policy) == {"badge_no": MASK, "NICKNAME": MASK, "tokenRing": "x", "token": MASK}


def test_r403_a_pseudonym_tells_the_same_person_in_every_style_and_place() -> None:
    def of(payload: JsonValue, policy: RedactionPolicy = KEYED) -> str:
        shown = redact(policy, "OrderPlaced", payload)
        return json.dumps(shown).split("[", 1)[1].split("]")[0]

    ada = of({"email": "ada@example.com"})
    assert ada.startswith("email:")
    assert (
        ada
        == of({"remark": "from ADA@example.com, again"})
        == of({"ada@example.com": 1})
        == of({"E-Mail": " ada@example.com "})
    )
    assert ada != of({"email": "bob@example.com"})
    assert of({"phone": "+49 151 1234567"}) == of({"x": "call +49(151)1234567"})
    assert of({"x": "4111 1111 1111 1111"}) == of({"cardNumber": "4111111111111111"})
    assert of({"phone": "+49 151 1234567"}) == of({"x": "call%3A%252B491511234567"})
    assert ada == of({"x": "to=ada%2540example.com"}) == of({"email": "ada@\u200bexample.com"})
    assert of({"firstName": "Ada  L"}) == of({"first_name": "ada l"})
    assert of({"firstName": "Jos\xe9"}) == of({"firstName": "Jose\u0301"})
    other = RedactionPolicy(pseudonym_key=b"another key of the tests")
    assert ada != of({"email": "ada@example.com"}, other)
    assert redact(KEYED, "OrderPlaced", {"password": "x", "token": "ada@example.com"}) == {
        "password": MASK,
        "token": MASK,
    }


def test_r403_nobody_passes_a_secret_off_as_a_pseudonym() -> None:
    forged = "[email:abcdefghijklmnopabcdefgh]"
    for policy in (POLICY, KEYED):
        shown = redact(policy, "OrderPlaced", {"password": forged, "email": forged, "remark": f"password={forged}"})
        assert forged not in json.dumps(shown)
    own = Marks(frozenset({"email"}), b"a key of the tests").mark("email", "ada@example.com")
    assert redact(KEYED, "OrderPlaced", {"email": own}) == {"email": own}
    assert redact(POLICY, "OrderPlaced", {"email": own}) == {"email": MASK}


def test_the_key_of_pseudonyms_is_not_shown() -> None:
    assert "a key of the tests" not in repr(KEYED)


def test_a_report_tells_which_rules_matched_where_and_which_never_did_and_no_secret() -> None:
    sample: list[tuple[str, JsonValue]] = [
        ("OrderPlaced", {"items": [{"email": "a@b.co"}, {"email": "c@d.ef"}], "note": "Bearer s3cr3tABC1"}),
        ("OrderPlaced", {"passwords": {"hunter2": {"deep": 5}}, "x": json.dumps({"y": {"cvv": 123}})}),
        ("OrderPaid", {"hunter2@x.org": {"at": "call +4915112345678"}, "a": 1}),
        ("OrderPaid", {"a": 1}),
        ("OrderPaid", None),
    ]
    found = report(POLICY, sample)
    assert found[:3] == (5, 3, 0)
    assert found.matches == {
        "personal name email": {"items[].email": 2},
        "form credentials": {"note": 1},
        "secret name passwords": {"passwords": 1},
        "secret name cvv": {"x.y.cvv": 1},
        "form email": {"*": 1},
        "form phone": {"*.at": 1},
    }
    keys: list[tuple[str, JsonValue]] = [("", {"password": {"hunter2": {}}})]
    assert report(POLICY, keys)[:4] == (1, 1, 0, {"secret name password": {"password": 1}})
    odd = [("", "ada@example.com,\xa04111\u202f1111\u202f1111\u202f1111"), ("", "\xa0ada@example.com")]
    assert report(POLICY, odd).matches == {"form email": {"": 2}, "form card": {"": 1}}
    assert "form card" in found.unmatched
    assert "secret name password" in found.unmatched
    assert not set(found.matches) & set(found.unmatched)
    assert "hunter2" not in repr(found)


@pytest.mark.parametrize(
    ("raw", "place", "reason"),
    [
        (b"{", "", "expected"),
        (b"[]", "", "must be a JSON object"),
        (b'{"names": []}', "names", "is not a field here"),
        (b'{"secret_names": "x"}', "secret_names", "must be a list of names"),
        (b'{"secret_names": [""]}', "secret_names[0]", "must not be empty"),
        (b'{"safe": {"A": ["a..b"]}}', "safe.A[0]", "pattern"),
        (b'{"json_depth": 9}', "json_depth", "must be 0 to 8"),
        (b'{"mask_ips": "yes"}', "mask_ips", "boolean"),
        (b'{"mask_ips": true, "mask_ips": false}', "mask_ips", "duplicate"),
        (b'{"secret_names": ["badge", " ** "]}', "secret_names", "holds a name that none can be"),
        (b'{"personal_names": ["a b c d e f g h i j k"]}', "personal_names", "of over 10 words"),
        (b'{"pseudonym_key": "0123456789abcdef"}', "pseudonym_key", "is not a field here"),
    ],
)
def test_a_file_that_is_no_policy_is_refused_with_the_place(raw: bytes, place: str, reason: str) -> None:
    with pytest.raises(Invalid, match=reason) as refused:
        read_policy(raw)
    assert refused.value.place == place
    assert "0123456789abcdef" not in str(refused.value)


def test_a_policy_is_read_from_its_file_and_never_changes() -> None:
    policy = read_policy(b'{"secret_names": ["badge"], "safe": {"*": ["a.b"]}, "mask_ips": true, "json_depth": 1}')
    assert policy == RedactionPolicy(
        secret_names=frozenset({"badge"}), safe={"*": frozenset({"a.b"})}, mask_ips=True, json_depth=1
    )
    with pytest.raises(FrozenInstanceError):
        policy.mask_ips = False  # type: ignore[misc]
    for key in (b"short", b"x" * 1025):
        with pytest.raises(Invalid, match=r"^pseudonym_key: must have 16 to 1024 bytes"):
            RedactionPolicy(pseudonym_key=key)


@pytest.mark.parametrize(
    ("digits", "card"),
    [
        ("4111111111111111", True),
        ("4222222222222", True),
        ("30569309025904", True),
        ("371449635398431", True),
        ("2221000000000009", True),
        ("2720990000000007", True),
        ("2204000000000000", True),
        ("2721000000000004", False),
        ("1111111111111117", False),
        ("411111111111", False),
        ("41111111111111111111", False),
        ("4111111111111112", False),
    ],
)
def test_card_numbers_pass_luhn_and_are_of_a_scheme(digits: str, card: bool) -> None:  # noqa: FBT001 - a column of the table
    assert is_card(digits) is card


def test_ibans_pass_mod_97() -> None:
    assert is_iban("GB82WEST12345698765432")
    assert is_iban("NO9386011117947")
    assert not is_iban("GB82WEST12345698765433")
    assert not is_iban("DE89")


def test_names_that_were_judged_are_remembered_up_to_a_bound_and_long_ones_never() -> None:
    rules = NameRules([], [], [], with_ips=False)
    for number in range(MAX_CACHED + 10):
        rules.look_up(f"n{number}")
    assert len(rules.known) <= MAX_CACHED
    assert rules.look_up("x" * 1000 + "_password").kind == "secret"
    assert all(len(name) <= MAX_NAME for name in rules.known)


def test_more_names_than_are_remembered_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("domain.redaction_names.MAX_CACHED", 1)
    monkeypatch.setattr("domain.redaction_walk.MAX_CACHED", 1)
    payload: JsonValue = {"key": "password", "value": "x", "other": 1, "email": "y"}
    assert seen(payload) == {"key": "password", "value": MASK, "other": 1, "email": MASK}


def test_the_public_names_are_there() -> None:
    assert {"RedactionPolicy", "redact", "mask_text", "report", "read_policy"} <= set(vars(redaction))
