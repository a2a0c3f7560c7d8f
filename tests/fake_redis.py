"""A server that speaks Redis's protocol as badly as the network allows."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import hiredis

Words = list[bytes]


@dataclass
class FakeRedis:
    """Answers ECHO with its word, and everything else with OK, or as a test says.

    Attributes:
        delay: the longest pause before a piece of a reply, in seconds.
        split: cut replies into pieces at random places.
        death: how likely a connection ends, in place of a piece.
        answer: gives the bytes of a reply; None for none at all, and the connection ends.
        heard: all commands, but those of handshakes.
        connections: how many were made.
    """

    seed: int = 0
    delay: float = 0.0
    split: bool = False
    death: float = 0.0
    answer: Callable[[Words], bytes | None] | None = None
    heard: list[Words] = field(default_factory=list)
    connections: int = 0
    address: tuple[str, int] = ("127.0.0.1", 0)
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection."""
        self.connections += 1
        self.writers.add(writer)
        parser = hiredis.Reader()
        try:
            while data := await reader.read(1 << 16):
                parser.feed(data)
                while (words := parser.gets()) is not False:
                    reply = self._reply(words)
                    if reply is None:
                        return
                    for piece in self._pieces(reply):
                        if self.delay and self.random.random() < 0.3:
                            await asyncio.sleep(self.random.random() * self.delay)
                        if words[0] not in {b"CLIENT", b"AUTH", b"SELECT"} and self.random.random() < self.death:
                            return
                        writer.write(piece)
                        await writer.drain()
        except ConnectionError:
            return
        finally:
            self.writers.discard(writer)
            writer.transport.abort()

    def _reply(self, words: Words) -> bytes | None:
        if words[0] in {b"CLIENT", b"AUTH", b"SELECT"}:
            return b"+OK\r\n"
        self.heard.append(words)
        if self.answer is not None:
            return self.answer(words)
        return b"$%d\r\n%b\r\n" % (len(words[1]), words[1]) if words[0] == b"ECHO" else b"+OK\r\n"

    def _pieces(self, reply: bytes) -> list[bytes]:
        if not self.split:
            return [reply]
        cuts = sorted(
            {0, len(reply), *(self.random.randrange(len(reply) + 1) for _ in range(self.random.randrange(4)))}
        )
        return [reply[start:end] for start, end in itertools.pairwise(cuts)]


@asynccontextmanager
async def running(fake: FakeRedis) -> AsyncIterator[FakeRedis]:
    """Serve on a free port."""
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    fake.address = server.sockets[0].getsockname()[:2]
    try:
        yield fake
    finally:
        server.close()
        async with asyncio.timeout(5):
            for _ in range(10):  # turns of the loop, in which connections that were accepted begin
                await asyncio.sleep(0)
            while fake.writers:
                for writer in list(fake.writers):
                    writer.transport.abort()
                await asyncio.sleep(0.001)
            await server.wait_closed()
