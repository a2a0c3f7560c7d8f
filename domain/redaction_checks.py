"""What proves that digits are a card number, that letters and digits are an IBAN, and that signs are an AWS secret."""

import re
from itertools import pairwise
from typing import Final

_DOUBLED: Final = bytes.maketrans(b"0123456789", b"0246813579")
_MASTERCARD_AND_MIR: Final = re.compile(r"22(?:0[0-4]|2[1-9]|[3-9])|2[3-6]|27(?:[01]|20)")

_IBAN_LENGTHS: Final = {
    country: int(length)
    for length, countries in {
        "15": "NO",
        "16": "BE",
        "18": "DK FI FK FO GL NL SD",
        "19": "MK SI",
        "20": "AT BA EE KZ LT LU MN XK",
        "21": "CH HR LI LV",
        "22": "BG BH CR DE GB GE IE ME RS VA",
        "23": "AE GI IL IQ OM SO TL",
        "24": "AD CZ ES MD PK RO SA SE SK TN VG",
        "25": "LY PT ST",
        "26": "IS TR",
        "27": "BI DJ FR GR IT MC MR SM",
        "28": "AL AZ BY CY DO GT HN HU LB NI PL SV",
        "29": "BR EG PS QA UA",
        "30": "JO KW MU YE",
        "31": "MT SC",
        "32": "LC",
        "33": "RU",
    }.items()
    for country in countries.split()
}
"""Characters of an IBAN by country (SWIFT's IBAN registry)."""

MIN_IBAN: Final = 15
MAX_IBAN: Final = 34
MIN_CARD: Final = 13
MAX_CARD: Final = 19
SMALLEST_CARD: Final = 10 ** (MIN_CARD - 1)


def is_card(digits: str) -> bool:
    """Say whether 13 to 19 ASCII digits are a card number: of a range that card schemes have, and passing Luhn.

    | digits | card number |
    |---|---|
    | begin with 3, 4, 5 or 6, and pass | yes |
    | 16, begin with 2200-2204 or 2221-2720, and pass | yes |
    | any other beginning: 1 is what times in milliseconds and smaller units begin with | no |
    | fail Luhn (ISO/IEC 7812-1 annex B) | no |
    """
    if not MIN_CARD <= len(digits) <= MAX_CARD:
        return False
    if digits[0] not in "3456" and not (len(digits) == 16 and _MASTERCARD_AND_MIR.match(digits)):  # noqa: PLR2004
        return False
    signs = digits.encode()
    return (sum(signs[-1::-2]) + sum(signs[-2::-2].translate(_DOUBLED)) - ord("0") * len(signs)) % 10 == 0


def iban_length(country: str) -> int | None:
    """Give how many characters an IBAN of this country has; None where the registry does not know the country."""
    return _IBAN_LENGTHS.get(country.upper())


def is_iban(text: str) -> bool:
    """Say whether letters and digits without separators are an IBAN whose check digits fit (ISO 13616, mod 97)."""
    if not MIN_IBAN <= len(text) <= MAX_IBAN:
        return False
    return int("".join(str(int(sign, 36)) for sign in text[4:] + text[:4])) % 97 == 1


def is_aws_secret(text: str) -> bool:
    """Say whether 40 signs of base64 look drawn at random, as AWS secret access keys are, and not written.

    | signs | secret |
    |---|---|
    | lack capitals, small letters or digits, as digests in hex do | no |
    | change their class in less than 9 places, as paths and words do | no |
    | anything else | yes |
    """
    classes = ["A" if sign.isupper() else "a" if sign.islower() else "0" if sign.isdigit() else "/" for sign in text]
    if not {"A", "a", "0"} <= set(classes):
        return False
    changes = sum(one != next_ and "/" not in one + next_ for one, next_ in pairwise(classes))
    return changes >= 9  # noqa: PLR2004 - see the table
