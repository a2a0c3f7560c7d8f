"""The strict reader against the standard library's, and its fast half against its exact half."""

import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from domain.errors import Malformed
from domain.json_reader import _read_exactly, read_json, write_json

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
# Numbers that a double holds: those that come back as they went.
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=20
)

# Pieces that meet in hostile texts; the reader's two halves must judge each mixture alike.
PIECES = (
    b'"a"',
    b'"a" ',
    b'"b"',
    b'"\\""',
    b'"\\u0061"',
    b'"\\ud800"',
    b'"\\ud83d\\ude00"',
    b'"\\\\"',
    b'"NaN"',
    b'"\xc3\xa9"',
    b'"\xff"',
    b'"\xed\xa0\x80"',
    b'"',
    b":",
    b",",
    b"{",
    b"}",
    b"[",
    b"]",
    b"{}",
    b"[]",
    b'{"a":',
    b'"a":1,',
    b" ",
    b"\n",
    b"\x0c",
    b"\x00",
    b"0",
    b"1",
    b"-",
    b"-0",
    b"01",
    b"1.5",
    b"1e2",
    b"1E+15",
    b"1e-99",
    b"1e400",
    b"1e-400",
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"123456789012345",
    b"1234567890123456",
    b"9007199254740993",
    b"0.1234567890123456789",
    b"100000000000000000000000",
    b"true",
    b"nul",
    b"null",
    b"\xef\xbb\xbf",
)


def answer(reader: Callable[[bytes], object], raw: bytes) -> tuple[str, str]:
    """Give what a reader makes of a text: its value with its types, or the place and reason of its refusal."""
    try:
        return "value", repr(reader(raw))
    except Malformed as error:
        return error.place, error.reason


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Give the text of a JSON value with a few bytes cut out, doubled, moved or put in."""
    raw = json.dumps(draw(values), ensure_ascii=draw(st.booleans())).encode(errors="replace")
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(raw)))
        end = draw(st.integers(start, min(len(raw), start + 6)))
        piece = draw(st.sampled_from([*PIECES, raw[start:end], raw[start:end] * 2, b""]))
        raw = raw[:start] + piece + raw[end:]
    return raw


@settings(deadline=None, max_examples=150)
@given(value=values, ascii_only=st.booleans(), indent=st.sampled_from([None, 1]))
def test_every_json_value_is_read_as_the_standard_library_reads_it(
    value: Any, *, ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert repr(read_json(text.encode())) == repr(json.loads(text))


@settings(deadline=None, max_examples=150)
@given(values)
def test_what_is_written_is_read_again(value: Any) -> None:
    assert repr(read_json(write_json(value).encode())) == repr(value)


@settings(deadline=None, max_examples=400)
@given(mutated())
@example(b'{"a":"\\"","a" :"\\""}')
@example(b'{"a\\"":1,"a\\"":2}')
@example(b'[1234567890123456,{"a":1,"a":"x"}]')
def test_the_fast_reader_and_the_exact_one_agree_on_mutated_texts(raw: bytes) -> None:
    assert answer(read_json, raw) == answer(_read_exactly, raw)


@settings(deadline=None, max_examples=800)
@given(st.lists(st.sampled_from(PIECES), max_size=9).map(b"".join))
def test_the_fast_reader_and_the_exact_one_agree_on_hostile_mixtures(raw: bytes) -> None:
    assert answer(read_json, raw) == answer(_read_exactly, raw)


@settings(deadline=None, max_examples=300)
@given(st.integers(-(10**25), 10**25) | st.floats() | st.decimals(allow_nan=False, allow_infinity=False, places=20))
def test_a_number_is_kept_to_the_last_digit_or_refused(number: Any) -> None:
    """An integer has to be a double's exact value, a fraction the shortest text of one."""
    double = float(number)
    if isinstance(number, int):
        held = int(double) == number
    else:
        held = math.isfinite(double) and Decimal(repr(double)) == Decimal(str(number))
    try:
        found = read_json(f"[{number}]".encode())
    except Malformed:
        assert not held
    else:
        assert held
        assert isinstance(found, list)
        assert Decimal(repr(found[0])) == Decimal(str(number))


@settings(deadline=None, max_examples=120)
@given(st.data())
def test_a_duplicate_key_is_never_lost(data: st.DataObject) -> None:
    """Wherever an object stands, and however its keys are escaped and spaced."""
    keys = data.draw(st.lists(texts, min_size=1, max_size=4, unique=True))
    repeated = data.draw(st.sampled_from(keys))
    space = st.sampled_from(["", " ", "\n\t"])

    def written(key: str) -> str:
        text = json.dumps(key, ensure_ascii=data.draw(st.booleans()))
        return f"{data.draw(space)}{text}{data.draw(space)}:{data.draw(space)}{json.dumps(data.draw(values))}"

    parts = data.draw(st.permutations([*keys, repeated]))
    text = "{" + ",".join(written(key) for key in parts) + "}"
    for wrapped, path in ((text, ()), (f'[0,{{"x":{text}}}]', (1, "x"))):
        with pytest.raises(Malformed, match="is a duplicate key") as caught:
            read_json(wrapped.encode())
        assert caught.value.path == (*path, repeated)
