"""Where keys are remembered (R-201 to R-209)."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from domain.dedup import Scope


class KeyStore(Protocol):
    """One target that remembers keys of scopes. Every method may raise `Unavailable`, and then may have taken place.

    Names, keys and life spans are checked before they come here (`domain.dedup`).
    """

    async def claim(self, scope: Scope, keys: Sequence[str], ttl: timedelta, /) -> list[bool]:
        """Remember keys, and say of each whether it is new, atomically (R-201).

        Of N concurrent claims of a key exactly one is told True. A key repeated in one call is new at most once. Keys
        are remembered for at least `ttl`, and at most until the longest `ttl` given in the scope has passed. A key
        that only has a value (`put`) is known too. Never repeated by the adapter itself after a reply was lost.
        """
        ...

    async def exist(self, scope: Scope, keys: Sequence[str], /) -> list[bool]:
        """Say of each key whether it is remembered, or has a value."""
        ...

    async def get(self, scope: Scope, key: str, /) -> bytes | None:
        """Give a key's value: empty for one that is remembered without a value, None for an unknown one."""
        ...

    async def put(self, scope: Scope, key: str, value: bytes, ttl: timedelta, /) -> None:
        """Give a key a value that lives exactly `ttl`; it replaces an earlier one."""
        ...

    async def count(self, scope: Scope, /) -> int:
        """Give how many keys of a scope were claimed and are remembered."""
        ...

    async def forget(self, scope: Scope, /) -> int:
        """Forget a scope's keys and values, and give how many keys were claimed and remembered."""
        ...
