"""Who may call: bearer tokens with scopes and an expiry (CONTRACTS §§ 4 and 8).

A token is `ilk_<id>_<secret>`. The id finds its record; of the secret, 32 random bytes, only the SHA-256 is kept.
With that much randomness a fast hash is as safe as a slow one, and does not slow each request down.
"""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, SecretStr, TypeAdapter, ValidationError

from domain.envelope import Text128, TimeText
from domain.errors import Forbidden, Invalid, Unauthenticated
from domain.json_reader import read_json
from domain.times import format_time, parse_time
from domain.validation import invalid_from

Scope = Literal["ingest", "view", "operate"]

SCOPES: Final[tuple[Scope, ...]] = ("ingest", "view", "operate")
RANDOM_BYTES: Final = 40

_ID_BYTES: Final = 8
_TOKEN: Final = re.compile(r"ilk_([0-9a-f]{16})_([A-Za-z0-9_-]{43})", re.ASCII)
# What a token without a record is compared with, so that it takes as long as any other.
_NO_DIGEST: Final = "0" * 64


class TokenRecord(BaseModel):
    """What is kept of a token: all but its secret.

    Attributes:
        id: the part of the token that finds this record.
        name: whom it was given to; the actor of the moves made with it. Several tokens may share a name.
        sha256: of the secret, in hex.
        scopes: what it opens. None of the scopes includes another.
        expires_at: RFC 3339; from then on it opens nothing.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    name: Text128
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", repr=False)]
    scopes: Annotated[frozenset[Scope], Field(min_length=1)]
    expires_at: TimeText


class IssuedToken(NamedTuple):
    """A new token: its text, to be shown once, and what to keep of it."""

    text: SecretStr
    record: TokenRecord


class Caller(NamedTuple):
    """Who calls, and what it may do."""

    name: str
    scopes: Collection[Scope]


LOCAL: Final = Caller("local", SCOPES)

_RECORDS: Final = TypeAdapter(list[TokenRecord])


def issue_token(name: str, scopes: Iterable[Scope], expires_at: datetime, randomness: bytes) -> IssuedToken:
    """Make a token.

    Args:
        name: whom it is for, 1-128 characters.
        scopes: what it opens, at least one.
        expires_at: when it stops to open anything.
        randomness: 40 bytes that nobody can guess.

    Raises:
        Invalid: with the name of the argument that breaks a rule.
    """
    if len(randomness) != RANDOM_BYTES:
        raise Invalid("randomness", f"must be {RANDOM_BYTES} bytes")
    token_id = randomness[:_ID_BYTES].hex()
    secret = base64.urlsafe_b64encode(randomness[_ID_BYTES:]).decode().rstrip("=")
    try:
        record = TokenRecord(
            id=token_id,
            name=name,
            sha256=_digest(secret),
            scopes=frozenset(scopes),
            expires_at=format_time(expires_at),
        )
    except ValidationError as error:
        raise invalid_from(error) from None
    return IssuedToken(SecretStr(f"ilk_{token_id}_{secret}"), record)


def verify(records: Mapping[str, TokenRecord], token: SecretStr, now: datetime) -> Caller:
    """Say whose token this is.

    Args:
        records: the records by id.
        token: what the caller showed.
        now: the clock.

    Raises:
        Unauthenticated: the token is malformed, unknown, wrong or expired; which of these is not said.
    """
    match = _TOKEN.fullmatch(token.get_secret_value())
    token_id, secret = match.groups() if match else ("", "")
    record = records.get(token_id)
    genuine = hmac.compare_digest(_digest(secret), _NO_DIGEST if record is None else record.sha256)
    if record is None or not genuine or now >= parse_time(record.expires_at):
        raise Unauthenticated(token_shown=True)
    return Caller(record.name, record.scopes)


def require(caller: Caller, scope: Scope) -> None:
    """Hold a caller to a scope.

    Raises:
        Forbidden: the caller lacks it.
    """
    if scope not in caller.scopes:
        raise Forbidden(scope)


def read_tokens(raw: bytes) -> dict[str, TokenRecord]:
    """Read the records of all tokens, by id, from a JSON array.

    Raises:
        Invalid: with the place of what is not exactly a list of records with ids of their own.
    """
    read_json(raw)
    try:
        listed = _RECORDS.validate_json(raw)
    except ValidationError as error:
        raise invalid_from(error) from None
    records = {record.id: record for record in listed}
    if len(records) != len(listed):
        raise Invalid("", "two tokens have the same id")
    return records


def write_tokens(records: Iterable[TokenRecord]) -> str:
    """Write records as `read_tokens` reads them, for people to look at."""
    listed = [{**record.model_dump(), "scopes": [s for s in SCOPES if s in record.scopes]} for record in records]
    return json.dumps(listed, ensure_ascii=False, indent=2) + "\n"


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
