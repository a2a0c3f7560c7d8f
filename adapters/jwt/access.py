"""Bearer tokens that are JWTs (ports/access.py; RFC 7519, RFC 8725)."""

from datetime import datetime
from typing import Any, Final

from jwt import PyJWS
from jwt.exceptions import PyJWTError
from pydantic import SecretStr

from adapters.jwt.keys import KeySet
from domain.access import Caller
from domain.claims import ClaimRules, caller_of
from domain.errors import Invalid, Unauthenticated
from domain.json_reader import read_json

ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
"""The ones that can be allowed: signatures only, whose keys may be published. `none` and HMAC are not among them."""

MAX_TOKEN: Final = 16 * 1024


class JwtAccess:
    """Judges JWTs by their signature and their claims.

    The token names its key and its algorithm. Both are only looked up: the key among those of the issuer, the algorithm
    among those that are allowed and that the key is for (RFC 8725 § 3.1).

    Args:
        keys: of the issuer.
        rules: what the claims have to say.
        algorithms: the allowed ones, among `ALGORITHMS`.
    """

    def __init__(self, keys: KeySet, rules: ClaimRules, algorithms: frozenset[str]) -> None:
        self._keys = keys
        self._rules = rules
        self._algorithms = algorithms & ALGORITHMS
        self._jws = PyJWS(sorted(self._algorithms), options={"enforce_minimum_key_length": True})

    async def identify(self, token: SecretStr, now: datetime, /) -> Caller:
        """Say whose token this is; see the port."""
        text = token.get_secret_value()
        if len(text) > MAX_TOKEN:
            raise Unauthenticated(token_shown=True)
        try:
            header = self._jws.get_unverified_header(text)
            key_id, algorithm = self._named(header)
            key = await self._keys.key(key_id, algorithm)
            if key is None:
                raise Unauthenticated(token_shown=True)
            claims = read_json(self._jws.decode(text, key, algorithms=[algorithm]))
        except (PyJWTError, Invalid, ValueError, TypeError, RecursionError):
            raise Unauthenticated(token_shown=True) from None
        return caller_of(claims, self._rules, now)

    async def check(self) -> None:
        """Make sure that the keys can be had.

        Raises:
            Unavailable: they cannot.
        """
        await self._keys.key("", "")

    def _named(self, header: dict[str, Any]) -> tuple[str, str]:
        """Give the key and the algorithm that a token names; extensions that are critical to it are not known here."""
        key_id, algorithm = header.get("kid"), header.get("alg")
        if not isinstance(key_id, str) or algorithm not in self._algorithms or "crit" in header:
            raise Unauthenticated(token_shown=True)
        return key_id, algorithm
