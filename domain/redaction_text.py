"""Finding secrets in text by their form (R-403). Every rule is linear in the length of the text.

Each looks for a sign that its secrets cannot lack, and takes the text apart around it. Repeats in the regular
expressions are bounded, possessive, or of one class at the end, so that nothing makes them go back over the text
(tests/unit/test_redaction_steps.py counts their steps).
"""

import binascii
import ipaddress
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Final

from domain.redaction_checks import (
    MAX_CARD,
    MIN_CARD,
    iban_length,
    is_aws_secret,
    is_card,
    is_iban,
)
from domain.redaction_marks import BETWEEN_DIGITS

Mark = Callable[[str, str], str]
"""Gives what stands in place of a finding: its kind, and the finding as it is written; the same for the same secret."""

Rule = Callable[[str, Mark], str]

# What a rule looks for begins with a character of its own where it can: regular expressions find one of those fastest.
_AT: Final = re.compile("@")
_ANY_AT: Final = re.compile("@|%(?:25){0,3}40")
_LOCAL: Final = re.compile(r"[\w.!$'*+^`~%-]++")
_ODD_LOCAL: Final = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]++")
_DOMAIN: Final = re.compile(r"[\w-]++(?:\.[\w-]++)++")
_TOP_LEVEL: Final = re.compile(r"\.[^\W\d_]{2}")
_DIGITS: Final = frozenset("0123456789")
_IMAGE_SCALE: Final = re.compile(r"[1-9]x\.[a-z]{3,4}", re.ASCII)

_NUMBER: Final = r"[ ]?\(?[1-9](?:[ ().\-/\xA0\u2010-\u2015]{0,3}[0-9]){6,14}(?![0-9])"
_PHONE: Final = re.compile(r"\+(?<![0-9]\+)" + _NUMBER)
_ANY_PHONE: Final = re.compile(r"(?<![0-9])(?:\+|%(?:25){0,3}2[Bb])" + _NUMBER)
_DECIMAL: Final = re.compile(r"\+[0-9]++\.[0-9]++")

_IBAN: Final = re.compile(r"(?:(?<![0-9A-Za-z])|(?<=IBAN))[A-Za-z]{2}[0-9]{2}(?:[ \xA0-]?[0-9A-Za-z]){11,30}")
_HEX: Final = frozenset("abcdefABCDEF")
_MANY_DIGITS: Final = re.compile(r"[0-9](?<![0-9][0-9])(?:[ \xA0\u2010-\u2015-]{0,2}[0-9]){12,}+")
_GROUP: Final = re.compile(r"[0-9]++")

_HTTP_CREDENTIALS: Final = re.compile(
    r"(bearer|basic)(?:[ \t\xA0]{1,8}|%20|\+|:[ \t]{0,4})[\"'<\\]{0,2}([A-Za-z0-9._~+/=-]++)", re.IGNORECASE | re.ASCII
)
_TOKEN_RUN: Final = re.compile(r"[A-Za-z0-9_.=-]++")
_AWS_ID: Final = re.compile(r"(?<![A-Z0-9])(?:AKIA|ASIA|ABIA)[A-Z0-9]{16}(?![A-Z0-9])")
_AWS_SECRET: Final = re.compile(r"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])")
_API_KEY: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:gh[a-z]_|github_pat_|glpat-|[sr]k_(?:live|test)_|sk-|xox[a-z]-|AIza|npm_|ilk_)"
    r"[A-Za-z0-9_-]{16}[A-Za-z0-9_-]*+"
)
_KEY_BEGINS: Final = re.compile(r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-{4,5}")
_KEY_ENDS: Final = re.compile(r"END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-{0,5}")

_AUTHORITY: Final = re.compile(r"[^\s/?#\"'<>\\]*+")
_URL_RUN: Final = re.compile(r"[^\s\"'<>]*+")
_ENCODED_USER_INFO: Final = re.compile(
    r"(%(?:25)?3A(?:%(?:25)?2F){2})(?:(?!%(?:25)?(?:2F|3F|23|40))[^\s\"'<>/?#&]){1,200}(?=%(?:25)?40)",
    re.IGNORECASE | re.ASCII,
)
_SCHEME: Final = re.compile(r":(?:\\{0,8}/){2}")
_PORT: Final = re.compile(r"[^:]*+:[0-9]{0,5}")

_IPV4: Final = re.compile(r"(?<![0-9.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9]|\.[0-9])")
_IPV6: Final = re.compile(r"[0-9A-Fa-f:.]++")
_MAX_IPV6: Final = 45


def mask_emails(text: str, mark: Mark) -> str:
    """Mask `ada@example.com`, also where its @ is percent-encoded."""
    parts: list[str] = []
    done = floor = 0
    for at in (_ANY_AT if "%" in text else _AT).finditer(text):
        before, floor = text[floor : at.start()], at.end()
        backwards = before[::-1]
        local = _LOCAL.match(backwards) or _ODD_LOCAL.match(backwards)
        length = local.end() if local else before.endswith('"') and len(before) - before.rfind('"', 0, -1)
        domain = _DOMAIN.match(text, at.end())
        start = at.start() - length
        if not length or domain is None or start < done or not _is_domain(domain[0]):
            continue
        parts += text[done:start], mark("email", text[start : domain.end()])
        done = domain.end()
    return "".join([*parts, text[done:]])


def _is_domain(domain: str) -> bool:
    """Say whether a name could be a host's: `4.17.21` of a package and `2x.png` of a picture are not."""
    return _TOP_LEVEL.search(domain) is not None and (
        domain[0] not in _DIGITS or _IMAGE_SCALE.fullmatch(domain) is None
    )


def mask_phones(text: str, mark: Mark) -> str:
    """Mask phone numbers in international form (E.164): a plus sign and 7 to 15 digits."""
    parts: list[str] = []
    done = 0
    for found in (_ANY_PHONE if "%2" in text else _PHONE).finditer(text):
        number = found[0]
        if "." in number and _DECIMAL.fullmatch(number):
            continue
        start, end = found.span()
        parts += text[done:start], mark("phone", number)
        done = end
    return "".join([*parts, text[done:]])


def mask_ibans(text: str, mark: Mark) -> str:
    """Mask IBANs whose check digits fit, in groups or in one."""
    found = _IBAN.search(text)
    parts: list[str] = []
    done = 0
    while found is not None:
        end, iban = _iban_at(text, found)
        if iban:
            parts += text[done : found.start()], mark("iban", iban)
            done = end
        found = _IBAN.search(text, end)
    return "".join([*parts, text[done:]])


def _iban_at(text: str, found: re.Match[str]) -> tuple[int, str]:
    """Give the end of an IBAN and the IBAN; where there is none, the end of its first four characters and ''."""
    wanted = iban_length(found[0][:2])
    signs = [at for at in range(found.start(), found.end()) if text[at].isalnum()]
    length = len(signs) if wanted is None else wanted
    if len(signs) >= length:
        end = signs[length - 1] + 1
        iban = "".join(text[at] for at in signs[:length]).upper()
        if not (text[end : end + 1].isalnum() and text[end].isascii()) and is_iban(iban):
            return end, iban
    return found.start() + 4, ""


def mask_cards(text: str, mark: Mark) -> str:
    """Mask card numbers that pass Luhn's check, in groups or in one.

    Digits beside hexadecimal letters belong to a digest or an id, digits after a decimal point to a number.
    """
    run = _MANY_DIGITS.search(text)
    parts: list[str] = []
    done = 0
    while run is not None:
        end = run.end()
        digits = run[0].replace(" ", "")
        if not digits.isdigit():
            digits = digits.translate(BETWEEN_DIGITS)
        if text[end : end + 1] not in _HEX and is_card(digits) and not _continues(text, run.start()):
            parts += text[done : run.start()], mark("card", digits)
            done = end
            run = _MANY_DIGITS.search(text, end) if len(text) - end >= MIN_CARD else None
            continue
        groups = [group.span() for group in _GROUP.finditer(text, run.start(), end)]
        if _continues(text, run.start()):
            del groups[0]
        if groups and text[end : end + 1] in _HEX:
            groups.pop()
        at = 0
        while at < len(groups):
            last, digits = _card_at(text, groups, at)
            if digits:
                parts += text[done : groups[at][0]], mark("card", digits)
                done, at = groups[last][1], last
            at += 1
        run = _MANY_DIGITS.search(text, end) if len(text) - end >= MIN_CARD else None
    return "".join([*parts, text[done:]])


def _continues(text: str, start: int) -> bool:
    before = text[max(0, start - 2) : start]
    return before[-1:] in _HEX or (before[1:] in {".", ","} and before[0].isdigit())


def _card_at(text: str, groups: list[tuple[int, int]], first: int) -> tuple[int, str]:
    """Give the last group and the digits of the longest card number that begins with a group; '' where none does."""
    last, card, digits = first, "", ""
    for index in range(first, len(groups)):
        start, end = groups[index]
        digits += text[start:end]
        if len(digits) >= MIN_CARD:
            if len(digits) > MAX_CARD:
                break
            if is_card(digits):
                last, card = index, digits
    return last, card


def mask_http_credentials(text: str, mark: Mark) -> str:
    """Mask what follows `Bearer` and `Basic`, unless it is a plain word: `the bearer of this`."""
    parts: list[str] = []
    done = 0
    found = _HTTP_CREDENTIALS.search(text)
    while found is not None:
        scheme, token = found.groups()
        if _is_token(token) if scheme.lower() == "bearer" else _is_user_and_password(token):
            parts += text[done : found.start(2)], mark("credentials", "")
            done = found.end()
        found = _HTTP_CREDENTIALS.search(text, max(done, found.end(1)))
    return "".join([*parts, text[done:]])


def _is_token(text: str) -> bool:
    word = text.strip(".-")
    return not (word.isalpha() and len(word) < 20 and (word.islower() or word.istitle() or word.isupper())) and (  # noqa: PLR2004
        bool(word)
    )


def _is_user_and_password(text: str) -> bool:
    try:
        return b":" in binascii.a2b_base64(text + "=" * (-len(text) % 4))
    except binascii.Error:
        return False


def mask_jwts(text: str, mark: Mark) -> str:
    """Mask JSON Web Tokens: base64 of JSON, and at least one more such part or two other ones, joined by dots."""
    at = text.find("eyJ")
    parts: list[str] = []
    done = 0
    while at >= 0:
        run = _TOKEN_RUN.match(text, at)
        end = run.end() if run else at + 1
        sections = text[at:end].split(".")
        if len(sections) >= 3 or (len(sections) == 2 and sections[1].startswith("eyJ")):  # noqa: PLR2004
            parts += text[done:at], mark("jwt", "")
            done = end
        at = text.find("eyJ", end)
    return "".join([*parts, text[done:]])


def mask_keys(text: str, mark: Mark) -> str:
    """Mask AWS access key ids, secret access keys (40 signs that look drawn at random), and marked API keys.

    Their makers mark those of GitHub, GitLab, Stripe, Slack, Google and npm, and we our own tokens.
    """

    def aws_key(found: re.Match[str]) -> str:
        return mark("aws_key", "") if len(found[0]) < 40 or is_aws_secret(found[0]) else found[0]  # noqa: PLR2004

    def api_key(found: re.Match[str]) -> str:
        return mark("api_key", "") if any(map(str.isdigit, found[0])) else found[0]

    return _API_KEY.sub(api_key, _AWS_SECRET.sub(aws_key, _AWS_ID.sub(aws_key, text)))


def mask_private_keys(text: str, mark: Mark) -> str:
    """Mask blocks of private keys, to the end of the text where a block is cut off."""
    parts: list[str] = []
    done = 0
    begins = _KEY_BEGINS.search(text)
    while begins is not None:
        ends = _KEY_ENDS.search(text, begins.end())
        parts += text[done : begins.start()], mark("private_key", "")
        done = ends.end() if ends else len(text)
        begins = _KEY_BEGINS.search(text, done)
    return "".join([*parts, text[done:]])


def mask_user_info(text: str, mark: Mark) -> str:
    r"""Mask user and password in URLs, also where the password holds a slash that nobody encoded.

    The slashes before them may have backslashes, as in `:\/\/a:b@c`.
    """
    if "%" in text:
        text = _ENCODED_USER_INFO.sub(lambda found: found[1] + mark("user_info", ""), text)
    begins = [found.span() for found in _SCHEME.finditer(text)]
    parts: list[str] = []
    done = 0
    for (_, start), (end, _) in pairwise([*begins, (len(text), 0)]):
        authority = _AUTHORITY.match(text, start, end)
        place = authority[0] if authority else ""
        if "@" not in place and ":" in place and not place.startswith("[") and not _PORT.fullmatch(place):
            run = _URL_RUN.match(text, start, end)
            place = run[0] if run else ""
        user_info, separator, _ = place.rpartition("@")
        if separator:
            parts += text[done:start], mark("user_info", "")
            done = start + len(user_info)
    return "".join([*parts, text[done:]])


def mask_ips(text: str, mark: Mark) -> str:
    """Mask IP addresses of both versions."""

    def marked(found: re.Match[str]) -> str:
        run = found[0]
        before = found.string[max(0, found.start() - 1) : found.start()]
        address = run.rstrip(".") if run.endswith("::") else run.rstrip(".:")
        if len(address) > _MAX_IPV6 or address.count(":") < 2 or before.isalnum():  # noqa: PLR2004
            return run
        return masked(address) + run[len(address) :]

    def masked(address: str) -> str:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return address
        is_one = any(map(str.isdigit, address)) or address.count(":") > 2  # noqa: PLR2004 - `a::b` may be code
        return mark("ip", str(parsed)) if is_one else address

    if ":" in text:
        text = _IPV6.sub(marked, text)
    return _IPV4.sub(lambda found: masked(found[0]), text) if "." in text else text
