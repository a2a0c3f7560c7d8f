"""Slow clients and odd bytes, against the real server: they get an end, and the others their answers (R-108)."""

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PATIENCE = """
import sys
from entrypoints.http import patience, reading
patience.HEADER_SECONDS = 0.6
reading.BODY_SECONDS = 0.6
sys.argv = ["interlock", "api", "serve", "--insecure", "--port", sys.argv[1]]
from entrypoints.cli.main import main
main()
"""
HEAD = b"POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"


@contextlib.contextmanager
def server(folder: Path, *, files: int | None = None) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run the API, impatient, on a free port; with so few files to open."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def limit() -> None:
        if files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    environment = os.environ | {"INTERLOCK_DATA_DIR": str(folder / "data")}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", PATIENCE, str(port)],
            env=environment,
            stdout=log,
            stderr=log,
            preexec_fn=limit,  # noqa: PLW1509 - no threads here
        )
    try:
        deadline = time.monotonic() + 30
        while not ask(port, b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").startswith(
            b"HTTP/1.1 200"
        ):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.05)
        yield process, port
    finally:
        process.kill()
        process.wait()


def ask(port: int, request: bytes, seconds: float = 20) -> bytes:
    """Send bytes, and read until the server closes."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
            connection.sendall(request)
            answer = b""
            while more := connection.recv(65_536):
                answer += more
            return answer
    except ConnectionError:
        return b""


def test_r108_who_says_nothing_or_half_a_header_is_disconnected(tmp_path: Path) -> None:
    with server(tmp_path) as (_, port):
        assert ask(port, b"") == b""
        assert ask(port, b"GET /healthz HTT") == b""
        pipelined = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HT"
        assert ask(port, pipelined).count(b"HTTP/1.1 ") == 1


def test_r108_a_body_that_does_not_come_is_answered_408(tmp_path: Path) -> None:
    with server(tmp_path) as (_, port):
        answer = ask(port, HEAD)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408")
    assert b"application/problem+json" in head
    assert json.loads(body)["status"] == 408


@pytest.mark.parametrize(
    "request_bytes", [b"\x00\x01\r\n\r\n", b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"]
)
def test_what_is_no_http_is_answered_as_a_problem(tmp_path: Path, request_bytes: bytes) -> None:
    with server(tmp_path) as (_, port):
        head, _, body = ask(port, request_bytes).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert b"application/problem+json" in head
    assert json.loads(body)["status"] == 400


def test_r108_more_slow_clients_than_files_neither_stop_the_others_nor_flood_the_log(tmp_path: Path) -> None:
    with server(tmp_path, files=128) as (process, port), contextlib.ExitStack() as stack:
        for _ in range(250):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            slow.sendall(HEAD)
        deadline = time.monotonic() + 20
        while not ask(port, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").startswith(
            b"HTTP/1.1 200"
        ):
            assert time.monotonic() < deadline
        assert process.poll() is None
    log = (tmp_path / "log").read_text()
    assert len(log) < 100_000
    assert "Traceback" not in log


def test_stopping_with_a_request_in_hand_is_quick_and_no_fault(tmp_path: Path) -> None:
    with server(tmp_path) as (process, port), socket.create_connection(("127.0.0.1", port), timeout=20) as slow:
        slow.sendall(HEAD)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert "Traceback" not in (tmp_path / "log").read_text()
