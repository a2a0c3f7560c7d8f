"""Where content is kept that is too large for a row (FC-33)."""

from typing import Protocol


class PayloadStore(Protocol):
    """Content under keys that its writers make of it, so that one key never means two contents.

    Keys are 1-512 of the characters a-z 0-9 / . _ - and have no empty, `.` or `..` part. Both methods may raise
    `Unavailable`.
    """

    async def put(self, key: str, content: bytes, /) -> None:
        """Keep content. Keeping it again changes nothing; an answer means that it is durable."""
        ...

    async def get(self, key: str, /) -> bytes | None:
        """Give content, whole, or None where there is none."""
        ...
