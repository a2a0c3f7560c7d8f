import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from domain.errors import Malformed
from domain.json_reader import pointer_of, read_json, write_json

KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(["", "/", "~", "~1", "a/b", "0"])


def resolve(value: JsonValue, pointer: str) -> JsonValue:
    """RFC 6901 § 4, written from the standard."""
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            value = value[int(key)]
        else:
            assert isinstance(value, dict)
            value = value[key]
    return value


def build(path: list[str | int], leaf: JsonValue) -> JsonValue:
    """Wrap a leaf so that `path` leads to it, with neighbours on the way."""
    for step in reversed(path):
        leaf = [*([None] * step), leaf, "after"] if isinstance(step, int) else {step + "-": 1, step: leaf}
    return leaf


@given(st.lists(KEYS | st.integers(0, 3), max_size=8))
def test_a_pointer_leads_to_the_place(path: list[str | int]) -> None:
    assert resolve(build(path, "here"), pointer_of(path)) == "here"


@given(st.lists(KEYS | st.integers(0, 3), max_size=8))
def test_the_pointer_of_what_the_reader_refuses_is_exact(path: list[str | int]) -> None:
    text = write_json(build(path, "MARK")).replace('"MARK"', "NaN")
    with pytest.raises(Malformed) as refusal:
        read_json(text.encode())
    assert list(refusal.value.steps) == path


def test_pointers_of_rfc_6901() -> None:
    """The examples of RFC 6901 § 5."""
    paths: list[list[str | int]] = [[], ["foo"], ["foo", 0], [""], ["a/b"], ["m~n"]]
    assert [pointer_of(path) for path in paths] == ["", "/foo", "/foo/0", "/", "/a~1b", "/m~0n"]
