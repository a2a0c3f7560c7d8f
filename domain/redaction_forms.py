r"""Which forms a text may hold, by what each cannot lack, so that the rules of `redaction_text` seldom run.

| form | needs |
|---|---|
| e-mail | `@`, or `%40`, where encoded once more `%2540` |
| phone | `+`, or `%2B`, likewise |
| user info | `://`, slashes with backslashes before them or not, with an `@` behind it, or `%40` |
| assignment | one of `= : %` |
| option, XML element, pair | `--` before a letter; `</`; a bracket and a quote |
| JSON in a string that names something | a quote |
| credentials | their scheme, and a blank or sign behind it |
| private key, JWT, AWS access key id, API key | how they begin |
| AWS secret access key | 40 of its signs in a row |
| card | 13 digits nearly side by side |
| IBAN | two letters, two digits, and 11 more of either |
| IPv4 address, IPv6 address | four numbers with dots; a colon |
| any, in styled characters, with other blanks, or with what nobody sees between | those; NUL, `\u`, `\x` |

These are looked for by Rust's regular expressions, which pydantic brings: they look at each character once, however
many the patterns are. They cannot look behind a place or ahead of it, so they find a little more than the rules do.
"""

import re
from collections.abc import Callable
from typing import Final

from pydantic_core import SchemaValidator, core_schema

from domain.redaction_looks import plain_look
from domain.redaction_text import (
    Mark,
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


Occurs = Callable[[str], bool]


def _occurs(*patterns: str) -> Occurs:
    """Give a test whether one of some patterns occurs in a text of Unicode; in any other it finds nothing."""
    return SchemaValidator(core_schema.str_schema(pattern="|".join(patterns))).isinstance_python


is_unicode: Final = _occurs("")
"""Say whether a text is Unicode: half of a surrogate pair is not."""

_SECRETS: Final = (
    r"-{4} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY",
    r":(?:\\{0,8}/){2}[^\s\x22'<>]*@|%(?:25){0,3}40",
    r"(?i-u:bearer|basic)[ \t\x{A0}%+:]",
    r"eyJ[A-Za-z0-9_=-]*\.",
    r"(?:AKIA|ASIA|ABIA)[A-Z0-9]{16}|[A-Za-z0-9/+]{40}",
    r"(?:gh[a-z]_|github_pat_|glpat-|[sr]k_(?:live|test)_|sk-|xox[a-z]-|AIza|npm_|ilk_)[A-Za-z0-9_-]{16}",
)
_CARD: Final = r"[0-9](?:[ \x{A0}\x{2010}-\x{2015}-]{0,2}[0-9]){12}"
_IBAN: Final = r"[A-Za-z]{2}[0-9]{2}(?:[ \x{A0}-]?[0-9A-Za-z]){11}"
_SIGNS: Final = (r"[@+=:%\x22\x00]", "--[A-Za-z]", "</", r"[(\[][Bb]?'", r"\\[ux][0-9A-Fa-f]{2}")
_IPV4: Final = r"[0-9]\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]"

_may_hold_secret: Final = _occurs(*_SECRETS)
_may_hold_iban: Final = _occurs(_IBAN)
_may_hold_number: Final = _occurs(_CARD, _IBAN)
any_form: Final = _occurs(*_SIGNS, *_SECRETS, _CARD, _IBAN)
any_form_or_ip: Final = _occurs(*_SIGNS, *_SECRETS, _CARD, _IBAN, _IPV4)

_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:Z|[+-][0-9]{2}:[0-9]{2})?"
)


def is_time(text: str) -> bool:
    """Say whether a text is a time as ISO 8601 writes it, and nothing else."""
    return _TIME.fullmatch(text) is not None


def may_hold_some(text: str, any_form: Occurs) -> bool:
    """Say whether a text may hold anything that has a form. Most texts may not.

    Args:
        text: any text; of one that is no Unicode nobody knows.
        any_form: finds any of the forms that are looked for.
    """
    if not text.isascii() and (plain_look(text) != text or not is_unicode(text)):
        return True
    return any_form(text)


def mask_secret_forms(text: str, mark: Mark) -> str:
    """Mask what is secret by its form in a text of Unicode."""
    if not _may_hold_secret(text):
        return text
    text = mask_private_keys(text, mark)
    if ("@" in text and "/" in text) or "%" in text:
        text = mask_user_info(text, mark)
    text = mask_http_credentials(text, mark)
    text = mask_jwts(text, mark)
    return mask_keys(text, mark)


def mask_personal_forms(text: str, mark: Mark, *, ips: bool) -> str:
    """Mask what is personal by its form in a text of Unicode."""
    if "@" in text or ("%" in text and "40" in text):
        text = mask_emails(text, mark)
    if "+" in text or "%2" in text:
        text = mask_phones(text, mark)
    if _may_hold_number(text):
        if _may_hold_iban(text):
            text = mask_ibans(text, mark)
        text = mask_cards(text, mark)
    return mask_ips(text, mark) if ips else text
