"""Where batches of messages are kept as objects (R-502)."""

from typing import Protocol

from domain.objects import ObjectPage


class ObjectStore(Protocol):
    """Named objects that are written once. Every method may raise `Unavailable`, and then may have taken place.

    Names keep `domain.objects.check_object_name`, on every engine; what breaks it raises `Invalid`.
    """

    async def put(self, name: str, data: bytes, /) -> bool:
        """Store an object unless there is one of this name, atomically; it is durable when this answers.

        Returns:
            Whether it is new. Where it is not, the one that is there stays as it is.
        """
        ...

    async def get(self, name: str, /) -> bytes | None:
        """Give an object whole, or None where there is none."""
        ...

    async def list(self, prefix: str, /, *, after: str = "", limit: int = 1000) -> ObjectPage:
        """Give objects whose names start with `prefix`, in the order of names, 1 to 1,000 of them.

        Args:
            prefix: may end anywhere in a name.
            after: names up to and including this one are left out; the page before says which.
            limit: how many at most.
        """
        ...

    async def delete(self, name: str, /) -> None:
        """Delete an object; where there is none, nothing happens."""
        ...
