"""Two kinds of bearer tokens on one API: ours, hashed in a file, and the JWTs of an issuer (CONTRACTS § 8)."""

from datetime import datetime
from typing import Final

from pydantic import SecretStr

from domain.access import Caller
from ports.access import CheckedAccess

OWN_PREFIX: Final = "ilk_"


class EitherKind:
    """Asks the one judge that a token is for, so that trouble with the other kind does not touch it."""

    def __init__(self, own: CheckedAccess, jwts: CheckedAccess) -> None:
        """Judge our own tokens by the first, all others by the second."""
        self._own = own
        self._jwts = jwts

    async def identify(self, token: SecretStr, now: datetime, /) -> Caller:
        """Say whose token this is; see the port."""
        judge = self._own if token.get_secret_value().startswith(OWN_PREFIX) else self._jwts
        return await judge.identify(token, now)

    async def check(self) -> None:
        """Make sure that both kinds can be judged.

        Raises:
            Unavailable: one cannot.
        """
        await self._own.check()
        await self._jwts.check()
