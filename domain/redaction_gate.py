"""The quick look that tells most texts to hold nothing, so that the rules of `redaction_text` need not run."""

import re
from typing import Final

from domain.redaction_text import folded

_SHORTEST: Final = 6
"""Characters of the shortest secret that has a form: `a@b.co`."""

_SIGN: Final = re.compile("[@+=:%]")
_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]{5,18}(?:Z|[+-][0-9]{2}:[0-9]{2})?")
_DIGIT: Final = re.compile("[0-9]")
_TWO_DIGITS: Final = re.compile(r"[0-9][ \xA0\u2010-\u2015-]{0,2}[0-9]")
_SHORTEST_SCHEME: Final = 8
_SHORTEST_NUMBER: Final = 13
_SHORTEST_KEY: Final = 20
_KEY_RUN: Final = re.compile(r"[0-9A-Za-z/+_-]{20}")


def may_hold_some(text: str, *, ips: bool) -> bool:
    """Say whether a text may hold something that has a form, by what each form needs. Most texts hold nothing.

    | form | needs |
    |---|---|
    | e-mail, phone, user info, assignment | one of `@ + = : %` |
    | credentials | their scheme |
    | card, IBAN | two digits side by side, or nearly so, and 13 characters |
    | AWS access key id, JWT, private key | how they begin |
    | AWS secret access key, API key | a digit, and 20 characters in a row |
    | IP address | a dot or a colon |
    | any, in full-width characters or other digits | those |
    """
    if len(text) < _SHORTEST:
        return False
    if _SIGN.search(text) is not None:
        return _TIME.fullmatch(text) is None
    if (ips and "." in text) or (not text.isascii() and folded(text) != text):
        return True
    size = len(text)
    if size < _SHORTEST_SCHEME:
        return False
    lower = text.lower()
    found = "bearer" in lower or "basic" in lower
    if not found and size >= _SHORTEST_NUMBER:
        found = _TWO_DIGITS.search(text) is not None or "eyJ" in text or "BEGIN " in text
    if not found and size >= _SHORTEST_KEY:
        found = "AKIA" in text or "ASIA" in text or "ABIA" in text
        found = found or (_DIGIT.search(text) is not None and _KEY_RUN.search(text) is not None)
    return found
