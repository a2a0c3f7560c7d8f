"""Which forms a text may hold, by what each cannot lack, so that the rules of `redaction_text` seldom run.

| form | needs |
|---|---|
| e-mail | `@`, or `%40` |
| phone | `+`, or `%2B` |
| user info | `://` |
| assignment | one of `= : %` |
| option, XML element | `--`; `</` |
| JSON in a string that names something | a quote |
| credentials | their scheme, and 13 characters |
| private key, JWT, AWS access key id | how they begin |
| AWS secret access key, API key | a digit, and 20 characters in a row |
| card, IBAN | 13 digits nearly side by side; two letters and two digits |
| IP address | a dot or a colon |
| any, in full-width characters or other digits | those |
"""

import re
from typing import Final

from domain.redaction_text import (
    AWS_ID,
    DIGITS,
    KEY_RUN,
    MAYBE_IBAN,
    Mark,
    folded,
    mask_cards,
    mask_emails,
    mask_http_credentials,
    mask_ibans,
    mask_ips,
    mask_jwts,
    mask_keys,
    mask_phones,
    mask_private_keys,
    mask_user_info,
)

SHORTEST: Final = 6
"""Characters of the shortest secret that has a form: `a@b.co`."""

_SHORTEST_NUMBER: Final = 13
_SHORTEST_KEY: Final = 20

_SIGNS: Final = frozenset('@+=:%"')
_SIGN: Final = re.compile('[@+=:%"]')
_SIGN_OR_DIGIT: Final = re.compile('[@+=:%"0-9]')
_TWO_DIGITS: Final = re.compile(r"[0-9][ \xA0\u2010-\u2015-]{0,2}[0-9]")
_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:Z|[+-][0-9]{2}:[0-9]{2})?"
)


def may_hold_some(text: str, ips: bool) -> bool:  # noqa: FBT001 - it is called for every string there is
    """Say whether a text may hold anything that has a form. Most texts may not, and times do not.

    Args:
        text: any text.
        ips: whether IP addresses are looked for.
    """
    if not text.isascii() and folded(text) != text:
        return True
    size = len(text)
    if size < _SHORTEST_NUMBER:
        return _SIGN.search(text) is not None or (ips and "." in text)
    first = _SIGN_OR_DIGIT.search(text)
    if first is not None:
        start = first.start()
        if text[start] in _SIGNS or _SIGN.search(text, start) is not None:
            return _TIME.fullmatch(text) is None
        if (ips and "." in text) or (
            size - start >= _SHORTEST_NUMBER and _TWO_DIGITS.search(text, start) is not None and _may_hold_number(text)
        ):
            return True
    lower = text.lower()
    if "bearer" in lower or "basic" in lower or ("-" in text and "--" in text) or ("<" in text and "</" in text):
        return True
    return size >= _SHORTEST_KEY and (
        ("J" in text and "eyJ" in text)
        or ("-" in text and "BEGIN " in text)
        or (first is not None and KEY_RUN.search(text) is not None)
        or ("I" in text and "IA" in text and AWS_ID.search(text) is not None)
    )


def _may_hold_number(text: str) -> bool:
    return DIGITS.search(text) is not None or MAYBE_IBAN.search(text) is not None


def mask_secret_forms(text: str, mark: Mark) -> str:
    """Mask what is secret by its form."""
    if "-" in text and "BEGIN " in text:
        text = mask_private_keys(text, mark)
    if ("@" in text and "://" in text) or "%40" in text:
        text = mask_user_info(text, mark)
    lower = text.lower()
    if "bearer" in lower or "basic" in lower:
        text = mask_http_credentials(text, mark)
    if "J" in text and "eyJ" in text:
        text = mask_jwts(text, mark)
    if len(text) >= _SHORTEST_KEY and KEY_RUN.search(text) is not None:
        text = mask_keys(text, mark)
    return text


def mask_personal_forms(text: str, mark: Mark, *, ips: bool) -> str:
    """Mask what is personal by its form."""
    if "@" in text or "%40" in text:
        text = mask_emails(text, mark)
    if "+" in text or "%2" in text:
        text = mask_phones(text, mark)
    if len(text) >= _SHORTEST_NUMBER and (digits := _TWO_DIGITS.search(text)) is not None:
        if MAYBE_IBAN.search(text, digits.start()) is not None:
            text = mask_ibans(text, mark)
        text = mask_cards(text, mark)
    return mask_ips(text, mark) if ips else text
