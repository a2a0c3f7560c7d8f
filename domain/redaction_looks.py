"""How a text looks to who reads it: in full-width, styled or foreign characters, or with some that nobody sees."""

import re
import unicodedata
from typing import Final

# Full-width letters, digits and signs, and the digits of other scripts: one character each, so that places stay.
_FOREIGN: Final = re.compile(r"[\uFF01-\uFF5E]|(?![0-9])\d")
# Letters with their marks apart, as Macs write names of files.
_APART: Final = re.compile(r"[A-Za-z\xC0-\u024F][\u0300-\u036F]{1,4}")
# How JSON, Python and others write characters; halves of surrogate pairs stay as they are written.
_ESCAPED: Final = re.compile(r"\\{1,8}(?:u((?![Dd][89A-Fa-f])[0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2}))")
_UNSEEN_MARKS: Final = frozenset({0x034F, *range(0x180B, 0x180E), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)})
_MAX_KNOWN: Final = 16_384


def folded(text: str) -> str:
    """Write full-width characters and the digits of all scripts as ASCII, which the rules look for."""
    return text if text.isascii() else _FOREIGN.sub(_fold, text)


def _fold(found: re.Match[str]) -> str:
    sign = found[0]
    return chr(ord(sign) - 0xFEE0) if sign >= "\uff01" and sign <= "\uff5e" else str(unicodedata.digit(sign))


class _Looks(dict[int, str]):
    """What each character looks like. What was found out is remembered, for a bounded number of characters."""

    def __missing__(self, code: int) -> str:
        if len(self) >= _MAX_KNOWN:
            self.clear()
        looks = self[code] = _look(code)
        return looks


_LOOKS: Final = _Looks()


def _look(code: int) -> str:
    sign = chr(code)
    category = unicodedata.category(sign)
    if category == "Cf" or (category == "Cc" and not sign.isspace()) or code in _UNSEEN_MARKS:
        return ""
    return folded(unicodedata.normalize("NFKC", sign))


def plain_look(text: str) -> str:
    r"""Write a text as it looks: all blanks and styles of letters as the usual ones, without what nobody sees.

    What is written as `\u0040` or `\x40` is taken for what it stands for.

    Character by character: normalising a text takes quadratic time where many marks follow one letter.
    """
    if "\\" in text:
        text = _ESCAPED.sub(lambda found: chr(int(found[1] or found[2], 16)), text)
    if text.isascii():
        return text.translate(_LOOKS) if "\0" in text else text
    return _APART.sub(lambda found: unicodedata.normalize("NFC", found[0]), text.translate(_LOOKS))
