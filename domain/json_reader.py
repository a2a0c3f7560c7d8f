"""A strict JSON reader that names the place of what it refuses (CONTRACTS § 1, FC-28).

Refused: duplicate keys, NaN and Infinity, numbers that a double cannot hold, lone surrogates,
nesting deeper than 64, a byte-order mark, text that is not UTF-8, and anything RFC 8259 refuses.
All of it as one kind of error, `Malformed`.

Two readers agree. The fast one lets pydantic's parser do the work and proves by counting that none of
its leniencies was used; whenever the proof fails, and for every error, the exact one reads the text again
with a path in hand. `tests/properties/test_json_reader.py` holds them equal.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from json import decoder
from typing import Final

from pydantic import JsonValue
from pydantic_core import from_json

from domain.errors import Malformed

MAX_DEPTH: Final = 64

_CLASSES = bytes.maketrans(b"0123456789.eE+-", b"0" * 11 + b"ee--")
_SAFE_INT: Final = 10**15
_NUMBER_SEEN: Final = 1 << 40
_TOO_DEEP: Final = 1 << 60
# The standard library's own string scanner, in C; typeshed does not list it.
_scan_string: Callable[[str, int], tuple[str, int]] = vars(decoder)["scanstring"]
_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?P<inexact>(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
_EXACT_INT: Final = 2**53
_MAX_NUMBER_LENGTH: Final = 400


def read_json(raw: bytes, *, wrapping: int = 0) -> JsonValue:
    """Read one JSON text.

    Args:
        raw: UTF-8 bytes.
        wrapping: levels around the events in it, which may themselves be 64 levels deep.

    Raises:
        Malformed: with the place (`data.items[3].price`) and the reason.
    """
    try:
        value: JsonValue = from_json(raw)
    except ValueError:
        return _read_exactly(raw, wrapping)
    return value if is_proven(raw, count_strings([value], -wrapping)) else _read_exactly(raw, wrapping)


def count_strings(value: dict[str, JsonValue] | list[JsonValue], depth: int = 1) -> int:
    """Count the strings of a parsed text, keys included, and mark numbers and depth that need a second look.

    Args:
        value: an object or array of a text read by pydantic.
        depth: how deeply it is nested; the outermost object or array of a text is at 1.

    Returns:
        The count, with `1 << 40` added for each number that a double may not hold (see `is_proven`)
        and `1 << 60` where the text is nested too deeply.
    """
    if depth > MAX_DEPTH:
        return _TOO_DEEP
    count = 0
    children: Iterable[JsonValue] = value
    if type(value) is dict:
        count = len(value)
        children = value.values()
    for child in children:
        kind = type(child)
        if kind is str:
            count += 1
        elif kind is dict or kind is list:
            count += count_strings(child, depth + 1)  # type: ignore[arg-type]
        elif kind is float or (kind is int and not -_SAFE_INT < child < _SAFE_INT):  # type: ignore[operator]
            count += _NUMBER_SEEN
    return count


def is_proven(raw: bytes, strings: int) -> bool:
    """Say whether the fast reader lost nothing of a text.

    Each string, key or value, has two quotes. A duplicate key leaves fewer strings in the value than in the
    text, and so does an escaped quote; nothing makes more. So equal counts prove that no key was lost.
    A double holds every number of 15 digits with a two-digit exponent, so where a number was seen, only longer
    runs are suspect (and `NaN` and `Infinity`, which pydantic takes). Equal counts also say that no quote is escaped,
    so every other piece between quotes lies outside strings: ids in strings are not taken for long numbers.

    Args:
        raw: the text.
        strings: what `count_strings` said of its value.
    """
    if strings >= _TOO_DEEP or raw.count(b'"') != 2 * (strings % _NUMBER_SEEN):
        return False
    if strings < _NUMBER_SEEN:
        return True
    bare = b"".join(raw.split(b'"')[::2])
    classes = bare.translate(_CLASSES)
    suspect = b"0" * 16 in classes or b"e000" in classes or b"e-000" in classes or b"NaN" in bare or b"Inf" in bare
    return not suspect


def refuse(raw: bytes) -> None:
    """Read a text exactly, for the error it holds.

    Raises:
        Malformed: when the text breaks a rule of this module.
    """
    _read_exactly(raw)


def write_json(value: object) -> str:
    """Write compact JSON, with U+FFFE and U+FFFF escaped: XML, and so SQS and SNS, cannot carry them."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")


def _read_exactly(raw: bytes, wrapping: int = 0) -> JsonValue:
    if raw.startswith(b"\xef\xbb\xbf"):
        raise Malformed("", "starts with a byte-order mark; send UTF-8 without one")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise Malformed("", f"is not UTF-8 (byte {error.start})") from None
    reader = _ExactReader(text, MAX_DEPTH + wrapping)
    value, end = reader.value(reader.skip(0))
    if reader.skip(end) != len(text):
        raise Malformed("", f"has more text after the JSON value (character {end})")
    return value


class _ExactReader:
    """Recursive descent with the path of the current value, no deeper than the rule allows."""

    def __init__(self, text: str, max_depth: int) -> None:
        self.text = text
        self.max_depth = max_depth
        self.path: list[str | int] = []

    def fail(self, reason: str) -> Malformed:
        return Malformed(place_of(self.path), reason, path=tuple(self.path))

    def skip(self, at: int) -> int:
        match = _SPACE.match(self.text, at)
        return match.end() if match else at

    def value(self, at: int) -> tuple[JsonValue, int]:
        match self.text[at : at + 1]:
            case "{":
                return self.object(at + 1)
            case "[":
                return self.array(at + 1)
            case '"':
                return self.string(at)
            case "t" | "f" | "n":
                return self.word(at)
            case _:
                return self.number(at)

    def word(self, at: int) -> tuple[JsonValue, int]:
        for word, meaning in (("true", True), ("false", False), ("null", None)):
            if self.text.startswith(word, at):
                return meaning, at + len(word)
        raise self.fail(f"expected a JSON value at character {at}")

    def enter(self) -> None:
        if len(self.path) >= self.max_depth:
            raise self.fail(f"is nested deeper than {MAX_DEPTH} levels")

    def object(self, at: int) -> tuple[JsonValue, int]:
        self.enter()
        found: dict[str, JsonValue] = {}
        at = self.skip(at)
        if self.text[at : at + 1] == "}":
            return found, at + 1
        while True:
            if self.text[at : at + 1] != '"':
                raise self.fail(f"expected a key in double quotes at character {at}")
            key, at = self.string(at)
            self.path.append(key)
            if key in found:
                raise self.fail("is a duplicate key")
            at = self.skip(at)
            if self.text[at : at + 1] != ":":
                raise self.fail(f"expected ':' after the key at character {at}")
            found[key], at = self.value(self.skip(at + 1))
            self.path.pop()
            at = self.skip(at)
            mark = self.text[at : at + 1]
            if mark == "}":
                return found, at + 1
            if mark != ",":
                raise self.fail(f"expected ',' or '}}' at character {at}")
            at = self.skip(at + 1)

    def array(self, at: int) -> tuple[JsonValue, int]:
        self.enter()
        found: list[JsonValue] = []
        at = self.skip(at)
        if self.text[at : at + 1] == "]":
            return found, at + 1
        while True:
            self.path.append(len(found))
            item, at = self.value(at)
            self.path.pop()
            found.append(item)
            at = self.skip(at)
            mark = self.text[at : at + 1]
            if mark == "]":
                return found, at + 1
            if mark != ",":
                raise self.fail(f"expected ',' or ']' at character {at}")
            at = self.skip(at + 1)

    def string(self, at: int) -> tuple[str, int]:
        try:
            found, end = _scan_string(self.text, at + 1)
        except ValueError as error:
            raise self.fail(f"holds a broken string: {getattr(error, 'msg', 'not JSON')} at character {at}") from None
        if not found.isascii() and any("\ud800" <= letter <= "\udfff" for letter in found):
            raise self.fail("holds half of a surrogate pair")
        return found, end

    def number(self, at: int) -> tuple[JsonValue, int]:
        match = _NUMBER.match(self.text, at)
        if match is None:
            if self.text.startswith(("NaN", "Infinity", "-Infinity"), at):
                raise self.fail("NaN and Infinity are not JSON")
            raise self.fail(f"expected a JSON value at character {at}")
        digits = match[0]
        if len(digits) > _MAX_NUMBER_LENGTH:
            raise self.fail("is a number longer than a double can hold; send it as a string")
        if match["inexact"]:
            number = float(digits)
            if number in (float("inf"), float("-inf")):
                raise self.fail("is a number outside the range of a double; send it as a string")
            try:
                held = Decimal(digits) == Decimal(repr(number))
            except ArithmeticError:
                held = False
            if not held:
                raise self.fail("is a number longer than a double can hold; send it as a string")
            return number, match.end()
        integer = int(digits)
        if abs(integer) > _EXACT_INT and not _double_holds(integer):
            raise self.fail("is a number longer than a double can hold; send it as a string")
        return integer, match.end()


def _double_holds(integer: int) -> bool:
    try:
        return int(float(integer)) == integer
    except OverflowError:
        return False


def place_of(path: Sequence[str | int]) -> str:
    """Write a path as people read it: `data.items[3].price`, with odd keys quoted."""
    parts: list[str] = []
    for step in path:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif step.isidentifier():
            parts.append(f".{step}" if parts else step)
        else:
            parts.append(f"[{json.dumps(step[:80])}]")
    return "".join(parts)[:500]


def pointer_of(path: Sequence[str | int]) -> str:
    """Write a path as programs read it: a JSON pointer (RFC 6901), such as `/data/items/3/price`."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)
