"""Redaction is linear in the length of a text, whatever the text (R-403): counted in steps, not in seconds.

Two proofs. No regular expression of the rules can go back over the text: what repeats without a bound is one class of
characters, and either gives nothing back (possessive) or is the last thing looked for. And the lines of Python that run
grow with the text: four times the text, at most about four times the lines.
"""

import importlib
import random
import re
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain import (
    redaction_assignments,
    redaction_checks,
    redaction_forms,
    redaction_looks,
    redaction_marks,
    redaction_names,
    redaction_text,
    redaction_walk,
)
from domain.redaction import RedactionPolicy, mask_text, redact

_constants: Any = importlib.import_module("re._constants")
_parser: Any = importlib.import_module("re._parser")

POLICY = RedactionPolicy(mask_ips=True, pseudonym_key=b"a key of the tests")
MODULES = (
    redaction_assignments,
    redaction_checks,
    redaction_forms,
    redaction_looks,
    redaction_marks,
    redaction_names,
    redaction_text,
    redaction_walk,
)
PATTERNS = {
    f"{module.__name__}.{name}": value
    for module in MODULES
    for name, value in vars(module).items()
    if isinstance(value, re.Pattern)
}
PIECES = (
    *("a", "@", "a@", "a.", "a@a.", "a@b.co ", '"@', "%40", "1", "1 ", "4 ", "41 ", "4111 1111 1111 1111 ", "+1", "+"),
    *(
        "+1 ",
        "(",
        ":",
        "=",
        "a:",
        "a=",
        "a=a:",
        "token=",
        'token="',
        "token=[",
        "password: ",
        "://",
        "a://b:c/",
        "key:",
    ),
    *("a://b@", "eyJ", "eyJ.", "eyJa.b.c ", "-", "-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "END PRIVATE KEY", "\\"),
    *("bearer ", "bearer", "basic ", "basic YQ== ", "AKIA", "AKIAAAAAAAAAAAAAAAAA ", "DE89", "DE89 ", "DE 89 ", "Aa0/"),
    *(
        "{",
        "[",
        '"',
        '\\"',
        '{"a":',
        "[1,",
        "É",
        "\uff11",
        "\u0661 ",
        "1:",
        "1.",
        "::",
        "10.0.0.1 ",
        " ",
        "\t",
        "*",
        "_",
    ),
    *(
        "--a ",
        '--a "',
        "--token '",
        "--",
        "<a>",
        "<a ",
        "<a>b</",
        "</",
        "%3A%2F%2F",
        "%3A%2F%2Fa",
        "%25",
        "%253D",
        "%40",
    ),
    *(
        "('a', ",
        "('token', 'a",
        "token=b'",
        "&quot;",
        "token&quot;:&quot;",
        ":\\/\\/",
        "%2540",
        "%253A%252F%252Fa",
        "a\u0301",
        "\\u005c",
        "\\x3d",
    ),
    *("\u0301", "\u200b", "1\u202f", "\ufdfa", "\0"),
    *("token%22%3A%22", "token: ", "token:\u2003", "\xa0", "['-a', "),
    *("ghp_", "A", "Authorization: ", "Authorization: a\n", "name: password, value: x, ", "a[b]", "null", "x=null,"),
)
# One tried position of a bounded pattern: no more than this many characters are looked at.
MOST_AT_ONCE = 400


def repeats(parsed: Any, times: int = 1, *, last: bool = True) -> Iterator[tuple[int, bool, bool]]:
    """Give each repeat of a pattern: how many characters it may take at most (0: any), and whether it is harmless."""
    items = list(parsed)
    for place, (kind, value) in enumerate(items):
        is_last = last and place == len(items) - 1
        if kind in {_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT}:
            _, most, body = value
            one_class = len(body) == 1 and body[0][0] in {
                _constants.IN,
                _constants.LITERAL,
                _constants.NOT_LITERAL,
                _constants.ANY,
            }
            unbounded = most is _constants.MAXREPEAT
            harmless = kind is _constants.POSSESSIVE_REPEAT or (one_class and is_last and kind is _constants.MAX_REPEAT)
            yield 0 if unbounded else times * most * max(body.getwidth()[1], 1), harmless, unbounded
            yield from repeats(body, times if unbounded else times * most, last=False)
        elif kind is _constants.SUBPATTERN:
            yield from repeats(value[3], times, last=is_last)
        elif kind is _constants.BRANCH:
            for branch in value[1]:
                yield from repeats(branch, times, last=is_last)
        elif kind in {_constants.ASSERT, _constants.ASSERT_NOT}:
            yield from repeats(value[1], times, last=False)


@pytest.mark.parametrize("name", PATTERNS)
def test_r403_no_pattern_can_go_back_over_a_text(name: str) -> None:
    for most, harmless, unbounded in repeats(_parser.parse(PATTERNS[name].pattern)):
        assert harmless if unbounded else most <= MOST_AT_ONCE, PATTERNS[name].pattern


def test_the_proof_finds_what_is_quadratic() -> None:
    for quadratic in (r"a+b", r"(a+)+", r"(?:ab?)*", r".*x", r"(?:a{0,100}b){0,100}", r"x*?"):
        assert not all(
            harmless if unbounded else most <= MOST_AT_ONCE
            for most, harmless, unbounded in repeats(_parser.parse(quadratic))
        ), quadratic
    assert PATTERNS


def steps(work: Callable[[], object]) -> int:
    """Count the lines of redaction's Python that run."""
    count = 0

    def line(_: FrameType, event: str, __: object) -> Any:
        nonlocal count
        count += event == "line"
        return line

    def call(frame: FrameType, _: str, __: object) -> Any:
        return line if "redaction" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def is_linear(of: Callable[[int], Callable[[], object]], size: int) -> bool:
    """Say whether four times the size takes about four times the steps; 16 times would be quadratic."""
    few, many = steps(of(size)), steps(of(4 * size))
    return many <= 6 * few + 500


@pytest.mark.parametrize("piece", PIECES)
def test_r403_the_steps_grow_with_a_hostile_text(piece: str) -> None:
    assert is_linear(lambda size: lambda: mask_text(POLICY, piece * (size // len(piece))), 1500)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join))
def test_r403_the_steps_grow_with_a_mixture(piece: str) -> None:
    assert is_linear(lambda size: lambda: mask_text(POLICY, piece * (size // len(piece) + 1)), 1500)


MAPPINGS: dict[str, Callable[[int], Any]] = {
    "secret keys": lambda number: {f"person{n}@x.org": n for n in range(number)},
    "keys below a secret name": lambda number: {"tokens": {f"a{n}": n for n in range(number)}},
    "keys that are taken": lambda number: {**{f"[email] #{n}": n for n in range(2, number)}, "a@b.co": 1, "c@d.ef": 2},
    "pairs in lists": lambda number: [["Cookie", "x"]] * number,
    "pairs in objects": lambda number: [{"key": "password", "value": "x"}] * number,
    "names": lambda number: {f"field_{n}": "x" for n in range(number)},
    "keys that mask alike": lambda number: {f"Authorization: {n}": n for n in range(number)},
}


@pytest.mark.parametrize("kind", MAPPINGS)
def test_r403_the_steps_grow_with_the_members_of_a_payload(kind: str) -> None:
    def of(size: int) -> Callable[[], object]:
        payload = MAPPINGS[kind](size)
        return lambda: redact(POLICY, "A", payload)

    assert is_linear(of, 300)


MOST_STEPS = 20
"""Lines of Python for each character of the worst texts."""


@pytest.mark.parametrize("seed", [1])
def test_r403_a_megabyte_of_hostile_text_takes_bounded_steps(seed: int) -> None:
    fuzz = random.Random(seed)
    # Open quotes and brackets after a secret name mask the rest.
    pieces = [piece for piece in PIECES if not set(piece) & set('"[{') and "KEY-" not in piece]
    parts = fuzz.choices(pieces, k=1024 * 1024 // 5)
    text = "".join(parts)[: 1024 * 1024 - 40] + " then ada@example.com password=s3cr3t end"
    shown: list[str] = []
    assert steps(lambda: shown.append(mask_text(RedactionPolicy(), text))) <= MOST_STEPS * len(text)
    assert "ada@example.com" not in shown[0]
    assert "s3cr3t" not in shown[0]
    assert len(shown[0]) > len(text) // 4
