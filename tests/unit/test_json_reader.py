"""Hostile JSON is refused with one kind of error (`Invalid`), and the place is named."""

import json
import math
import re
import time

import pytest

from domain.envelope import Envelope, envelope_from, read_batch, read_envelope
from domain.errors import Invalid, Malformed
from domain.json_reader import place_of, read_json, refuse, write_json
from domain.lifecycle import read_definition
from domain.messages import read_message

DUPLICATE = "is a duplicate key"
LONGER = "is a number longer than a double can hold"
OUTSIDE = "is a number outside the range of a double"
SURROGATE = "half of a surrogate pair"
DEPTH = "is nested deeper than 64 levels"
NOT_JSON = "NaN and Infinity are not JSON"

HOSTILE: list[tuple[bytes, str, str]] = [
    (b"", "", "expected a JSON value at character 0"),
    (b" \n", "", "expected a JSON value at character 2"),
    (b"\xef\xbb\xbf{}", "", "byte-order mark"),
    ("{}".encode("utf-16"), "", "is not UTF-8"),
    (b'{"a":"\xff"}', "", "is not UTF-8 (byte 6)"),
    (b'"\xc0\x80"', "", "is not UTF-8"),
    (b'"\xed\xa0\x80"', "", "is not UTF-8"),
    (b'"\xf5\x80\x80\x80"', "", "is not UTF-8"),
    (b"{} {}", "", "has more text after the JSON value (character 2)"),
    (b"{}x", "", "has more text"),
    (b"1 2", "", "has more text"),
    (b'{"a":1}\x00', "", "has more text"),
    # duplicate keys, also where counting quotes alone could miss them
    (b'{"a":1,"a":1}', "a", DUPLICATE),
    (b'{"a":1,"a" \n:2}', "a", DUPLICATE),
    (b'{"a\\"":1,"a\\"":2}', '["a\\""]', DUPLICATE),
    (b'{"a":"\\"\\"","a":"\\""}', "a", DUPLICATE),
    (b'{"\\u0061":1,"a":2}', "a", DUPLICATE),
    (b'{"x":[{"k":1},{"k":1,"k":{}}]}', "x[1].k", DUPLICATE),
    (b'{"":1,"":2}', '[""]', DUPLICATE),
    # numbers
    (b"NaN", "", NOT_JSON),
    (b'{"a":[0,NaN]}', "a[1]", NOT_JSON),
    (b"[Infinity]", "[0]", NOT_JSON),
    (b"[-Infinity]", "[0]", NOT_JSON),
    (b'{"data":1e400}', "data", OUTSIDE),
    (b'{"data":-1e400}', "data", OUTSIDE),
    (b'{"data":1e-400}', "data", LONGER),
    (b"1e99999999999999999999", "", OUTSIDE),
    (b"1e-99999999999999999999", "", LONGER),
    (b"9007199254740993", "", LONGER),
    (b"-9007199254740993", "", LONGER),
    (str(10**40).encode(), "", LONGER),
    (b"0.1234567890123456789", "", LONGER),
    (b"9007199254740993.0", "", LONGER),
    (b"123456789012345678e0", "", LONGER),
    (b'{"a":' + b"9" * 5000 + b"}", "a", LONGER),
    (b"0." + b"0" * 5000 + b"1", "", LONGER),
    (b"01", "", "has more text"),
    (b"-", "", "expected a JSON value"),
    (b"+1", "", "expected a JSON value"),
    (b".5", "", "expected a JSON value"),
    (b"1.", "", "has more text"),
    (b"0x10", "", "has more text"),
    (b"1_000", "", "has more text"),
    ("[\uff11]".encode(), "[0]", "expected a JSON value"),
    # strings
    (b'"\\ud800"', "", SURROGATE),
    (b'{"a":"\\udc00\\ud800"}', "a", SURROGATE),
    (b'{"a":["\\ud83d\\ude00","x\\ud83d"]}', "a[1]", SURROGATE),
    (b'{"b":{"\\ud800":1}}', "b", SURROGATE),
    (b'"a\nb"', "", "holds a broken string"),
    (b'"\x00"', "", "holds a broken string"),
    (b'"\\x41"', "", "holds a broken string"),
    (b'"\\u12g4"', "", "holds a broken string"),
    (b'"open', "", "holds a broken string"),
    (b"'a'", "", "expected a JSON value"),
    # structure
    (b"[" * 65 + b"]" * 65, "[0]" * 64, DEPTH),
    (b'{"a":' * 65 + b"1" + b"}" * 65, ".".join("a" * 64), DEPTH),
    (b"[" * 100_000, "[0]" * 64, DEPTH),
    (b'{"a":' * 100_000, ".".join("a" * 64), DEPTH),
    (b"[1,]", "[1]", "expected a JSON value"),
    (b"[1 2]", "", "expected ',' or ']'"),
    (b'{"a":1,}', "", "expected a key in double quotes"),
    (b"{a:1}", "", "expected a key in double quotes"),
    (b'{"a" 1}', "a", "expected ':' after the key"),
    (b'{"a":1 "b":2}', "", "expected ',' or '}'"),
    (b"{1:2}", "", "expected a key in double quotes"),
    (b"[", "[0]", "expected a JSON value"),
    (b'{"a":', "a", "expected a JSON value"),
    (b"True", "", "expected a JSON value"),
    (b"nul", "", "expected a JSON value"),
    (b"nulll", "", "has more text"),
    (b"/* x */ 1", "", "expected a JSON value"),
    (b"[1]//", "", "has more text"),
]


def label(case: tuple[bytes, str, str]) -> str:
    return ascii(case[0][:24])


@pytest.mark.parametrize(("raw", "place", "reason"), HOSTILE, ids=map(label, HOSTILE))
def test_hostile_json_is_refused_with_one_kind_of_error_and_its_place(raw: bytes, place: str, reason: str) -> None:
    with pytest.raises(Malformed, match=re.escape(reason)) as caught:
        read_json(raw)
    assert caught.value.place == place
    with pytest.raises(Malformed):
        refuse(raw)


def read_events(raw: bytes) -> list[Envelope]:
    return [envelope_from(event) for event in read_batch(raw)]


@pytest.mark.parametrize("raw", [raw for raw, _, _ in HOSTILE], ids=map(label, HOSTILE))
def test_every_door_refuses_it_alike(raw: bytes) -> None:
    """Envelope, batch, message and lifecycle definition share the reader."""
    embedded = b'{"specversion":"1.0","id":"e","source":"/s","type":"T","data":' + raw + b"}"
    for door, text in ((read_envelope, raw), (read_envelope, embedded), (read_events, raw), (read_definition, raw)):
        with pytest.raises(Invalid):
            door(text)
    with pytest.raises(Invalid):
        read_message(raw.decode(errors="surrogateescape"))


@pytest.mark.parametrize(
    "body", ["\ud800", '"\ud800"', '{"kind":"\udfff"}', '{"Type":"Notification","Message":"\ud800"}']
)
def test_raw_half_surrogates_in_text_are_refused(body: str) -> None:
    with pytest.raises(Invalid):
        read_message(body)
    with pytest.raises(Invalid):
        read_definition(body)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b" \t\r\n{ } ", {}),
        (b"0", 0),
        (b"-0", 0),
        (b"-0.0", -0.0),
        (b"30.40", 30.4),
        (b"0.30000000000000004", 0.1 + 0.2),
        (b"1e-7", 1e-7),
        (b"1E+2", 100.0),
        (b"9007199254740992", 2**53),
        (b"9007199254740994", 2**53 + 2),
        (b"-9007199254740992", -(2**53)),
        (b"1152921504606846976", 2**60),
        (b"1e308", 1e308),
        (b"5e-324", 5e-324),
        (b"1.7976931348623157e308", 1.7976931348623157e308),
        (b"100000000000000000000.0", 1e20),
        (b'"\\ud83d\\ude00"', "😀"),
        ('"日本😀\ufffe\x7f"'.encode(), "日本😀\ufffe\x7f"),
        (b'"NaN Infinity 1e400 \\" \\\\ \\/ \\u0000"', 'NaN Infinity 1e400 " \\ / \x00'),
        (b'{"a":{"a":1},"A":2,"a ":3,"":4}', {"a": {"a": 1}, "A": 2, "a ": 3, "": 4}),
        (b"[true,false,null]", [True, False, None]),
    ],
)
def test_legal_json_is_read_as_it_is(raw: bytes, expected: object) -> None:
    found = read_json(raw)
    assert found == expected
    assert type(found) is type(expected)
    if isinstance(expected, float):
        assert math.copysign(1, expected) == math.copysign(1, found)  # type: ignore[arg-type]


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_sixty_four_levels_are_taken_and_one_more_is_not(opening: bytes, closing: bytes) -> None:
    leaf = b"" if opening == b"[" else b"1"
    read_json(opening * 64 + leaf + closing * 64)
    read_json(opening * 65 + leaf + closing * 65, wrapping=1)
    for depth, wrapping in ((65, 0), (66, 1), (200, 0), (201, 1)):
        with pytest.raises(Malformed, match=DEPTH):
            read_json(opening * depth + leaf + closing * depth, wrapping=wrapping)


def test_a_scalar_does_not_add_to_the_depth() -> None:
    read_json(b"[" * 64 + b'1.5,"x",null' + b"]" * 64)


def test_a_quarter_megabyte_of_quotes_is_read_in_linear_time() -> None:
    """The exact reader takes texts with escaped quotes: twice the text must not take four times as long."""
    raw = b'["' + b'\\"' * 120_000 + b'"]'
    started = time.perf_counter()
    assert read_json(raw) == ['"' * 120_000]
    assert time.perf_counter() - started < 2


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ([], ""),
        (["data", "items", 3, "price"], "data.items[3].price"),
        ([0, "a"], "[0].a"),
        (["data", "a b", "c.d", "é"], 'data["a b"]["c.d"].é'),
        (["data", ""], 'data[""]'),
        (["data", "\ud800"], 'data["\\ud800"]'),
        (["x" * 1000], "x" * 500),
        (["a-" * 500], '["' + "a-" * 40 + '"]'),
    ],
)
def test_places_are_written_for_people_and_stay_short(path: list[str | int], place: str) -> None:
    assert place_of(path) == place


def test_what_is_written_is_compact_strict_and_carried_by_xml() -> None:
    """SQS and SNS carry the characters of XML 1.0 only: U+FFFE, U+FFFF and control characters go out escaped."""
    value = {"a": [1, 2.5, None, True], "é": "日本\ufffe\uffff\x00\x1f"}
    text = write_json(value)
    assert text == '{"a":[1,2.5,null,true],"é":"日本\\ufffe\\uffff\\u0000\\u001f"}'
    assert json.loads(text) == value
    for number in (float("nan"), float("inf"), float("-inf")):
        with pytest.raises(ValueError, match="JSON"):
            write_json([number])


def test_ids_in_strings_are_not_taken_for_long_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse_to_read(*_: object) -> None:
        raise AssertionError("the slow reader was asked")

    monkeypatch.setattr("domain.json_reader._read_exactly", refuse_to_read)
    text = b'{"id":"1e0009007199254740993","v":[0.5,-1e22,12],"NaN":"Infinity","d":1.25}'
    assert read_json(text) == json.loads(text)
    with pytest.raises(AssertionError, match="slow reader"):
        read_json(b'{"id":"a","v":0.12345678901234567}')
