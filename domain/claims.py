"""Who may call, by the claims of a JWT whose signature was verified (RFC 7519 § 4.1, RFC 9068; CONTRACTS § 8)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pydantic import JsonValue

from domain.access import SCOPES, Caller, Scope
from domain.errors import Unauthenticated

LEEWAY_SECONDS: Final = 60
"""How far the issuer's clock may be off; it prolongs a token by as much."""

MAX_NAME: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRules:
    """What claims have to say.

    Attributes:
        issuer: `iss`, exactly.
        audience: is `aud`, or among its values.
        scopes_claim: where the scopes are: text with spaces between them (RFC 8693 § 4.2), or a list.
        scope_prefix: what stands before our scopes there, such as `interlock/` for `interlock/ingest`.
    """

    issuer: str
    audience: str
    scopes_claim: str = "scope"
    scope_prefix: str = ""


def caller_of(claims: JsonValue, rules: ClaimRules, now: datetime) -> Caller:
    """Say who calls.

    | claim | rule |
    |---|---|
    | `exp` | a number of seconds since 1970; later than now, give or take a minute |
    | `nbf`, if any | the same kind; not later than now, give or take a minute |
    | `iss` | the issuer |
    | `aud` | the audience, or a list with it |
    | `sub` | 1-128 characters without control characters: the caller's name |
    | scopes | those that we know count; none is a caller who may do nothing |

    Raises:
        Unauthenticated: a claim is missing or breaks its rule; which is not said.
    """
    if not isinstance(claims, dict):
        raise _refused()
    at = now.timestamp()
    if at >= _number(claims.get("exp")) + LEEWAY_SECONDS or at + LEEWAY_SECONDS < _number(claims.get("nbf", 0)):
        raise _refused()
    if claims.get("iss") != rules.issuer or rules.audience not in _texts(claims.get("aud")):
        raise _refused()
    name = claims.get("sub")
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        raise _refused()
    return Caller(name, _scopes(claims, rules))


def _scopes(claims: Mapping[str, JsonValue], rules: ClaimRules) -> frozenset[Scope]:
    listed = claims.get(rules.scopes_claim)
    given = set(listed.split(" ") if isinstance(listed, str) else _texts(listed))
    return frozenset(scope for scope in SCOPES if rules.scope_prefix + scope in given)


def _texts(value: JsonValue) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [one for one in values if isinstance(one, str)]


def _number(value: JsonValue) -> float:
    """Give a number of seconds; a claim that is none is as bad as none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refused()
    return value


def _refused() -> Unauthenticated:
    return Unauthenticated(token_shown=True)
