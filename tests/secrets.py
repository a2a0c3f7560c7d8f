"""Secrets of every kind, made up, for tests to plant where readers look."""

import json
from typing import Any

from hypothesis import strategies as st
from pydantic import JsonValue

HEX = "0123456789abcdef"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
TOKEN = LETTERS + LETTERS.upper() + "0123456789"


def _luhn(digits: str) -> str:
    """Give the digits with the check digit that makes them pass."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if place % 2 == 0 else 1)
        total += value - 9 if value > 9 else value
    return digits + str(-total % 10)


def _grouped(digits: str, sizes: tuple[int, ...], separator: str) -> str:
    parts, at = [], 0
    for size in sizes:
        parts.append(digits[at : at + size])
        at += size
    return separator.join(part for part in (*parts, digits[at:]) if part)


def _iban(country: str, account: str) -> str:
    """Give the account with the check digits that ISO 13616 wants."""
    number = int("".join(str(int(sign, 36)) for sign in f"{account}{country}00"))
    return f"{country}{98 - number % 97:02}{account}"


def _text(alphabet: str, least: int, most: int) -> st.SearchStrategy[str]:
    return st.text(st.sampled_from(alphabet), min_size=least, max_size=most)


@st.composite
def emails(draw: st.DrawFn) -> str:
    local = draw(_text(LETTERS + "0123456789", 3, 12)) + draw(st.sampled_from(["", ".x", "+tag", "_y", "-z", "'q"]))
    host = draw(_text(LETTERS, 2, 10)) + draw(st.sampled_from([".com", ".co.uk", ".museum", "-x.de", ".xn--p1ai"]))
    return f"{local}@{host}"


@st.composite
def phones(draw: st.DrawFn) -> str:
    digits = draw(st.sampled_from("123456789")) + draw(_text("0123456789", 8, 13))
    separator = draw(st.sampled_from(["", " ", "-", ".", " (", ") ", "\u202f", "\u2009"]))
    return "+" + (digits if not separator else digits[:2] + separator + digits[2:5] + "-" + digits[5:])


@st.composite
def cards(draw: st.DrawFn) -> str:
    prefix, length, sizes = draw(
        st.sampled_from(
            [
                ("4", 16, (4, 4, 4)),
                ("4", 13, (4, 4)),
                ("51", 16, (4, 4, 4)),
                ("2221", 16, (4, 4, 4)),
                ("37", 15, (4, 6)),
                ("36", 14, (4, 6)),
                ("6011", 16, (4, 4, 4)),
                ("62", 19, (6,)),
            ]
        )
    )
    digits = _luhn(prefix + draw(_text("0123456789", length - len(prefix) - 1, length - len(prefix) - 1)))
    return _grouped(digits, sizes, draw(st.sampled_from(["", " ", "-", "\xa0", "\u202f", "\u3000", "\u200b"])))


@st.composite
def ibans(draw: st.DrawFn) -> str:
    country, length = draw(st.sampled_from([("DE", 22), ("NO", 15), ("FR", 27), ("MT", 31), ("GB", 22)]))
    alphabet = "0123456789" if country in {"DE", "NO"} else "0123456789ABCXYZ"
    iban = _iban(country, draw(_text(alphabet, length - 4, length - 4)))
    iban = iban.lower() if draw(st.booleans()) else iban
    return _grouped(iban, (4,) * 8, draw(st.sampled_from(["", " "])))


jwts = st.builds("eyJ{}.eyJ{}.{}".format, _text(TOKEN, 10, 20), _text(TOKEN, 10, 20), _text(TOKEN + "-_", 20, 40))
aws_ids = st.builds("{}{}".format, st.sampled_from(["AKIA", "ASIA"]), _text(LETTERS.upper() + "234567", 16, 16))
private_keys = st.builds(
    "-----BEGIN {0}PRIVATE KEY-----\n{1}\n-----END {0}PRIVATE KEY-----".format,
    st.sampled_from(["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "]),
    _text(TOKEN + "+/", 40, 80),
)
aws_secrets = st.sampled_from(["wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "je7MtGbClwBF/2Zp9Utk/h3yCo8nvbEXAMPLEKEY"])
ipv4s = st.ip_addresses(v=4).map(str)
ipv6s = st.ip_addresses(v=6, network="2001:db8::/32").map(str)
words = _text(TOKEN, 12, 24).map("s3cr3t{}".format)
"""Secrets without a form, which only their place gives away."""

FORMS: dict[str, st.SearchStrategy[str]] = {
    "email": emails(),
    "phone": phones(),
    "card": cards(),
    "iban": ibans(),
    "jwt": jwts,
    "aws_id": aws_ids,
    "aws_secret": aws_secrets,
    "private_key": private_keys,
    "ipv4": ipv4s,
    "ipv6": ipv6s,
}
"""Secrets that their form gives away."""

PLACES = (
    "Authorization: Bearer {}",
    "sent with bearer {}, twice",
    "https://ada:{}@shop.example/path?lang=en",
    "redis://:{}@cache.example:6379/0",
    "https://shop.example/cb?lang=en&access_token={}",
    "https://shop.example/cb?X-Amz-Signature={}&x=1",
    "https://shop.example/cb?key={}#top",
    "login failed, password={}",
    "user=ada&api_key={}&lang=en",
    '{{"password": "{}", "cut',
    "config: {{'secretKey': '{}'}}",
    "Set-Cookie: session_id={}; Path=/",
    "-H 'X-Api-Key: {}'",
    r"{{\"token\":\"{}\"",
    "mysql --user ada --password {} -v",
    "<a:Password Type='x'>{}</a:Password>",
    "password:            {}",
    "password  :\xa0{}",
    "%7B%22password%22%3A%22{}%22%7D",
    "a%253D1%2526password%253D{}",
    "https%3A%2F%2Fada%3A{}%40shop.example%2F",
    "https%253A%252F%252Fada%253A{}%2540shop.example%252F",
    r"posted {{\"callback\":\"https:\/\/ada:{}@shop.example\/",
    "got {{'password': b'{}'}}",
    "headers [('accept', '*/*'), ('X-Api-Key', '{}')]",
    "headers (b'Cookie', b'a={}')",
    "<p>{{&quot;password&quot;:&quot;{}&quot;}}</p>",
    "<a href='/cb?lang=en&amp;key={}'>",
    "<Password><![CDATA[{}]]></Password>",
    "%257B%2522password%2522%253A%2522{}%2522%257D",
    "Pass\u200bword\u200e: {}",
    "p\0a\0s\0s\0w\0o\0r\0d\0=\0{}",
    "contrasen\u0303a={}",
    "\U0001d429\U0001d41a\U0001d42c\U0001d42c\U0001d430\U0001d428\U0001d42b\U0001d41d\ufe55 {}",
    "sent with bearer\u3000{}9",
)
"""Texts that give away what stands in them."""

NAMES = (
    *("password", "Password", "userPassword", "user_password", "PASSWORD2", "db-password", "passwd", "pwd"),
    *("apiKey", "API_KEY", "x-api-key", "ApiKey", "APIKey", "apikey", "api key", "api.key"),
    *("accessToken", "access_token", "ACCESS-TOKEN", "refreshToken", "clientSecret", "client_secret", "tokens"),
    *("Authorization", "Proxy-Authorization", "cookie", "Set-Cookie", "sessionId", "credentials", "private_key"),
    *("pin", "cvv", "otp", "passphrase", "connectionString", "x-amz-security-token", "X-Amz-Signature", "auth"),
    *("email", "E-Mail", "emailAddress", "customer_email", "phoneNumber", "phone_number", "mobile", "firstName"),
    *("dateOfBirth", "ssn", "iban", "cardNumber", "card_number", "passport_no", "street", "billingAddress"),
)
"""Names that give away what hangs under them."""

PLAIN_NAMES = (
    *("id", "type", "state", "items", "order_id", "tokenizer", "secretary", "keyboard", "monkey", "compass", "author"),
    *("description", "price", "created_at", "token_type", "password_changed_at", "max_tokens", "total", "pinned"),
    *("keys", "phonetic", "emailed", "addressee", "streetwise", "card_type", "passenger", "spinning", "is_secretariat"),
)
PLAIN_TEXTS = (
    *("", "gold", "Ada", "to_review", "AB-123456", "ord-000000000042", "2026-01-01T12:00:00.123456Z", "12:30"),
    *("2026-01-01", "eu-west-1", "a thing of beauty", "the bearer of this", "basic training", "lodash@4.17.21"),
    *("icon@2x.png", "https://shop.example/item/1?ref=abc&page=2", "arn:aws:sns:eu-west-1:123456789012:topic"),
    *("0190a5f4-7b7e-7cc0-98d5-0c2f1f6f9a01", "1654646400123", "1708008041006122940", "1.5e+10", "v1.2.3", "50 %"),
    *("std::vector<int>", "a + b = c", "[info] started", "{name} is here", "#fff", "@ada", "C++", "1/2", "Größe: 5"),
    *(
        "see --help",
        "('a', 'b')",
        "b'x'",
        "a &quot;b&quot;",
        "l\u2019\xe9t\xe9\u202f!",
        "\u202bab\u202c",
        "a\u200db",
        "--verbose true",
        "<b>bold</b>",
        "a -- b",
        "https%3A%2F%2Fshop.example%2F%3Fa%40b",
        "50%25",
    ),
    *("d1f3a5b7c9e0d1f3a5b7c9e0d1f3a5b7c9e0d1f3", "4111111111111112", "DE00370400440532013000", "+12", "null"),
)


@st.composite
def planted(draw: st.DrawFn) -> tuple[str, JsonValue]:
    """Give a secret, and a small value that holds it where a reader of payloads must not see it."""
    kind = draw(
        st.sampled_from(["form", "form in text", "form as key", "place", "name", "pair", "header", "key below"])
    )
    if kind.startswith("form"):
        secret = draw(st.sampled_from(sorted(FORMS)).flatmap(FORMS.__getitem__))
        if kind == "form in text":
            before = draw(st.sampled_from(["", "see ", "(", "<", "'", "Größe 5, ", "x: ", "a@b, ", "12 "]))
            return secret, f"{before}{secret}{draw(st.sampled_from(['', ' ok', ')', '>', ', then', ';', '!']))}"
        # Met as a value first, where a name is looked for: what is remembered of it must not open the key.
        before_key: list[JsonValue] = [{"name": secret, "value": 1}, f"{secret}=1", {secret: 1}]
        return secret, before_key if kind == "form as key" else secret
    secret = draw(words)
    if kind == "place":
        return secret, draw(st.sampled_from(PLACES)).format(secret)
    name = draw(st.sampled_from(NAMES))
    if kind == "pair":
        label, value = draw(st.sampled_from([("key", "value"), ("Name", "Value"), ("field", "new_value"), ("k", "v")]))
        return secret, [{label: name, value: draw(wrapped(secret))}]
    if kind == "header":
        return secret, [["accept", "*/*"], [name, secret]]
    return secret, {name: draw(wrapped(secret)) if kind == "name" else {secret: [1, "x"]}}


def wrapped(value: JsonValue, most: int = 3) -> st.SearchStrategy[Any]:
    """Give a value inside others: objects, lists, and JSON in strings."""

    @st.composite
    def wrap(draw: st.DrawFn) -> JsonValue:
        shown: JsonValue = value
        for _ in range(draw(st.integers(0, most))):
            name = draw(st.sampled_from(PLAIN_NAMES))
            around: list[JsonValue] = [
                {name: shown},
                [1, shown, None],
                {"first": True, name: shown, "last": "x"},
                json.dumps({name: shown}),
                json.dumps([shown], ensure_ascii=False),
                json.dumps(shown),
            ]
            shown = draw(st.sampled_from(around))
        return shown

    return wrap()
