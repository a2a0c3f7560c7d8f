"""What the front door answered is on the disk, whenever its process is killed (R-501)."""

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.entrypoints.test_cli_processes import running
from tests.waiting import wait_until

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("answers", [1, 100])
def test_r501_a_message_that_was_answered_survives_the_death_of_the_process(tmp_path: Path, answers: int) -> None:
    answered: dict[str, str] = {}
    stopped = threading.Event()

    def post(sender: int) -> None:
        with httpx.Client(timeout=10) as client:
            for number in range(100_000):
                body = f'{{"id":"{sender}-{number}","note":"a & b + c"}}'
                try:
                    answer = client.post(f"{url}/v1/intake", content=body, headers=JSON)
                except httpx.TransportError:
                    return
                if answer.status_code == 202:
                    answered[answer.json()["message_ids"][0]] = body
                if stopped.is_set():
                    return

    with running(tmp_path, "api", "serve", "--insecure") as api, ThreadPoolExecutor(4) as senders:
        url = str(api.client.base_url)
        sending = [senders.submit(post, sender) for sender in range(4)]
        wait_until(lambda: len(answered) >= answers)
        api.process.kill()
        api.process.wait()
        stopped.set()
        for one in sending:
            one.result()
    with closing(sqlite3.connect(tmp_path / "data" / "queues.db")) as database:
        kept = dict(database.execute("SELECT group_id, body FROM messages WHERE queue = 'intake'").fetchall())
    assert answered.items() <= kept.items()
    assert len(answered) >= answers
