"""Values under sensitive names in text: `password=x`, `?access_token=x`, `Authorization: x`, JSON that was cut off.

Like the rules of `redaction_text`, linear in the length of the text.
"""

import re
from collections.abc import Callable
from typing import Final

from domain.redaction_names import MAX_NAME, PLAIN, URL_NAMES, Name, is_field_name

_SIGN: Final = re.compile(r"[:=](?!//)|%(?:25){0,3}3[AaDd](?!//)")
_BACK: Final = 96
"""Characters before the sign that may hold the name, its quotes and blanks."""

_NAME_BACKWARDS: Final = re.compile(
    r"[^\S\r\n]{0,24}(22(?:52){0,3}%|72(?:52){0,3}%|;touq&|;(?:43|93)#&|[\"'`]?)\\{0,8}([\w.\-\[\]]{1,64})"
)
_URL_NAMES_BACKWARDS: Final = frozenset(name[::-1] for name in URL_NAMES)
_QUOTE: Final = r"(?P<quote>&(?:quot|#34|#39);|[BbRrUu]?\\{0,8}[\"'`])"
"""As in `'x'`, `\\"x\\"`, `&quot;x&quot;` and, as Python writes bytes, `b'x'`."""
_VALUE: Final = re.compile(
    r"[=>]{0,2}[^\S\r\n]*+"
    rf"(?:{_QUOTE}|(?P<rest>\{{|\[(?![a-z_]{{2,16}}(?::[a-p]{{24}})?\]))|(?P<word>[^\s&\"'<>;]*+))"
)
_LINE: Final = re.compile(rf"[=>]{{0,2}}[^\S\r\n]*+(?:{_QUOTE}|(?P<word>[^\r\n]*+))")
_SHOWN: Final = re.compile(r"(?:null|none|nil|true|false|undefined|\*{3})[,.)\]}]{0,8}", re.IGNORECASE)

_OPTION: Final = re.compile(
    r"(?<![\w-])--([A-Za-z][\w-]{1,63})[^\S\r\n]{1,4}(?!-)"
    r"(?:\"([^\"]++)|'([^']++)|([^\s\"'<>;|&]++))"
)
_PAIR: Final = re.compile(r"[(\[][Bb]?[\"']([\w.-]{1,64})[\"'],[ ]?[Bb]?(?P<quote>[\"'])")
_ELEMENT: Final = re.compile(r"<(?:[\w.-]{1,64}:)?([\w.-]{1,64})(?:\s[^<>]{0,200})?>(?:<!\[CDATA\[)?([^<]++)</")


def mask_options_and_elements(text: str, name_of: Callable[[str], Name], hidden: Callable[[Name, str], str]) -> str:
    """Mask what follows a secret option, as in `--password x`, and what a sensitive XML element holds.

    Args:
        text: any text.
        name_of: says what a name means.
        hidden: gives what stands in place of a value under a name.
    """

    def masked(found: re.Match[str]) -> str:
        name, value = name_of(found[1]), found[found.lastindex or 1]
        is_hidden = name.kind == "secret" or (name.kind == "personal" and found.re is _ELEMENT)
        if not is_hidden or not value.strip() or _SHOWN.fullmatch(value):
            return found[0]
        start, end = (at - found.start() for at in found.span(found.lastindex or 1))
        return f"{found[0][:start]}{hidden(name, value)}{found[0][end:]}"

    return _ELEMENT.sub(masked, _OPTION.sub(masked, text))


def mask_pairs(text: str, name_of: Callable[[str], Name], hidden: Callable[[Name, str], str]) -> str:
    """Mask what stands beside a secret name, as Python and others write pairs: `('Cookie', 'a=1')`.

    Args:
        text: any text.
        name_of: says what a name means.
        hidden: gives what stands in place of a value under a name.
    """
    parts: list[str] = []
    done = 0
    for found in _PAIR.finditer(text):
        if found.start() < done or (name := name_of(found[1])).kind != "secret":
            continue
        start = found.end()
        end = _closing(text, start, found["quote"])
        value = text[start:end]
        if value and not is_field_name(value):
            parts += text[done:start], hidden(name, value)
            done = end
    return "".join([*parts, text[done:]])


def mask_assignments(text: str, name_of: Callable[[str], Name], hidden: Callable[[Name, str], str]) -> str:
    """Mask the values that stand in a text under sensitive names.

    | the name, and what follows it | masked |
    |---|---|
    | secret, `=` or `:` or `=>`, then quotes | what is between them, or all the rest where they do not end |
    | secret, then `{` or `[` | all the rest: it was cut off, or is no JSON |
    | `Authorization` or `Cookie` | the rest of the line |
    | secret, then anything else | up to a blank, a quote, `&`, `;`, `<` or `>` |
    | personal, and `=`, or in quotes itself | the same |
    | personal, and `:` | nothing: prose has it, as in `e-mail: see below` |
    | `key`, `code` or `state` as a parameter of a URL | the same as secret |
    | `key` or `name`, holding such a name, and `value` further on | that value |
    | any, then null, true, false or nothing | nothing |

    Args:
        text: any text.
        name_of: says what a name means.
        hidden: gives what stands in place of a value under a name; the value itself where it is that already.
    """
    parts: list[str] = []
    done = floor = 0
    labelled = PLAIN
    size, backwards_text = len(text), text[::-1]
    for sign in _SIGN.finditer(text):
        at, end = sign.span()
        if at < done:
            continue
        found = _NAME_BACKWARDS.match(backwards_text, size - at, size - floor)
        floor = end
        if found is None:
            continue
        quote, backwards = found.groups()
        name = name_of(backwards[::-1])
        if name is PLAIN and backwards not in _URL_NAMES_BACKWARDS:
            continue
        if name.kind == "plain" and _is_parameter(found):
            name = Name("secret", backwards[::-1])
        if name.is_label:
            labelled = _label_at(text, end, name_of)
        elif name.is_value and labelled.kind != "plain":
            name, labelled = labelled, PLAIN
        if name.kind == "plain" or (name.kind == "personal" and not quote and sign[0] == ":"):
            continue
        start, end = _value_at(text, end, name)
        value = text[start:end]
        if not value or _SHOWN.fullmatch(value):
            continue
        shown = hidden(name, value)
        if shown is not value:
            parts += text[done:start], shown
            done = floor = end
    return "".join([*parts, text[done:]])


def _label_at(text: str, at: int, name_of: Callable[[str], Name]) -> Name:
    start, end = _value_at(text, at, PLAIN)
    return name_of(text[start:end]) if end - start <= MAX_NAME else PLAIN


def _is_parameter(name: re.Match[str]) -> bool:
    """Say whether the text before a name, which is written backwards, makes it a parameter of a URL."""
    return name[2] in _URL_NAMES_BACKWARDS and name.string.startswith(("?", "&", ";pma&"), name.end())


def _value_at(text: str, at: int, name: Name) -> tuple[int, int]:
    value = (_LINE if name.whole_line else _VALUE).match(text, at)
    if value is None:
        return at, at
    kind = value.lastgroup
    if kind == "quote":
        return value.end(), _closing(text, value.end(), value["quote"])
    if kind == "rest":
        return value.start("rest"), len(text)
    return value.span("word")


def _closing(text: str, at: int, quote: str) -> int:
    """Give where the quotes close that opened with `quote`: one with more backslashes before it is inside."""
    if quote[0] == "&":
        end = text.find(quote, at)
        return len(text) if end < 0 else end
    quote = quote.lstrip("BbRrUu")
    while (end := text.find(quote[-1], at)) >= 0:
        backslashes = end - at - len(text[at:end].rstrip("\\"))
        if backslashes < len(quote):
            return end - backslashes
        at = end + 1
    return len(text)
