"""A few connections to one server, shared by all calls, and kept alive in the background.

| state | a call |
|---|---|
| connected, room | is written at the end of this turn of the loop |
| connected, no room: `in_flight` calls on each connection | waits in order, as long as its caller likes (FC-02) |
| being connected for the first time, or just lost | waits for the outcome |
| down: connecting failed, or connections did not last; tried again every half second | `Unavailable` at once (R-208) |

| what happens to a call | then |
|---|---|
| cancelled before it was written | it is not written |
| cancelled later | its reply is read and dropped (`wire.py`) |
| connection lost before it was written | sent on another connection |
| connection lost later | sent again if it may be (`again`), else `Unavailable`: it may have taken place |
| `READONLY`: a replica answered, nothing was done | all connections are replaced, and it is sent again (FC-02) |
"""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

import hiredis

from adapters.redis.target import Address, Target
from adapters.redis.wire import Lost, Reply, Wire, command
from domain.errors import Unavailable

DEPENDENCY: Final = "Redis"
ATTEMPTS: Final = 3
FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 0.5
SHORT_LIFE: Final = 1.0
"""Seconds: a connection that ends sooner is not replaced at once, but after a pause."""
PATIENCE: Final = 0.15
"""Seconds: the pause after which connections that do not last count as none."""


class Refusal(Exception):  # noqa: N818 - an answer, not a fault of ours
    """An error reply: the server did not do what it was told.

    Attributes:
        code: its first word, such as `NOSCRIPT`. The rest may quote keys, and is kept out of messages.
        detail: the rest.
    """

    def __init__(self, reply: hiredis.ReplyError) -> None:
        super().__init__()
        self.code, _, self.detail = str(reply).partition(" ")

    def __str__(self) -> str:
        """Give the code only."""
        return f"it answered {self.code}"


@dataclass(frozen=True, slots=True)
class Settings:
    """How to use connections.

    Attributes:
        connections: to each server.
        in_flight: calls at once on each of them.
        connect_timeout: seconds, from the first packet to the last word of the handshake.
        stall: seconds of silence, while replies are awaited, after which a connection is given up.
        client_name: what CLIENT LIST shows.
        on_wait: told the seconds that a call waited for a connection, when it had to.
    """

    connections: int = 4
    in_flight: int = 64
    connect_timeout: float = 1.0
    stall: float = 2.0
    client_name: str = "interlock"
    on_wait: Callable[[float], None] = lambda _: None


class Channel(Protocol):
    """What carries commands to the right server."""

    async def call(self, message: bytes, slot: int, /, *, again: bool) -> Reply:
        """Send a command and give its reply.

        Args:
            message: the command in RESP.
            slot: of the cluster, where there is one.
            again: whether doing it twice is harmless, so that it may be repeated after its reply was lost.

        Raises:
            Refusal: an error reply.
            Unavailable: no reply.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


async def dial(address: Address, target: Target, settings: Settings) -> Wire:
    """Connect and introduce ourselves.

    Raises:
        OSError: no connection, or none that TLS accepts.
        TimeoutError: too slow.
        Refusal: user, password, database or name were refused.
        Unavailable: the connection ended during the handshake.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(settings.connect_timeout):
        _, wire = await loop.create_connection(lambda: Wire(settings.stall), *address, ssl=target.context)
        try:
            if target.password is not None:
                await _say(wire, "AUTH", *([target.user] if target.user else []), target.password)
            if target.database:
                await _say(wire, "SELECT", str(target.database))
            await _say(wire, "CLIENT", "SETNAME", settings.client_name)
        except BaseException:
            wire.abort()
            raise
    return wire


async def _say(wire: Wire, *words: str) -> None:
    reply = await wire.send(command(*words))
    if isinstance(reply, Lost):
        raise Unavailable(DEPENDENCY, "the connection ended during the handshake")
    if isinstance(reply, hiredis.ReplyError):
        raise Refusal(reply)


class Pool:
    """Connections to one server, or to whichever server `connect` finds."""

    def __init__(self, connect: Callable[[], Awaitable[Wire]], settings: Settings) -> None:
        """Nothing is connected before the first call."""
        self._connect = connect
        self._settings = settings
        self._wires: list[Wire] = []
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._short = asyncio.Event()
        self._failure: str | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._is_closed = False

    async def call(self, message: bytes, _slot: int = 0, /, *, again: bool, asking: bool = False) -> Reply:
        """Send a command and give its reply (`Channel.call`)."""
        for _ in range(ATTEMPTS):
            wire = (None if self._waiting else self._find_room()) or await self._wait_for_room()
            reply = await wire.send(message, asking=asking)
            if isinstance(reply, Lost):
                if reply.written and not again:
                    raise Unavailable(DEPENDENCY, "the connection was lost before the reply came")
            elif not isinstance(reply, hiredis.ReplyError):
                return reply
            elif (refusal := Refusal(reply)).code != "READONLY":
                raise refusal
            elif wire in self._wires:  # else an earlier reply did it
                self._replace_all()
        raise Unavailable(DEPENDENCY, f"connections were lost or led to a replica {ATTEMPTS} times in a row")

    async def aclose(self) -> None:
        """Close all connections. Calls whose replies are still to come are `Unavailable`."""
        await self._stop("it was closed")
        for wire in list(self._wires):
            wire.abort()

    async def retire(self) -> None:
        """Take no more calls, and close once all replies came."""
        await self._stop("it left the cluster")
        self._replace_all()

    async def _stop(self, reason: str) -> None:
        self._is_closed, self._failure = True, reason
        if self._keeper is not None:
            self._short.set()
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        self._wake(len(self._waiting))

    def _find_room(self) -> Wire | None:
        """Give a connection that writes at the end of this turn anyway, so that a turn's calls share one packet.

        Else the one with the fewest calls: one that hangs writes nothing more, and so holds up few.
        """
        best, least = None, self._settings.in_flight
        for wire in self._wires:
            load = wire.load
            if load < self._settings.in_flight and wire.is_open:
                if wire.has_unsent:
                    return wire
                if load < least:
                    best, least = wire, load
        return best

    async def _wait_for_room(self) -> Wire:
        loop = asyncio.get_running_loop()
        start = loop.time()
        if self._keeper is None and not self._is_closed:
            self._keeper = loop.create_task(self._keep())
            self._keeper.add_done_callback(lambda _: self._wake(len(self._waiting)))
        is_first = False
        while True:
            if self._keeper is not None and self._keeper.done() and not self._keeper.cancelled():
                self._keeper.result()  # raises what ended it: a mistake of ours
            if self._failure is not None and (self._is_closed or not self._wires):
                raise Unavailable(DEPENDENCY, self._failure)
            turn = loop.create_future()
            (self._waiting.appendleft if is_first else self._waiting.append)(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn in self._waiting:
                    self._waiting.remove(turn)
                elif not turn.cancelled():
                    self._wake(1)  # it was this caller's turn: the next one's, then
                raise
            if wire := self._find_room():
                self._settings.on_wait(loop.time() - start)
                return wire
            is_first = True

    def _wake(self, count: int) -> None:
        while count > 0 and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                count -= 1

    def _replace_all(self) -> None:
        wires, self._wires = self._wires, []
        for wire in wires:
            wire.retire()
        self._short.set()

    def _add(self, wire: Wire) -> None:
        if not wire.is_open:  # it ended before it could tell us
            raise Unavailable(DEPENDENCY, "a new connection ended at once")
        wire.on_room, wire.on_lost = self._wake, self._lost
        self._wires.append(wire)
        self._failure = None
        self._wake(self._settings.in_flight)

    def _lost(self, wire: Wire) -> None:
        if wire in self._wires:
            self._wires.remove(wire)
            self._short.set()

    def _down(self, reason: str) -> None:
        self._failure = reason
        if not self._wires:
            self._wake(len(self._waiting))

    async def _keep(self) -> None:
        """Keep as many connections as are wanted, until told to stop: libraries may swallow a cancellation."""
        loop, pause = asyncio.get_running_loop(), 0.0
        while not self._is_closed:
            start = loop.time()
            self._short.clear()
            try:
                while len(self._wires) < self._settings.connections and not self._short.is_set():
                    self._add(await self._connect())
                await self._short.wait()
            except (OSError, TimeoutError, Refusal, Unavailable) as error:
                self._down(str(error) if isinstance(error, Refusal) else type(error).__name__)
            else:
                if loop.time() - start >= SHORT_LIFE:
                    pause = 0.0
                    continue
                if pause >= PATIENCE:
                    self._down("new connections do not last")
            pause = min(max(2 * pause, FIRST_PAUSE), LONGEST_PAUSE)
            await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - spreads clients, hides nothing
