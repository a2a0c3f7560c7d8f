"""The functions and the worker on AWS's protocols: clients, dropped connections, containers (FC-22)."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from domain.eventbridge import from_eventbridge
from domain.messages import Received
from entrypoints.aws_lambda import ingestion, transitions
from entrypoints.aws_lambda.runtime import Runtime
from tests.engines import REGION, Engine
from tests.entrypoints.lambda_events import Context, a_record, an_sqs_event, failed_ids, from_queue
from tests.examples import an_envelope

ROOT = Path(__file__).parents[2]

CONTAINER = """
import json, sys
from entrypoints.aws_lambda import transitions
from tests.entrypoints.lambda_events import Context
for line in sys.stdin:
    answer = transitions.handler(json.loads(line), Context())
    print("ANSWER", json.dumps(answer), flush=True)
"""


class Proxy:
    """A TCP proxy whose connections can be dropped, as a server or a network does."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.accepted = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def drop(self) -> None:
        """Cut every connection."""
        for connection in self._open:
            connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._open.clear()

    def close(self) -> None:
        self._listener.close()
        self.drop()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            self.accepted += 1
            self._open += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            return


def interlock(*arguments: str, variables: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    return subprocess.run(
        [sys.executable, "-m", "entrypoints.cli.main", *arguments],
        cwd=ROOT,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def variables(ministack: Engine) -> dict[str, str]:
    """Table, topic and queues, made by `interlock tables create`; and the variables that name them."""
    given: dict[str, str] = {
        "INTERLOCK_ENGINE": "aws",
        "INTERLOCK_EVENTS__TABLE": f"events-{uuid4().hex}",
        "INTERLOCK_SETTINGS__TABLE": f"settings-{uuid4().hex}",
    }
    if ministack.url:
        given |= {"AWS_ENDPOINT_URL": ministack.url, "AWS_REGION": REGION}
    create = ("tables", "create", "--json", "--event-queue", "--name", f"lifecycle-{uuid4().hex}")
    first = interlock(*create, variables=given)
    assert first.returncode == 0, first.stderr
    again = interlock(*create, variables=given)
    assert (again.returncode, again.stdout) == (0, first.stdout)
    made: dict[str, str] = json.loads(first.stdout)
    return given | made


@pytest.fixture
def proxy(ministack: Engine) -> Iterator[Proxy]:
    port = urlsplit(ministack.url or "").port
    if port is None:
        pytest.skip("connections are dropped by a proxy, which needs an engine of our own")
    proxy = Proxy(port)
    yield proxy
    proxy.close()


def receive(ministack: Engine, variables: Mapping[str, str], number: int) -> list[Received]:
    """Take messages off the lifecycle queue, and delete them as AWS's event source does after a good answer."""
    sqs = ministack.aws.sqs.client()
    url = variables["INTERLOCK_LIFECYCLE__QUEUE_URL"]
    taken: list[Received] = []
    for _ in range(10):
        answer = sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            WaitTimeSeconds=1,
            MessageSystemAttributeNames=["MessageGroupId", "ApproximateReceiveCount"],
        )
        for message in answer.get("Messages", []):
            attributes, receipt = message.get("Attributes", {}), message.get("ReceiptHandle", "")
            group, body = attributes.get("MessageGroupId"), message.get("Body", "")
            taken.append(Received(message.get("MessageId", ""), group, body, receipt, 1))
            sqs.delete_message(QueueUrl=url, ReceiptHandle=receipt)
        if len(taken) >= number:
            break
    assert len(taken) == number
    return taken


def use(monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str], url: str | None = None) -> Runtime:
    """Start a container with both functions."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if url is not None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    runtime = Runtime(publishing=True, variables=variables)
    monkeypatch.setattr(transitions, "RUNTIME", runtime)
    monkeypatch.setattr(ingestion, "RUNTIME", runtime)
    return runtime


def test_what_tables_create_made_passes_the_doctor(variables: Mapping[str, str]) -> None:
    run = interlock("doctor", "--json", variables=variables)
    assert run.returncode == 0, run.stdout
    assert {check["name"]: check["status"] for check in json.loads(run.stdout)} == {
        "lifecycle": "ok",
        "tokens file": "warning",
        "table": "ok",
        "settings table": "ok",
        "activity": "ok",
        "topic": "ok",
        "queue": "ok",
        "dedup": "ok",
    }


def test_the_doctor_names_what_is_missing_and_what_disagrees(variables: Mapping[str, str]) -> None:
    run = interlock(
        "doctor",
        "--json",
        variables={
            **variables,
            "INTERLOCK_EVENTS__TABLE": "no-such-table",
            "INTERLOCK_LIFECYCLE__TOPIC_ARN": variables["INTERLOCK_LIFECYCLE__TOPIC_ARN"].replace(".fifo", "x.fifo"),
            "INTERLOCK_LIFECYCLE__MAX_RECEIVES": "7",
        },
    )
    assert run.returncode == 1
    failed = {check["name"]: check for check in json.loads(run.stdout) if check["status"] == "failed"}
    assert set(failed) == {"table", "topic", "queue"}
    assert all("interlock tables create" in check["fix"] for check in failed.values())
    assert failed["queue"]["detail"] == (
        "INTERLOCK_LIFECYCLE__MAX_RECEIVES: is 7, but the queue has 5: make them agree"
    )


def test_fc22_three_calls_in_one_container_then_a_dropped_connection(
    ministack: Engine, variables: Mapping[str, str], proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = use(monkeypatch, variables, proxy.url)
    clients: set[int] = set()
    accepted = 0
    for call in range(4):
        if call == 3:
            accepted = proxy.accepted
            proxy.drop()
        body = an_envelope(f"fc22-{call}", entity=f"fc22-{call}").to_json()
        assert failed_ids(ingestion.handler(an_sqs_event(a_record(f"i{call}", body, group=None)), Context())) == []
        event = from_queue(receive(ministack, variables, 1))
        assert failed_ids(transitions.handler(event, Context())) == []
        clients.add(id(runtime.engine.aws.dynamodb.client()))  # type: ignore[attr-defined]
        stream = runtime.run(lambda platform, call=call: platform.store.stream(f"fc22-{call}"))  # type: ignore[misc]
        assert [fact.to_state for fact in stream.history] == ["to_review"]
    assert len(clients) == 1
    assert proxy.accepted > accepted > 0
    runtime.close()


def test_fc22_two_containers_work_on_one_table(
    ministack: Engine, variables: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = use(monkeypatch, variables)
    bodies = [an_envelope(f"two-{n}", entity=f"two-{n}").to_json() for n in range(4)]
    event = an_sqs_event(*(a_record(f"m{n}", body, group=None) for n, body in enumerate(bodies)))
    assert failed_ids(ingestion.handler(event, Context())) == []
    event = from_queue(receive(ministack, variables, 4))
    containers = [
        subprocess.Popen(
            [sys.executable, "-c", CONTAINER],
            cwd=ROOT,
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    told: list[list[str]] = []
    for container in containers:
        assert container.stdin is not None
        container.stdin.write((json.dumps(event) + "\n") * 3)
        container.stdin.close()
    for container in containers:
        assert container.stdout is not None
        told.append(container.stdout.read().splitlines())
        container.stdout.close()
        assert container.wait(30) == 0
    answers = [line for lines in told for line in lines if line.startswith("ANSWER")]
    assert answers == ['ANSWER {"batchItemFailures": []}'] * 6
    batches: list[dict[str, Any]] = [json.loads(line) for lines in told for line in lines if '"event": "batch"' in line]
    assert sum(batch.get("done", 0) for batch in batches) == 4
    assert sum(batch.get("duplicate", 0) for batch in batches) == 20
    for n in range(4):
        stream = runtime.run(lambda platform, n=n: platform.store.stream(f"two-{n}"))  # type: ignore[misc]
        assert len(stream.history) == 1
    runtime.close()


@pytest.mark.slow
def test_r107_the_worker_drains_the_queue_that_the_feed_fills(
    variables: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`interlock worker transitions` on SQS, stopped by SIGTERM; then `interlock events` reads what it did."""
    runtime = use(monkeypatch, variables)
    bodies = [an_envelope(f"w-{n}", entity=f"w-{n % 5}").to_json() for n in range(30)]
    event = an_sqs_event(*(a_record(f"m{n}", body, group=None) for n, body in enumerate(bodies)))
    assert failed_ids(ingestion.handler(event, Context())) == []
    runtime.close()
    worker = subprocess.Popen(
        [sys.executable, "-m", "entrypoints.cli.main", "worker", "transitions"],
        cwd=ROOT,
        env={**os.environ, **variables},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert worker.stderr is not None
    done = 0
    for line in worker.stderr:
        if line.startswith("{") and json.loads(line)["event"] == "batch":
            done += json.loads(line)["done"]
        if done == 30:
            break
    worker.terminate()
    rest = worker.stderr.read()
    worker.stderr.close()
    assert worker.wait(20) == 0, rest
    assert rest.endswith("stopped; nothing is in hand\n")
    listed = interlock("events", "list", "--entity", "w-3", "--json", variables=variables)
    assert [item["event_id"] for item in json.loads(listed.stdout)["items"]] == [
        f"w-{n}" for n in (13, 18, 23, 28, 3, 8)
    ]


def test_r302_events_that_are_published_reach_the_queue_of_the_worker(
    ministack: Engine, variables: Mapping[str, str], tmp_path: Path
) -> None:
    """`tables create --event-queue`, `events publish`, EventBridge, its rule, SQS."""
    file = tmp_path / "events.jsonl"
    file.write_text("".join(an_envelope(f"bus-{number}").to_json() + "\n" for number in range(3)), encoding="utf-8")
    run = interlock("events", "publish", str(file), "--json", variables=variables)
    assert (run.returncode, json.loads(run.stdout)) == (0, {"published": 3, "refused": []})
    sqs = ministack.aws.sqs.client()
    found: list[str] = []
    while batch := sqs.receive_message(
        QueueUrl=variables["INTERLOCK_BUS__QUEUE_URL"], MaxNumberOfMessages=10, WaitTimeSeconds=0 if found[2:] else 5
    ).get("Messages"):
        found += [from_eventbridge(json.loads(message.get("Body", ""))).id for message in batch]
    assert sorted(found) == ["bus-0", "bus-1", "bus-2"]
