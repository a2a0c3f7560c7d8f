"""Cursors tell what they were made of, to the query they were made for, and nothing else to anybody (R-404)."""

import base64
import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.cursor import LIFE, MAX_CURSOR, CursorKeys
from domain.errors import BadCursor, Misconfigured
from tests.examples import START

OLD, NEW = b"o" * 32, b"n" * 40
texts = st.lists(st.text(max_size=20), min_size=1, max_size=6)
places = st.tuples(st.text("0123456789abc:-.TZ", max_size=27), st.text("0123456789abcdef", max_size=32))


@given(bound=texts, place=places)
def test_r404_a_cursor_gives_back_its_place_and_is_safe_in_a_url(bound: list[str], place: tuple[str, str]) -> None:
    cursor = CursorKeys([NEW]).sign(bound, place, START)
    assert re.fullmatch(r"[A-Za-z0-9_-]+", cursor)
    assert CursorKeys([NEW]).read(bound, cursor, START, parts=2) == list(place)


@given(bound=texts, other=texts, place=places)
def test_r404_a_cursor_of_another_query_is_refused(bound: list[str], other: list[str], place: tuple[str, str]) -> None:
    """Also where the parts are cut elsewhere: they are framed."""
    keys = CursorKeys([NEW])
    cursor = keys.sign(bound, place, START)
    if bound == other:
        assert keys.read(other, cursor, START, parts=2) == list(place)
    else:
        with pytest.raises(BadCursor):
            keys.read(other, cursor, START, parts=2)


@given(data=st.data(), place=places)
def test_r404_any_change_is_evident(data: st.DataObject, place: tuple[str, str]) -> None:
    """Nothing but `BadCursor` comes of any damage."""
    cursor = CursorKeys([NEW]).sign(["a"], place, START)
    start = data.draw(st.integers(0, len(cursor)))
    end = data.draw(st.integers(start, len(cursor)))
    piece = data.draw(
        st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", max_size=6) | st.text(max_size=3)
    )
    changed = cursor[:start] + piece + cursor[end:]
    if changed == cursor:
        return
    with pytest.raises(BadCursor):
        CursorKeys([NEW]).read(["a"], changed, START, parts=2)


def test_every_other_spelling_of_a_cursor_is_refused() -> None:
    keys = CursorKeys([NEW])
    for place in ("", "a", "ab"):  # each length leaves other bits of the last character unused
        cursor = keys.sign(["a"], [place], START)
        alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
        for spelling in (*(cursor[:-1] + last for last in alphabet), cursor + "=", cursor + "==", " " + cursor):
            if spelling != cursor:
                with pytest.raises(BadCursor):
                    keys.read(["a"], spelling, START, parts=1)


@pytest.mark.parametrize(
    "text", ["", "=", "AAAA", "é", "a" * 5, "\ud800", "A" * MAX_CURSOR, "A" * 100_000, "a b", "+/+/"]
)
def test_text_from_anywhere_is_no_cursor(text: str) -> None:
    with pytest.raises(BadCursor) as caught:
        CursorKeys([NEW]).read(["a"], text, START, parts=2)
    assert caught.value.place == "cursor"


def test_a_replaced_key_is_taken_until_it_is_removed() -> None:
    before = CursorKeys([OLD]).sign(["a"], ["p"], START)
    both = CursorKeys([NEW, OLD])
    assert both.read(["a"], before, START, parts=1) == ["p"]
    after = both.sign(["a"], ["p"], START)
    assert CursorKeys([NEW]).read(["a"], after, START, parts=1) == ["p"]
    with pytest.raises(BadCursor):
        CursorKeys([OLD]).read(["a"], after, START, parts=1)
    with pytest.raises(BadCursor, match="out of date"):
        CursorKeys([NEW]).read(["a"], before, START, parts=1)


def test_a_stale_cursor_is_refused() -> None:
    keys = CursorKeys([NEW])
    cursor = keys.sign(["a"], ["p"], START)
    assert keys.read(["a"], cursor, START + LIFE, parts=1) == ["p"]
    with pytest.raises(BadCursor, match="out of date"):
        keys.read(["a"], cursor, START + LIFE + timedelta(seconds=1), parts=1)


def test_a_cursor_of_another_kind_of_place_is_refused() -> None:
    keys = CursorKeys([NEW])
    with pytest.raises(BadCursor):
        keys.read(["a"], keys.sign(["a"], ["p"], START), START, parts=2)


def test_a_cursor_says_no_more_than_its_place() -> None:
    cursor = CursorKeys([NEW]).sign(["acme", "Type", "R1"], ["2026", "ab"], START)
    said = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))[16:]
    assert said == b'[1767268800,"2026","ab"]'


@pytest.mark.parametrize("keys", [[], [b""], [b"x" * 31], [NEW, b"short"]])
def test_keys_that_anybody_could_guess_are_refused(keys: list[bytes]) -> None:
    with pytest.raises(Misconfigured):
        CursorKeys(keys)
    assert "nnn" not in repr(CursorKeys([NEW]))
