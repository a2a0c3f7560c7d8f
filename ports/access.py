"""Finding out who calls (CONTRACTS § 8)."""

from datetime import datetime
from typing import Protocol

from pydantic import SecretStr

from domain.access import Caller


class Access(Protocol):
    """A judge of bearer tokens. It fails closed: when it cannot tell, nobody gets in."""

    async def identify(self, token: SecretStr, now: datetime, /) -> Caller:
        """Say whose token this is.

        Raises:
            Unauthenticated: the token opens nothing; why is not said.
            Unavailable: what tokens are judged by cannot be read.
        """
        ...


class CheckedAccess(Access, Protocol):
    """A judge that can say beforehand whether it could judge."""

    async def check(self) -> None:
        """Make sure that tokens can be judged.

        Raises:
            Unavailable: what they are judged by cannot be read.
        """
        ...
