"""One connection to Redis: commands go out together once a turn of the loop, replies come back in order.

Every command that was written keeps its place in the line of replies until its reply came, also when its caller was
cancelled: the reply is then dropped, so nobody is handed another's.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

import hiredis

Reply = Any
"""What RESP 2 holds: bytes, int, None, a list of replies, or hiredis.ReplyError."""


def command(*words: str | int | bytes) -> bytes:
    """Write a command in RESP."""
    packed: bytes = hiredis.pack_command(words)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - declared for one word
    return packed


ASKING: Final = command("ASKING")


class Lost(NamedTuple):
    """In place of a reply: the connection ended.

    Attributes:
        written: whether the server may have carried out the command.
    """

    written: bool


class Wire(asyncio.Protocol):
    """A connection in use.

    Attributes:
        is_retired: takes no more commands, and closes after the last reply.
        on_room: called when replies made room for as many more commands.
        on_lost: called once when the connection ended.
    """

    def __init__(self, stall: float) -> None:
        """Wait to be connected.

        Args:
            stall: seconds without a byte, while replies are awaited, after which the server counts as gone.
        """
        self._loop = asyncio.get_running_loop()
        self._stall = stall
        self._reader = hiredis.Reader()
        self._outbox: list[tuple[bytes, asyncio.Future[Reply], bool]] = []
        self._awaited: deque[asyncio.Future[Reply] | None] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._is_paused = False
        self._transport: asyncio.Transport
        self._heard = self._loop.time()
        self.is_retired = False
        self.on_room: Callable[[int], None] = _nothing
        self.on_lost: Callable[[Wire], None] = _nothing

    @property
    def load(self) -> int:
        """How many replies are still to come, for commands written and waiting to be."""
        return len(self._awaited) + len(self._outbox)

    @property
    def has_unsent(self) -> bool:
        """Whether a command waits for the end of this turn of the loop."""
        return bool(self._outbox)

    @property
    def is_open(self) -> bool:
        """Whether it takes commands now."""
        return not (self.is_retired or self._is_paused or self._transport.is_closing())

    def send(self, command: bytes, *, asking: bool = False) -> asyncio.Future[Reply]:
        """Send a command; the future gets the reply, an error reply or `Lost`, and never an exception.

        Args:
            command: in RESP.
            asking: put ASKING before it, whose reply nobody waits for.
        """
        future: asyncio.Future[Reply] = self._loop.create_future()
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox.append((command, future, asking))
        return future

    def retire(self) -> None:
        """Take no more commands; close when the last reply came."""
        self.is_retired = True
        if not self.load:
            self._transport.close()

    def abort(self) -> None:
        """Close at once: the replies that are still to come are lost."""
        self._transport.abort()

    def _flush(self) -> None:
        if self._transport.is_closing():
            return  # connection_lost tells the callers
        if not self._awaited:
            self._heard = self._loop.time()  # silence counts from here
        out, dropped = [], 0
        for command, future, asking in self._outbox:
            if future.done():  # cancelled before it was written: it never happens
                dropped += 1
                continue
            if asking:
                out.append(ASKING)
                self._awaited.append(None)
            out.append(command)
            self._awaited.append(future)
        self._outbox.clear()
        if out:
            if self._timer is None:
                self._timer = self._loop.call_later(self._stall, self._check)
            self._transport.write(b"".join(out))
        if dropped:
            self._made_room(dropped)

    def _check(self) -> None:
        self._timer = None
        if not self._awaited:
            return
        left = self._heard + self._stall - self._loop.time()
        if left <= 0:
            self.abort()
        else:
            self._timer = self._loop.call_later(left, self._check)

    def _made_room(self, count: int) -> None:
        if not self.is_retired:
            self.on_room(count)
        elif not self.load:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by name

    def data_received(self, data: bytes) -> None:
        """Hand each reply to whoever stands first in line."""
        self._heard = self._loop.time()
        awaited, got = self._awaited, 0
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not False:
                future = awaited.popleft()
                got += 1
                if future is not None and not future.done():
                    future.set_result(reply)
        except (hiredis.ProtocolError, IndexError):  # no RESP, or a reply that nobody asked for
            self.abort()
        if got:
            self._made_room(got)

    def pause_writing(self) -> None:
        """Take no commands until the server has read what was written."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """Take commands again."""
        self._is_paused = False
        self._made_room(self.load + 1)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Tell everyone who waits."""
        if self._timer is not None:
            self._timer.cancel()
        for future in self._awaited:
            if future is not None and not future.done():
                future.set_result(Lost(written=True))
        for _, future, _ in self._outbox:
            if not future.done():
                future.set_result(Lost(written=False))
        self._awaited.clear()
        self._outbox.clear()
        self.on_lost(self)


def _nothing(_: object) -> None:
    return
