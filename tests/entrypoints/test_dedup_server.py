"""`interlock dedup` as processes: stopping, several of them, TLS, tokens, figures, commands (CONTRACTS §§ 2 and 9)."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import closing
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pydantic import SecretStr

from adapters.grpc.client import DedupClient
from adapters.grpc.gen.interlock.dedup.v1 import dedup_pb2 as pb
from adapters.grpc.pem import Tls
from adapters.grpc.wire import rpc
from domain.dedup import make_scope
from domain.errors import Misconfigured, Unavailable
from tests.entrypoints.dedup_server import ROOT, a_check, interlock, reached, server_process
from tests.redis_engines import free_port
from tests.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_loop")]

PRICING = make_scope("pricing", "run-1")
CHECKED_NEW = 'interlock_dedup_checked_keys_total{outcome="new"}'
MEMORY = {"INTERLOCK_DEDUP__BACKEND": "memory"}


@pytest.fixture
def shared(tmp_path: Path) -> dict[str, str]:
    """Settings of a backend that processes share, with time for a disk that is busy."""
    return {
        "INTERLOCK_DEDUP__BACKEND": "sqlite",
        "INTERLOCK_DEDUP__DEADLINE_SECONDS": "10",
        "INTERLOCK_DATA_DIR": str(tmp_path),
    }


async def test_fc11_sigterm_with_twenty_calls_in_hand() -> None:
    """(3): new calls are refused, the twenty finish, the store is closed after them, exit 0, no lines of asyncio's."""
    with server_process("--port", "0", module="tests.entrypoints.slow_dedup", variables=MEMORY) as server:
        method = rpc("CheckIfNew")
        async with grpc.aio.insecure_channel(server.address) as channel:
            ask = channel.unary_unary(method.path, method.serialize, method.deserialize)
            calls = [asyncio.ensure_future(ask(a_check(str(number)), timeout=20)) for number in range(20)]
            assert server.process.stderr is not None
            for _ in range(20):
                assert (await asyncio.to_thread(server.process.stderr.readline)).strip() == "asked"
            stopping = asyncio.create_task(asyncio.to_thread(server.stop))
            while await _counts(channel):
                pass
            with pytest.raises(grpc.aio.AioRpcError) as late:
                await ask(a_check("late"), timeout=5)
            assert late.value.code() is grpc.StatusCode.UNAVAILABLE
            assert [(await call).is_new for call in calls] == [True] * 20
        code, errors = await stopping
    assert (code, errors.splitlines()) == (0, ["closed", "stopped; nothing is in hand"])


async def _counts(channel: grpc.aio.Channel) -> bool:
    method = rpc("RunStats")
    request = pb.RunStatsRequest(service_code="pricing", run_id="run-1")
    try:
        await channel.unary_unary(method.path, method.serialize, method.deserialize)(request, timeout=5)
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            raise
        return False
    return True


def _refuses(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with closing(socket.socket()) as probe:
        return probe.connect_ex((host, int(port))) != 0


async def test_r201_many_askers_through_two_processes(shared: dict[str, str]) -> None:
    """64 concurrent askers, each with a connection of its own: exactly one is told that a key is new."""
    port = _free_ports(2)
    with server_process("--processes", "2", "--metrics-port", str(port), variables=shared) as server:
        clients = [DedupClient(server.address, deadline=20) for _ in range(64)]
        try:
            await asyncio.gather(*map(reached, clients))
            for number in range(100):
                told = await asyncio.gather(*(client.check(PRICING, [str(number)]) for client in clients))
                assert not any(verdict.degraded for verdict in told)
                assert sum(verdict.is_new[0] for verdict in told) == 1
            new = [await asyncio.to_thread(_figure, port + index, CHECKED_NEW) for index in range(2)]
            assert sum(new) == 101, "the warm-up's key too"
            assert all(new), "each process told some"
        finally:
            await asyncio.gather(*(client.aclose() for client in clients))
        code, errors = server.stop()
    assert (code, errors.splitlines()) == (0, ["stopped; nothing is in hand"])


def _free_ports(number: int) -> int:
    """Give the first of so many ports in a row that nobody listens on."""
    while True:
        port = free_port()
        if all(_refuses(f"127.0.0.1:{port + index}") for index in range(number)):
            return port


def _figure(port: int, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(child) for child in text.split()]


def test_when_a_process_ends_all_end_with_code_1(shared: dict[str, str]) -> None:
    with server_process("--processes", "2", variables=shared) as server:
        victim, other = _children(server.process.pid)
        os.kill(victim, signal.SIGKILL)
        _, errors = server.process.communicate(timeout=20)
        assert server.process.returncode == 1
        assert errors.splitlines() == ["error: a process ended by itself, so all were stopped"]
        assert not Path(f"/proc/{other}").exists()


async def test_processes_end_when_their_parent_is_gone(shared: dict[str, str]) -> None:
    with server_process("--processes", "2", variables=shared) as server:
        children = _children(server.process.pid)
        server.process.kill()
        await until(lambda: not any(Path(f"/proc/{child}").exists() and _runs(child) for child in children))
    assert len(children) == 2


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_processes_cannot_share_is_refused(shared: dict[str, str]) -> None:
    refused = interlock("dedup", "serve", "--port", "0", "--processes", "2", **MEMORY)
    assert refused.returncode == 2
    assert "INTERLOCK_DEDUP__BACKEND: memory serves one process" in refused.stderr
    refused = interlock(
        "dedup", "serve", "--port", "0", "--processes", "2", **shared, INTERLOCK_DEDUP__REMEMBERED_KEYS="10"
    )
    assert refused.returncode == 2
    assert "INTERLOCK_DEDUP__REMEMBERED_KEYS" in refused.stderr
    with server_process(
        "--processes", "2", "--remember", variables={**shared, "INTERLOCK_DEDUP__REMEMBERED_KEYS": "10"}
    ) as server:
        assert server.stop()[0] == 0


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_taken_port_is_told_in_one_line(processes: str, shared: dict[str, str]) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
        refused = interlock("dedup", "serve", "--port", port, "--processes", processes, **shared)
    assert refused.returncode == 1
    assert f"INTERLOCK_GRPC__PORT: 127.0.0.1:{port} cannot be listened on" in refused.stderr


def test_others_are_not_served_without_tokens_or_certificates() -> None:
    refused = interlock("dedup", "serve", "--port", "0", "--host", "0.0.0.0", **MEMORY)  # noqa: S104 - it is refused
    assert refused.returncode == 2
    assert "INTERLOCK_GRPC__HOST: 0.0.0.0 is not loopback" in refused.stderr
    with server_process("--host", "0.0.0.0", "--insecure", variables=MEMORY) as server:  # noqa: S104 - and told to
        assert server.stop()[0] == 0


async def test_tokens_of_the_file(tmp_path: Path) -> None:
    file = str(tmp_path / "tokens.json")
    variables = {**MEMORY, "INTERLOCK_AUTH__TOKENS_FILE": file}
    made = interlock("token", "create", "--name", "crawler", "--scope", "ingest", **variables)
    token = made.stdout.strip()
    with server_process(variables=variables) as server:
        async with DedupClient(server.address, token=SecretStr(token), deadline=10) as client:
            assert (await client.check(PRICING, ["a"])).is_new == [True]
            with pytest.raises(Misconfigured, match="lacks the scope 'view'"):
                await client.count(PRICING)
        async with DedupClient(server.address, deadline=10) as client:
            with pytest.raises(Misconfigured, match="a bearer token is needed"):
                await client.check(PRICING, ["a"])
        shown = {**MEMORY, "INTERLOCK_DEDUP__TOKEN": token}
        asked = interlock("dedup", "check", "pricing", "run-1", "a", "b", "--address", server.address, **shown)
        assert (asked.returncode, asked.stdout) == (0, "seen\ta\nnew\tb\n")
        _, errors = server.stop()
    assert token not in errors


def test_figures() -> None:
    port = _free_ports(1)
    with server_process("--metrics-port", str(port), variables=MEMORY) as server:
        interlock("dedup", "check", "pricing", "run-1", "a", "a", "b", "--address", server.address)
        assert _figure(port, CHECKED_NEW) == 2
        assert _figure(port, 'interlock_dedup_checked_keys_total{outcome="seen"}') == 1
        method = "interlock.dedup.v1.DedupCache/CheckStream"
        assert _figure(port, f'interlock_grpc_call_seconds_count{{code="OK",method="{method}"}}') == 1
        with pytest.raises(HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5)
    assert "in use" in _figures_on_a_taken_port()


def _figures_on_a_taken_port() -> str:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        refused = interlock("dedup", "serve", "--port", "0", "--metrics-port", str(taken.getsockname()[1]), **MEMORY)
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: INTERLOCK_GRPC__METRICS_PORT: ")
    return refused.stderr


def test_commands_print_data_and_say_what_is_wrong() -> None:
    with server_process(variables=MEMORY) as server:

        def ask(*arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
            return interlock("dedup", *arguments, "--address", server.address, stdin=stdin)

        first = ask("check", "pricing", "run-1", "--json", "--ttl", "1h", stdin="a\nb\na\n")
        assert json.loads(first.stdout) == {
            "keys": [{"key": "a", "is_new": True}, {"key": "b", "is_new": True}, {"key": "a", "is_new": False}],
            "degraded": False,
        }
        assert json.loads(ask("stats", "pricing", "run-1", "--json").stdout) == {"keys": 2, "degraded": False}
        assert ask("stats", "pricing", "run-1").stdout == "2\n"
        assert json.loads(ask("forget", "pricing", "run-1", "--json").stdout) == {"forgotten": 2}
        assert ask("forget", "pricing", "run-1").stdout == "0\n"
        many = ask("check", "pricing", "run-1", "--json", stdin="".join(f"{number}\n" for number in range(25_000)))
        assert sum(row["is_new"] for row in json.loads(many.stdout)["keys"]) == 25_000
        for wrong, place in (
            (["check", "Pricing", "run-1", "a"], "service_code"),
            (["check", "pricing", "", "a"], "run_id"),
            (["check", "pricing", "run-1", "a", ""], "keys[1]"),
            (["check", "pricing", "run-1"], "keys"),
            (["check", "pricing", "run-1", "a", "--ttl", "31d"], "ttl"),
            (["stats", "pricing", "x" * 129], "run_id"),
            (["forget", ".", "run-1"], "service_code"),
        ):
            refused = ask(*wrong)
            assert (refused.returncode, refused.stdout) == (2, "")
            assert refused.stderr.startswith(f"error: {place}: "), refused.stderr
    gone = interlock("dedup", "check", "pricing", "run-1", "a", "--address", server.address)
    assert (gone.returncode, gone.stdout) == (1, "")
    assert gone.stderr == "error: the dedup service is unavailable: it cannot be reached\n"


class Certificates(NamedTuple):
    """PEM files of a CA, and of a server and a client that it vouches for; and a stranger's."""

    ca: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path
    stranger: Path
    stranger_key: Path


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("tls")
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca = _certificate("ca", ca_key, None, None)
    other_key = ec.generate_private_key(ec.SECP256R1())
    other = _certificate("other ca", other_key, None, None)
    files = [_write(folder / "ca.pem", ca.public_bytes(serialization.Encoding.PEM))]
    for name, issuer, issuer_key in (("server", ca, ca_key), ("client", ca, ca_key), ("stranger", other, other_key)):
        key = ec.generate_private_key(ec.SECP256R1())
        made = _certificate(name, key, issuer, issuer_key)
        files.append(_write(folder / f"{name}.pem", made.public_bytes(serialization.Encoding.PEM)))
        files.append(
            _write(
                folder / f"{name}.key",
                key.private_bytes(
                    serialization.Encoding.PEM,
                    serialization.PrivateFormat.PKCS8,
                    serialization.NoEncryption(),
                ),
            )
        )
    return Certificates(*files)


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    issuer_key: ec.EllipticCurvePrivateKey | None,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.1"))])
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(names, critical=False)
        .sign(issuer_key or key, hashes.SHA256())
    )


def _tls(certificates: Certificates, *, mutual: bool) -> dict[str, str]:
    variables = {
        **MEMORY,
        "INTERLOCK_GRPC__TLS_CERTIFICATE_FILE": str(certificates.server),
        "INTERLOCK_GRPC__TLS_KEY_FILE": str(certificates.server_key),
    }
    return variables | ({"INTERLOCK_GRPC__TLS_CLIENT_CA_FILE": str(certificates.ca)} if mutual else {})


async def test_tls(certificates: Certificates) -> None:
    with server_process(variables=_tls(certificates, mutual=False)) as server:
        async with DedupClient(server.address, tls=Tls(certificates.ca.read_bytes()), deadline=10) as client:
            assert (await client.check(PRICING, ["a"])).is_new == [True]
        for wrong in (None, Tls(certificates.stranger.read_bytes())):
            async with DedupClient(server.address, tls=wrong, deadline=3) as client:
                with pytest.raises(Unavailable):
                    await client.check(PRICING, ["a"])
        asked = interlock(
            "dedup", "check", "pricing", "run-1", "a", "--address", server.address,
            INTERLOCK_DEDUP__TLS_CA_FILE=str(certificates.ca),
        )  # fmt: skip
        assert asked.stdout == "seen\ta\n"


async def test_mtls(certificates: Certificates) -> None:
    """Callers without a certificate of the CA do not get in, and with one they need no token, on any address."""
    ca = certificates.ca.read_bytes()
    variables = _tls(certificates, mutual=True)
    with server_process("--host", "0.0.0.0", variables=variables) as server:  # noqa: S104 - certificates are asked for
        address = f"127.0.0.1:{server.port}"
        mine = Tls(ca, certificates.client.read_bytes(), certificates.client_key.read_bytes())
        async with DedupClient(address, tls=mine, deadline=10) as client:
            assert (await client.check(PRICING, ["a"])).is_new == [True]
        strange = Tls(ca, certificates.stranger.read_bytes(), certificates.stranger_key.read_bytes())
        for wrong in (Tls(ca), strange):
            async with DedupClient(address, tls=wrong, deadline=3) as client:
                with pytest.raises(Unavailable):
                    await client.check(PRICING, ["a"])


def test_half_a_tls_setup_is_refused(certificates: Certificates, tmp_path: Path) -> None:
    variables = _tls(certificates, mutual=True)
    for name, value in (
        ("INTERLOCK_GRPC__TLS_KEY_FILE", ""),
        ("INTERLOCK_GRPC__TLS_CERTIFICATE_FILE", ""),
        ("INTERLOCK_GRPC__TLS_CERTIFICATE_FILE", str(tmp_path / "none.pem")),
    ):
        refused = interlock("dedup", "serve", "--port", "0", **{**variables, name: value})
        assert refused.returncode == 2
        assert refused.stderr.startswith(f"error: {name}: ")


@pytest.mark.parametrize("processes", ["1", "2"])
def test_tls_files_that_hold_something_else_are_named_in_one_line(
    certificates: Certificates, tmp_path: Path, processes: str, shared: dict[str, str]
) -> None:
    junk = tmp_path / "junk.pem"
    junk.write_text("junk", encoding="ascii")
    key = serialization.load_pem_private_key(certificates.server_key.read_bytes(), None)
    locked = _write(
        tmp_path / "locked.key",
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        ),
    )
    variables = _tls(certificates, mutual=True) | shared
    for name, value in (
        ("INTERLOCK_GRPC__TLS_CERTIFICATE_FILE", junk),
        ("INTERLOCK_GRPC__TLS_KEY_FILE", junk),
        ("INTERLOCK_GRPC__TLS_KEY_FILE", certificates.client_key),
        ("INTERLOCK_GRPC__TLS_KEY_FILE", locked),
        ("INTERLOCK_GRPC__TLS_CLIENT_CA_FILE", junk),
    ):
        changed = {**variables, name: str(value)}
        refused = interlock("dedup", "serve", "--port", "0", "--processes", processes, **changed)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
        assert refused.stderr.startswith(f"error: {name}: {value} ")


def test_bad_settings_of_commands_are_named_in_one_line(certificates: Certificates, tmp_path: Path) -> None:
    junk = str(_write(tmp_path / "junk.pem", b"junk"))
    tls = {
        "INTERLOCK_DEDUP__TLS_CA_FILE": str(certificates.ca),
        "INTERLOCK_DEDUP__TLS_CERTIFICATE_FILE": str(certificates.client),
        "INTERLOCK_DEDUP__TLS_KEY_FILE": str(certificates.client_key),
    }
    for name, value in (
        ("INTERLOCK_DEDUP__TLS_CA_FILE", junk),
        ("INTERLOCK_DEDUP__TLS_CA_FILE", ""),
        ("INTERLOCK_DEDUP__TLS_CERTIFICATE_FILE", junk),
        ("INTERLOCK_DEDUP__TLS_CERTIFICATE_FILE", ""),
        ("INTERLOCK_DEDUP__TLS_KEY_FILE", str(certificates.server_key)),
        ("INTERLOCK_DEDUP__TOKEN", "ilk_a\nb"),
        ("INTERLOCK_DEDUP__TOKEN", "ilk_é"),
        ("INTERLOCK_DEDUP__ADDRESS", "127.0.0.1:99999"),
    ):
        refused = interlock("dedup", "stats", "pricing", "run-1", **{**tls, name: value})
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1), refused.stderr
        assert refused.stderr.startswith(f"error: {name}: ")
        assert "ilk_" not in refused.stderr
    for address in ("", "junk", ":50051", "127.0.0.1:0", "127.0.0.1:99999", "::1:50051", "a b:1"):
        refused = interlock("dedup", "check", "pricing", "run-1", "a", "--address", address)
        assert (refused.returncode, refused.stderr) == (2, "error: --address: must be host:port, or [IPv6]:port\n")


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("content", [None, "junk"])
def test_it_does_not_start_without_the_tokens_that_it_is_to_judge_by(
    content: str | None, processes: str, tmp_path: Path, shared: dict[str, str]
) -> None:
    file = tmp_path / "tokens.json"
    if content is not None:
        file.write_text(content, encoding="ascii")
    variables = {**shared, "INTERLOCK_AUTH__TOKENS_FILE": str(file)}
    refused = interlock("dedup", "serve", "--port", "0", "--processes", processes, **variables)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
    assert refused.stderr.startswith(f"error: INTERLOCK_AUTH__TOKENS_FILE: {file}: ")


def test_lines_of_standard_input() -> None:
    """Empty ones are no keys; one that is not UTF-8, or too long, is named, and nothing is claimed."""
    with server_process(variables=MEMORY) as server:
        command = [sys.executable, "-m", "entrypoints.cli.main", "dedup", "check", "pricing", "run-1"]

        def ask(stdin: bytes) -> "subprocess.CompletedProcess[bytes]":
            return subprocess.run(
                [*command, "--address", server.address], input=stdin, capture_output=True, check=False, cwd=ROOT
            )

        for stdin, place in ((b"a\n\xff\xfe\n", "line 2"), (b"a\n\n" + b"k" * 65_537, "line 3"), (b"\n\n", "keys")):
            refused = ask(stdin)
            assert (refused.returncode, refused.stdout, refused.stderr.count(b"\n")) == (2, b"", 1), refused.stderr
            assert refused.stderr.startswith(f"error: {place}".encode())
        assert ask("\na\r\n\r\né".encode()).stdout == "new\ta\nnew\té\n".encode()


def test_an_idle_server_stops_at_once() -> None:
    with server_process(variables=MEMORY) as server:
        started = time.monotonic()
        assert server.stop()[0] == 0
        assert time.monotonic() - started < 3
