"""Processes beside the demo's own: the API, the worker and the feed, each as in production."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

from domain.errors import Unavailable
from entrypoints.demo.operators import Api

PATIENCE: Final = 300.0
"""Seconds after which waiting ends."""

Process: TypeAlias = subprocess.Popen[bytes]


def api(port: int) -> list[str]:
    """Give Python's arguments for the API on a port of this machine."""
    return command("api", "serve", "--insecure", "--port", str(port))


def worker() -> list[str]:
    """Give Python's arguments for the transitions worker."""
    return command("worker", "transitions")


def command(*arguments: str) -> list[str]:
    """Give Python's arguments for a command of ours."""
    return ["-m", "entrypoints.cli.main", *arguments]


def intake_worker(batch: int) -> list[str]:
    """Give Python's arguments for the front door's processor, with so many messages at a time."""
    return ["-m", "entrypoints.cli.main", "worker", "intake", "--batch", str(batch)]


def told(arguments: Sequence[str], folder: Path) -> Any:
    """Run one of our commands to its end, and give the data that it prints.

    Raises:
        Unavailable: it failed.
    """
    with (folder / "commands.log").open("ab") as log:
        done = subprocess.run(  # noqa: S603 - our own module
            [sys.executable, "-m", "entrypoints.cli.main", *arguments],
            env=_environment(folder),
            stdout=subprocess.PIPE,
            stderr=log,
            check=False,
            timeout=PATIENCE,
        )
    if done.returncode:
        raise Unavailable(f"interlock {arguments[0]}", f"it ended with {done.returncode}; see {folder}/commands.log")
    return json.loads(done.stdout)


@contextmanager
def running(
    arguments: Sequence[str], folder: Path, log_name: str, variables: Mapping[str, str] | None = None
) -> Iterator[Process]:
    """Run one of our modules over the SQLite engine in a folder; at the end it is asked to stop.

    Args:
        arguments: Python's.
        folder: of the engine's files and the log.
        log_name: of the file for what it prints.
        variables: added to its environment.
    """
    with (folder / log_name).open("ab") as log:
        process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, *arguments], env={**_environment(folder), **(variables or {})}, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def feed(arguments: Sequence[str], folder: Path, told: Callable[[Mapping[str, int]], None]) -> dict[str, int]:
    """Run a feed to its end, pass on the totals that it prints, and give the last ones.

    Raises:
        Unavailable: it failed.
    """
    totals: dict[str, int] = {}
    with (folder / "feed.log").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, *arguments], env=_environment(folder), stdout=subprocess.PIPE, stderr=log
        )
    with process:
        for line in process.stdout or ():
            totals = json.loads(line)
            told(totals)
    if process.returncode:
        raise Unavailable("the feed", f"it ended with {process.returncode}; see {folder / 'feed.log'}")
    return totals


def wait_until(done: Callable[[], bool], processes: Sequence[Process]) -> None:
    """Wait for something that other processes bring about.

    Raises:
        Unavailable: one of them ended, or it takes longer than five minutes.
    """
    deadline = time.monotonic() + PATIENCE
    while not done():
        if any(process.poll() is not None for process in processes):
            raise Unavailable("a process of the demo", "it ended early; see the logs in its folder")
        if time.monotonic() > deadline:
            raise Unavailable("the demo", "nothing came of it in five minutes; see the logs in its folder")
        time.sleep(0.1)


def is_ready(port: int) -> bool:
    """Say whether the API on a port answers and finds its stores."""
    try:
        return Api(port).get("/readyz").status == 200  # noqa: PLR2004 - HTTP
    except OSError:
        return False


def free_port() -> int:
    """Find a port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    return kept | {"INTERLOCK_ENGINE": "sqlite", "INTERLOCK_DATA_DIR": str(folder)}
