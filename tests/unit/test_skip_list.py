"""Rules of the skip list."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import BadCursor, Invalid
from domain.skip_list import (
    MAX_IDS,
    SkipKey,
    SkipListQuery,
    check_event_type,
    check_reason,
    check_report_ids,
    page_limit,
    read_page_token,
    skip_reason,
    write_page_token,
)

LIST = {SkipKey("Daily", "R1"): "broken", SkipKey("", "R1"): "everywhere", SkipKey("", "R2"): ""}


@pytest.mark.parametrize(
    ("event_type", "report_id", "reason"),
    [
        ("Daily", "R1", "broken"),
        (" Daily ", " R1 ", "broken"),
        ("Weekly", "R1", "everywhere"),
        ("Daily", "R2", "it is on the skip list"),
        ("Daily", "R3", None),
        ("Daily", "r1", None),
        ("Daily", "", None),
        ("Daily", None, None),
        ("", "R1", "everywhere"),
    ],
)
def test_r307_a_report_is_left_out_for_its_type_or_for_every_type(
    event_type: str, report_id: str | None, reason: str | None
) -> None:
    assert skip_reason(LIST, event_type, report_id) == reason


def test_fc24_names_are_taken_once_and_without_the_space_around_them() -> None:
    assert check_report_ids([" R1 ", "R1", "R 2", "\tR3\n", "R1"]) == ["R1", "R 2", "R3"]
    assert check_event_type(" Daily ") == "Daily"
    assert check_event_type("  ") == ""
    assert check_reason(" why\n") == "why"
    assert len(check_report_ids([f"R{number}" for number in range(MAX_IDS)])) == MAX_IDS


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ([], "report_ids"),
        (["R"] * (MAX_IDS + 1), "report_ids"),
        (["R1", ""], "report_ids[1]"),
        (["  "], "report_ids[0]"),
        (["R\x001"], "report_ids[0]"),
        (["R\t1"], "report_ids[0]"),
        (["\ud800"], "report_ids[0]"),
        (["é" * 129], "report_ids[0]"),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_bad_names_are_refused_with_their_place(given: list[str], place: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_report_ids(given)
    assert caught.value.place == place


@pytest.mark.parametrize("text", ["T" * 129, "a\nb", "\ud800"], ids=ascii)
def test_bad_types_are_refused(text: str) -> None:
    with pytest.raises(Invalid, match="event_type"):
        check_event_type(text)


@pytest.mark.parametrize("text", ["T" * 501, "a\x00b", "\ud800"], ids=ascii)
def test_bad_reasons_are_refused(text: str) -> None:
    with pytest.raises(Invalid, match="reason"):
        check_reason(text)


def test_pages_have_bounds() -> None:
    assert [page_limit(size) for size in (0, 1, 1000, 10**9)] == [100, 1, 1000, 1000]
    with pytest.raises(Invalid, match="page_size"):
        page_limit(-1)


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"])).map(str.strip)


@given(texts, texts, st.booleans())
def test_a_page_token_comes_back_for_its_own_list_alone(event_type: str, report_id: str, every: bool) -> None:  # noqa: FBT001
    asked = None if every else event_type
    key = SkipKey(event_type, report_id)
    token = write_page_token(SkipListQuery(asked, 5), key)
    assert read_page_token(asked, token) == key
    with pytest.raises(BadCursor):
        read_page_token("another type" if every else None, token)


@pytest.mark.parametrize(
    "token", ["x", "====", "bnVsbA", "WzEsMiwzXQ", "W10", "\ud800", "e30", "WyJhIiwiYiIsImMiXQ", "5" * 9000]
)
def test_other_text_is_no_page_token(token: Any) -> None:
    with pytest.raises(BadCursor):
        read_page_token(None, token)
