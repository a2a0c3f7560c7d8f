"""A real Temporal server on this machine: started once a test run, on a free loopback port.

`INTERLOCK_TEST_TEMPORAL_ADDRESS` points the tests at another one: then nothing is started.
"""

import asyncio
import os
import shutil
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from temporalio.service import ConnectConfig, RPCError, ServiceClient

from tests.redis_engines import free_port

ELSEWHERE = "INTERLOCK_TEST_TEMPORAL_ADDRESS"
BINARY = Path(sysconfig.get_path("scripts")) / "temporal"
START_SECONDS = 30.0


@dataclass
class TemporalServer:
    """A server process over a database file, which outlives the process."""

    folder: Path
    port: int
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait for a real call to succeed."""
        command = [str(BINARY), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(self.port)]
        command += ["--db-filename", str(self.folder / "temporal.db"), "--log-level", "error"]
        command += ["--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=off"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while not asyncio.run(answers(self.address)):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Temporal did not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop it."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None


async def answers(address: str) -> bool:
    """Say whether a server is there that takes calls."""
    try:
        service = await ServiceClient.connect(ConnectConfig(target_host=address))
        return await service.check_health(timeout=timedelta(seconds=2))
    except (RPCError, RuntimeError):
        return False


@contextmanager
def server() -> Iterator[TemporalServer]:
    """Run a server of its own, which its user may stop and start again."""
    folder = Path(tempfile.mkdtemp(prefix="interlock-temporal-"))
    one = TemporalServer(folder, free_port())
    try:
        one.start()
        yield one
    finally:
        one.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def shared_address() -> Iterator[str]:
    """Give the address of a server that tests share."""
    elsewhere = os.environ.get(ELSEWHERE)
    if elsewhere:
        yield elsewhere
        return
    with server() as one:
        yield one.address
