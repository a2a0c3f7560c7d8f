"""Several processes on one port: each a fresh interpreter with a loop of its own, since gRPC does not survive a fork.

The kernel spreads connections over them (SO_REUSEPORT). Nobody is restarted in silence: when one ends, all end.
"""

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from domain.errors import Misconfigured
from entrypoints.cli.output import say, tell
from entrypoints.settings import variable

READY: Final = "ready"
"""The line that a process prints when it listens."""

_ASKED: Final = (0, -signal.SIGTERM)


async def run_processes(commands: Sequence[Sequence[str]], stop: asyncio.Event, ready: Callable[[], None]) -> bool:
    """Run Python processes until told to stop, and wait for their end.

    Each holds the other end of a pipe on its standard input: when this process is gone, they see its end and stop
    (`until_parent_ends`).

    Args:
        commands: the arguments of each.
        stop: when set, they are asked to stop.
        ready: called when all of them listen.

    Returns:
        Whether all of them ended only after they were asked to, and without an error. One that was asked before it
        could listen to that has ended by the signal, with nothing in hand.
    """
    processes: list[Process] = []
    ends: list[asyncio.Task[int]] = []
    try:
        for command in commands:
            process = await asyncio.create_subprocess_exec(
                sys.executable, *command, stdin=PIPE, stdout=PIPE, start_new_session=True
            )
            processes.append(process)
            ends.append(asyncio.create_task(process.wait()))
        if await _before_an_end(_all_ready(processes), ends, stop):
            ready()
            await _before_an_end(stop.wait(), ends, stop)
        asked = not any(end.done() for end in ends)
    finally:
        for process in processes:
            if process.returncode is None:
                process.terminate()
        codes = await asyncio.gather(*ends)
    return asked and all(code in _ASKED for code in codes)


def say_ready() -> None:
    """Tell the parent that we listen. What is printed from here on goes to standard error, which is the parent's own.

    Nobody would read it where it went before: it would be lost, and once the pipe is full each print would wait for
    ever. Workflows and activities print, and so does Temporal's library.
    """
    say(READY)
    os.dup2(2, 1)


async def until_parent_ends() -> None:
    """Wait for the end of our standard input."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(1024):
        pass


@contextmanager
def reserved_port(host: str, port: int) -> Iterator[int]:
    """Hold a port that several processes are going to share, and give its number.

    Raises:
        Misconfigured: somebody listens there already, or the address is not of this machine.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        # Without SO_REUSEPORT first: it would let us share a port with a stranger.
        with socket.create_server(address[:2], family=family) as alone:
            port = alone.getsockname()[1]
        holder = socket.socket(family, socket.SOCK_STREAM)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind((address[0], port))
    except OSError as error:
        reason = f"{host}:{port} cannot be listened on ({error.strerror or error}); pass another --host or --port"
        raise Misconfigured(variable(("grpc", "port")), reason) from error
    with holder:
        yield port


async def _all_ready(processes: Sequence[Process]) -> None:
    for process in processes:
        await _ready(process)


async def _ready(process: Process) -> None:
    """Wait for the line; what comes before it, such as what a module prints when it is imported, is passed on."""
    if process.stdout is not None:
        while line := await _line(process.stdout):
            if line.strip() == READY.encode():
                return
            tell(line.decode(errors="replace").rstrip("\n"))
    await process.wait()


async def _line(stream: asyncio.StreamReader) -> bytes:
    """Give a line, or as much of it as there is room for; nothing at the end."""
    try:
        return await stream.readuntil()
    except asyncio.IncompleteReadError as end:
        return end.partial
    except asyncio.LimitOverrunError as long:
        return await stream.readexactly(long.consumed)


async def _before_an_end(awaited: Awaitable[object], ends: Sequence[asyncio.Task[int]], stop: asyncio.Event) -> bool:
    """Wait for something; False where a process ended, or we were told to stop, before it came about."""
    wanted = asyncio.ensure_future(awaited)
    told = asyncio.ensure_future(stop.wait())
    await asyncio.wait([wanted, told, *ends], return_when=asyncio.FIRST_COMPLETED)
    for waiting in (wanted, told):
        waiting.cancel()
    await asyncio.gather(wanted, told, return_exceptions=True)
    return not any(end.done() for end in ends) and not stop.is_set()
