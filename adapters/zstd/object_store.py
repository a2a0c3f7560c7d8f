"""Objects compressed with zstd on their way into another store (ports/object_store.py).

Batches of JSON lines shrink to a tenth or less, and what reads them (DuckDB, Spark, `zstd -dc`) knows the format.
"""

import asyncio
from typing import Final

import zstandard

from domain.errors import Malformed
from domain.objects import ObjectPage
from ports.object_store import ObjectStore

LEVEL: Final = 3
MAX_BYTES: Final = 1024**3
"""The largest object that is unpacked."""


class ZstdObjectStore:
    """A store whose objects are zstd frames; sizes in lists are those of the frames.

    Args:
        objects: where the frames are kept.
    """

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    async def put(self, name: str, data: bytes, /) -> bool:
        """Compress an object, in a thread, and store it unless there is one of this name."""
        return await self._objects.put(name, await asyncio.to_thread(compress, data))

    async def get(self, name: str, /) -> bytes | None:
        """Give an object as it was before it was compressed.

        Raises:
            Malformed: it is no zstd frame, or a broken one; the place is its name.
        """
        packed = await self._objects.get(name)
        return None if packed is None else await asyncio.to_thread(decompress, packed, name)

    async def list(self, prefix: str, /, *, after: str = "", limit: int = 1000) -> ObjectPage:
        """Give a page of names."""
        return await self._objects.list(prefix, after=after, limit=limit)

    async def delete(self, name: str, /) -> None:
        """Delete an object."""
        await self._objects.delete(name)


def compress(data: bytes) -> bytes:
    """Give one zstd frame, with its size and a checksum."""
    return zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compress(data)


def decompress(packed: bytes, name: str) -> bytes:
    """Unpack one zstd frame.

    Raises:
        Malformed: it is none, it is broken, or would be over 1 GiB.
    """
    try:
        if zstandard.frame_content_size(packed) > MAX_BYTES:
            raise Malformed(name, f"unpacks to more than {MAX_BYTES} bytes")
        return zstandard.ZstdDecompressor().decompress(packed, max_output_size=MAX_BYTES)
    except zstandard.ZstdError:
        raise Malformed(name, "is no zstd frame, or a broken one") from None
