"""Values under sensitive names in text: `password=x`, `?access_token=x`, `Authorization: x`, JSON that was cut off.

Like the rules of `redaction_text`, linear in the length of the text.
"""

import re
from collections.abc import Callable
from typing import Final

from domain.redaction_names import MAX_NAME, PLAIN, URL_NAMES, Name

_SIGN: Final = re.compile(r"[:=]|%3[AaDd]")
_BACK: Final = 96
"""Characters before the sign that may hold the name, its quotes and blanks."""

_NAME_BACKWARDS: Final = re.compile(r"[ \t]{0,4}([\"'`]?)\\{0,8}([\w.\-\[\]]{1,64})")
_BEFORE_VALUE: Final = re.compile(r"[=>]{0,2}[ \t]{0,4}")
_QUOTE: Final = re.compile(r"(\\{0,8})([\"'`])")
_LINE: Final = re.compile(r"[^\r\n]*+")
_WORD: Final = re.compile(r"[^\s&\"'<>;]*+")
_MARK: Final = re.compile(r"\[[a-z_]{2,16}(?::[a-p]{24})?\]")
_SHOWN: Final = re.compile(r"(?:null|none|nil|true|false|undefined|\*{3})[,.)\]}]{0,8}", re.IGNORECASE)


def mask_assignments(
    text: str, name_of: Callable[[str], Name], hidden: Callable[[Name, str], str], is_mark: Callable[[str], bool]
) -> str:
    """Mask the values that stand in a text under sensitive names.

    | the name, and what follows it | masked |
    |---|---|
    | secret, `=` or `:` or `=>`, then quotes | what is between them, or all the rest where they do not end |
    | secret, then `{` or `[` | all the rest: it was cut off, or is no JSON |
    | `Authorization` or `Cookie` | the rest of the line |
    | secret, then anything else | up to a blank, a quote, `&`, `;`, `<` or `>` |
    | personal, and `=`, or in quotes itself | the same |
    | personal, and `:` | nothing: prose has it, as in `e-mail: see below` |
    | `key`, `code`, `sig` or `state` as a parameter of a URL | the same as secret |
    | `key` or `name`, holding such a name, and `value` further on | that value |
    | any, then null, true, false or nothing | nothing |

    Args:
        text: any text.
        name_of: says what a name means.
        hidden: gives what stands in place of a value under a name.
        is_mark: whether a value is such a thing already.
    """
    parts: list[str] = []
    done = floor = 0
    labelled = PLAIN
    for sign in _SIGN.finditer(text):
        if sign.start() < done or text[sign.end() : sign.end() + 2] == "//":
            continue
        before = text[max(floor, sign.start() - _BACK) : sign.start()][::-1]
        floor = sign.end()
        found = _NAME_BACKWARDS.match(before)
        if found is None or found[2].isdigit():
            continue
        name = _meaning(name_of, found[2][::-1], before[found.end() : found.end() + 1])
        if name.is_label:
            labelled = _label_at(text, sign.end(), name_of)
        elif name.is_value and labelled.kind != "plain":
            name, labelled = labelled, PLAIN
        if name.kind == "plain" or (name.kind == "personal" and not found[1] and sign[0] == ":"):
            continue
        start, end = _value_at(text, sign.end(), name)
        value = text[start:end]
        if not value or _SHOWN.fullmatch(value) or is_mark(value):
            continue
        parts += text[done:start], hidden(name, value)
        done = floor = end
    return "".join([*parts, text[done:]])


def _meaning(name_of: Callable[[str], Name], name: str, before: str) -> Name:
    if name in URL_NAMES and before in {"?", "&"}:
        return Name("secret", name)
    return name_of(name)


def _label_at(text: str, at: int, name_of: Callable[[str], Name]) -> Name:
    start, end = _value_at(text, at, PLAIN)
    return name_of(text[start:end]) if end - start <= MAX_NAME else PLAIN


def _value_at(text: str, at: int, name: Name) -> tuple[int, int]:
    blank = _BEFORE_VALUE.match(text, at)
    start = blank.end() if blank else at
    quote = _QUOTE.match(text, start)
    if quote is not None:
        return quote.end(), _closing(text, quote.end(), quote[0])
    if text[start : start + 1] in {"{", "["} and not _MARK.match(text, start):
        return start, len(text)
    value = (_LINE if name.whole_line else _WORD).match(text, start)
    return start, value.end() if value else start


def _closing(text: str, at: int, quote: str) -> int:
    """Give where the quotes close that opened with `quote`: one with more backslashes before it is inside."""
    while (end := text.find(quote[-1], at)) >= 0:
        backslashes = end - at - len(text[at:end].rstrip("\\"))
        if backslashes < len(quote):
            return end - backslashes
        at = end + 1
    return len(text)
