"""What stands in place of what is masked: `***`, the kind as in `[email]`, or a pseudonym as in `[email:…]`.

A pseudonym is a keyed digest (HMAC-SHA-256, RFC 2104): the same person gets the same one, and without the key nobody
can try out who it is. Only personal data get one: that two passwords are equal is nobody's business. A second digest
in it proves that it is ours, so that no writer can pass a secret off as one.
"""

import hashlib
import hmac
import re
from typing import Final

MASK: Final = "***"

PERSONAL_KINDS: Final = frozenset({"email", "phone", "card", "iban", "ip", "personal"})

BETWEEN_DIGITS: Final = str.maketrans("", "", "+ ().-/\xa0\u2010\u2011\u2012\u2013\u2014\u2015")
"""Takes out what may stand between the digits of a number."""

_FORM: Final = re.compile(r"\[([a-z_]{2,16})(?::([a-p]{16})([a-p]{8}))?\]")
_ENCODED_AT: Final = re.compile("%(?:25){0,3}40")
_ENCODED_PLUS: Final = re.compile("%(?:25){0,3}2[Bb]")
_LETTERS: Final = str.maketrans("0123456789abcdef", "abcdefghijklmnop")


class Marks:
    """The marks of one policy.

    Args:
        kinds: what is masked by its form.
        key: of the pseudonyms; None for none.
    """

    def __init__(self, kinds: frozenset[str], key: bytes | None) -> None:
        """Keep the key."""
        self._kinds = kinds
        self._key = key

    def mark(self, kind: str, found: str) -> str:
        """Give what stands in place of a finding.

        Args:
            kind: what it is.
            found: the finding; an address or a number in two styles gets one pseudonym.
        """
        if self._key is None or kind not in PERSONAL_KINDS:
            return f"[{kind}]"
        name = self._digest(kind, _without_style(kind, found))[:16]
        return f"[{kind}:{name}{self._digest(kind, name, 'check')[:8]}]"

    def is_mark(self, text: str) -> bool:
        """Say whether a text is a mark, of this key."""
        if text == MASK:
            return True
        form = _FORM.fullmatch(text) if text.startswith("[") else None
        if form is None:
            return False
        kind, name, check = form.groups()
        if name is None:
            return kind in self._kinds
        return self._key is not None and hmac.compare_digest(check, self._digest(kind, name, "check")[:8])

    def _digest(self, *parts: str) -> str:
        framed = "".join(f"{len(part)}:{part}" for part in parts).encode(errors="surrogatepass")
        return hmac.new(self._key or b"", framed, hashlib.sha256).hexdigest().translate(_LETTERS)


def _without_style(kind: str, found: str) -> str:
    if kind == "email":
        return _ENCODED_AT.sub("@", found).lower()
    if kind == "phone":
        return "+" + _ENCODED_PLUS.sub("", found).translate(BETWEEN_DIGITS)
    return found
