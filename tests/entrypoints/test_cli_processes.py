"""`interlock dev` and `interlock api serve` as people start them: over HTTP, with signals, killed and started again."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from domain.access import LOCAL
from entrypoints.local_bus import LOCAL_ACCOUNT
from tests.examples import an_envelope
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
BATCH = {"Content-Type": "application/cloudevents-batch+json"}


class Process:
    """One of our processes, and a client to it."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self.process = process
        self.log = log
        wait_until(lambda: "listens on http" in log.read_text() or process.poll() is not None)
        address = re.search(r"listens on (http://\S+)", log.read_text())
        assert address, log.read_text()
        self.client = httpx.Client(base_url=address[1], timeout=10)

    def end(self, number: signal.Signals) -> int:
        """Send a signal, and give the exit code."""
        self.client.close()
        self.process.send_signal(number)
        return self.process.wait(15)


@contextmanager
def running(folder: Path, *arguments: str, **variables: str) -> Iterator[Process]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    environment |= {"INTERLOCK_DATA_DIR": str(folder / "data"), "INTERLOCK_HTTP__PORT": "0", **variables}
    log = folder / "log"
    with log.open("w") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "entrypoints.cli.main", *arguments],
            cwd=ROOT,
            env=environment,
            stdout=stream,
            stderr=stream,
            text=True,
        )
    try:
        started = Process(process, log)
        yield started
        started.client.close()
    finally:
        process.kill()
        process.wait()


def state_of(client: httpx.Client, event_id: str) -> str | None:
    state: str | None = client.get(f"/v1/events/{event_id}").json()["state"]
    return state


def test_dev_takes_an_event_through_its_life(tmp_path: Path) -> None:
    with running(tmp_path, "dev", "--no-router") as dev:
        answer = dev.client.post("/v1/events", json=[an_envelope("e1").attributes()], headers=BATCH)
        assert (answer.status_code, answer.json()["accepted"]) == (202, ["e1"])
        wait_until(lambda: state_of(dev.client, "e1") == "to_review")
        move = dev.client.post("/v1/events/e1/transitions", json={"to": "open"})
        assert (move.status_code, move.json()["actor"]) == (201, LOCAL.name)
        history = dev.client.get("/v1/events/e1/history").json()["items"]
        assert [(item["from"], item["to"]) for item in history] == [(None, "to_review"), ("to_review", "open")]
        assert dev.client.get("/readyz").json() == {"status": "ok", "dependencies": {"store": "ok", "activity": "ok"}}
        [item] = dev.client.get(f"/v1/activity?account={LOCAL_ACCOUNT}").json()["items"]
        assert (item["id"], item["data"]) == ("e1", {"minutes": 42})
        assert 'interlock_consumed_messages_total{outcome="done"} 1.0' in dev.client.get("/metrics").text
        for garbage in (b"{", b"\xff\xfe", b"[" * 100_000, b"null"):
            assert 400 <= dev.client.post("/v1/events", content=garbage, headers=BATCH).status_code < 500
        assert dev.client.get("/healthz").status_code == 200
        assert dev.end(signal.SIGTERM) == 0
        lines = [json.loads(line) for line in dev.log.read_text().splitlines() if line.startswith("{")]
    assert [line["done"] for line in lines if line["event"] == "batch"] == [1]


@pytest.mark.slow
def test_dev_killed_mid_way_and_started_again_has_every_accepted_event_once(tmp_path: Path) -> None:
    accepted: set[str] = set()
    sent = 0
    for _ in range(3):
        with running(tmp_path, "dev", "--no-router", INTERLOCK_LIFECYCLE__VISIBILITY_SECONDS="2") as dev:
            for _ in range(5):
                batch = [an_envelope(f"e{n}", entity=f"N{n % 7}").attributes() for n in range(sent, sent + 40)]
                accepted.update(dev.client.post("/v1/events", json=batch, headers=BATCH).json()["accepted"])
                sent += 40
            dev.end(signal.SIGKILL)

    def every(client: httpx.Client, path: str, **query: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        page: dict[str, Any] = {"next_cursor": ""}
        while (cursor := page["next_cursor"]) is not None:
            page = client.get(path, params=query | {"limit": "500"} | ({"cursor": cursor} if cursor else {})).json()
            items += page["items"]
        return items

    def listed(client: httpx.Client) -> list[str]:
        return [item["event_id"] for item in every(client, "/v1/events", state="to_review")]

    with running(tmp_path, "dev", "--no-router", INTERLOCK_LIFECYCLE__VISIBILITY_SECONDS="2") as dev:
        wait_until(lambda: len(listed(dev.client)) >= len(accepted))
        assert sorted(listed(dev.client)) == sorted(accepted)
        activity = every(dev.client, "/v1/activity", account=LOCAL_ACCOUNT)
        assert sorted(item["id"] for item in activity) == sorted(accepted)
        assert {len(dev.client.get(f"/v1/events/e{n}/history").json()["items"]) for n in range(0, sent, 13)} == {1}
        assert dev.end(signal.SIGINT) == 0
    assert len(accepted) == sent == 600


def test_api_serve_asks_for_tokens_and_notices_a_new_one(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    tokens.write_text("[]")
    with running(tmp_path, "api", "serve", INTERLOCK_AUTH__TOKENS_FILE=str(tokens)) as api:
        assert api.client.get("/v1/events/e1").status_code == 401
        create = ["token", "create", "--name", "ada", "--scope", "view", "--tokens-file", str(tokens)]
        made = subprocess.run(
            [sys.executable, "-m", "entrypoints.cli.main", *create],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        headers = {"Authorization": f"Bearer {made.stdout.strip()}"}
        assert api.client.get("/v1/events/e1", headers=headers).status_code == 404
        assert api.client.post("/v1/events/e1/transitions", headers=headers, json={"to": "open"}).status_code == 403
        assert api.end(signal.SIGINT) == 0
        assert made.stdout.strip() not in api.log.read_text()


def test_api_serve_answers_on_ipv6(tmp_path: Path) -> None:
    with running(tmp_path, "api", "serve", "--insecure", "--host", "::1") as api:
        assert api.client.base_url.host == "::1"
        assert api.client.get("/readyz").status_code == 200


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = subprocess.run(
            [sys.executable, "-m", "entrypoints.cli.main", "dev", "--port", str(port)],
            cwd=ROOT,
            env={**os.environ, "INTERLOCK_DATA_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    assert run.returncode == 1
    assert run.stderr == (
        f"error: INTERLOCK_HTTP__PORT: 127.0.0.1:{port} cannot be listened on (Address already in use); "
        "pass another --host or --port\n"
    )
