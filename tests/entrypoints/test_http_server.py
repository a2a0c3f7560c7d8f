"""The API behind a real server on loopback: what the bytes on the wire do to it."""

import asyncio
import http.client
import select
import socket
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import quote, urlsplit

import pytest

from tests.entrypoints.http_api import Api, a_server, an_api

IDS = [
    "e1",
    "a/b",
    "a%2Fb",
    "a/history",
    "/",
    "//",
    ".",
    "..",
    "../x",
    "日本 😀",
    "?x#y",
    "a+b",
    "a b",
    "%",
    "'\"",
    "é" * 128,
]


async def an_api_with_events() -> Api:
    async with an_api(max_body_bytes=300_000) as api:
        await api.ingest(*IDS)
        return api


@pytest.fixture(scope="module")
def api() -> Api:
    return asyncio.run(an_api_with_events())


@pytest.fixture(scope="module")
def netloc(api: Api) -> Iterator[str]:
    with a_server(api.app) as url:
        yield urlsplit(url).netloc


def call(netloc: str, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    """Send exactly this path; clients of more comfort normalise it."""
    with closing(http.client.HTTPConnection(netloc, timeout=10)) as connection:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.read()


@pytest.mark.parametrize("event_id", IDS)
def test_ids_may_hold_any_character(api: Api, netloc: str, event_id: str) -> None:
    token = api.client.headers["Authorization"]
    path = "/v1/events/" + quote(event_id, safe="").replace(".", "%2E")
    status, body = call(netloc, "GET", path, Authorization=token)
    assert status == 200
    assert f'"event_id":"{event_id}"'.encode() in body or event_id == "'\""
    status, body = call(netloc, "GET", path + "/history", Authorization=token)
    assert (status, body.count(b'"sequence"')) == (200, 1)
    headers = {"Authorization": token, "Content-Type": "application/json"}
    status, _ = call(netloc, "POST", path + "/transitions", b'{"to": "open"}', **headers)
    assert status == 201


def test_dots_need_no_encoding(api: Api, netloc: str) -> None:
    for event_id in (".", ".."):
        status, body = call(netloc, "GET", f"/v1/events/{event_id}", Authorization=api.client.headers["Authorization"])
        assert (status, body.count(f'"event_id":"{event_id}"'.encode())) == (200, 1)


def test_a_body_without_end_is_refused_while_it_is_sent(api: Api, netloc: str) -> None:
    """Chunked, with no length announced: the answer comes soon after the limit, not after the end."""
    host, _, port = netloc.rpartition(":")
    with closing(socket.create_connection((host, int(port)), timeout=10)) as connection:
        head = (
            "POST /v1/events HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n"
            f"Authorization: {api.client.headers['Authorization']}\r\n\r\n"
        )
        connection.sendall(head.encode())
        sent = 0
        while not select.select([connection], [], [], 0)[0]:
            connection.sendall(b"1000\r\n" + b" " * 4096 + b"\r\n")
            sent += 4096
            assert sent < 64 * 1024 * 1024
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")
    assert sent >= 300_000


def test_a_body_that_stops_half_way_harms_nobody(api: Api, netloc: str) -> None:
    host, _, port = netloc.rpartition(":")
    with closing(socket.create_connection((host, int(port)), timeout=10)) as connection:
        head = (
            "POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nContent-Type: application/json\r\n"
            f"Authorization: {api.client.headers['Authorization']}\r\n\r\n{{"
        )
        connection.sendall(head.encode())
    assert call(netloc, "GET", "/healthz")[0] == 200
