"""Engines that speak AWS's protocols on this machine: started once a test run, on free loopback ports.

`AWS_ENDPOINT_URL`, or one for a service such as `AWS_ENDPOINT_URL_DYNAMODB`, points the tests at another engine,
or at AWS itself: then nothing is started, and the SDK's own variables say where and who.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from adapters.aws.clients import Aws
from adapters.dynamodb.activity_table import create_activity_table
from adapters.dynamodb.key_table import create_key_table
from adapters.dynamodb.settings_table import create_settings_table
from adapters.dynamodb.table import create_table
from adapters.eventbridge.resources import create_event_queue
from adapters.s3.resources import create_bucket
from adapters.sns.resources import TopicAndQueue, create_topic_and_queue
from adapters.sqs.resources import QueuePair, create_queues

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

REGION = "us-east-1"
START_SECONDS = 30.0


def is_elsewhere() -> bool:
    """Say whether the environment points the tests at an engine that they do not start."""
    return any(name.startswith("AWS_ENDPOINT_URL") for name in os.environ)


@dataclass
class Engine:
    """An engine, and clients to it. `url` is None where the SDK's variables point elsewhere."""

    name: str
    url: str | None
    aws: Aws = field(init=False)

    def __post_init__(self) -> None:
        self.aws = Aws(endpoint_url=self.url, region=REGION if self.url else None, read_timeout=30)


@contextmanager
def ministack() -> Iterator[Engine]:
    """Run ministack: all services, sound transactions."""
    if is_elsewhere():
        engine = Engine("elsewhere", None)
        try:
            yield engine
        finally:
            engine.aws.close()
        return
    port = _free_port()
    settings = {"GATEWAY_PORT": str(port), "BIND_HOST": "127.0.0.1", "IOT_MTLS_ENABLED": "0", "LOG_LEVEL": "ERROR"}
    with _running("ministack", [sys.executable, "-m", "ministack"], port, settings) as engine:
        yield engine


@contextmanager
def moto() -> Iterator[Engine]:
    """Run moto's server: for one caller at a time, as its transactions are not isolated."""
    port = _free_port()
    with _running(
        "moto", [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], port, {}
    ) as engine:
        yield engine


@contextmanager
def _running(name: str, command: list[str], port: int, settings: Mapping[str, str]) -> Iterator[Engine]:
    folder = Path(tempfile.mkdtemp(prefix=f"interlock-{name}-"))
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "test")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "test")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **settings, "TMPDIR": str(folder)}, stdout=log, stderr=log
        )
    engine = Engine(name, f"http://127.0.0.1:{port}")
    try:
        _wait_for_a_call(engine, process, folder / "log")
        yield engine
    finally:
        engine.aws.close()
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for_a_call(engine: Engine, process: "subprocess.Popen[bytes]", log: Path) -> None:
    config = Config(connect_timeout=1, read_timeout=5, retries={"total_max_attempts": 1})
    client = boto3.client("dynamodb", endpoint_url=engine.url, region_name=REGION, config=config)
    deadline = time.monotonic() + START_SECONDS
    try:
        while True:
            try:
                client.list_tables(Limit=1)
            except (BotoCoreError, ClientError) as error:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{engine.name} did not start: {log.read_text()[-2000:]}") from error
                time.sleep(0.05)
            else:
                return
    finally:
        client.close()


@contextmanager
def _table(engine: Engine, create: "Callable[[DynamoDBClient, str], None]") -> Iterator[str]:
    name = f"interlock-test-{uuid.uuid4().hex[:12]}"
    client = engine.aws.dynamodb.client()
    create(client, name)
    yield name
    client.delete_table(TableName=name)


def event_table(engine: Engine) -> AbstractContextManager[str]:
    """Give a table of its own to a test."""
    return _table(engine, create_table)


def key_table(engine: Engine) -> AbstractContextManager[str]:
    """Give a table for keys of its own to a test."""
    return _table(engine, create_key_table)


def settings_table(engine: Engine) -> AbstractContextManager[str]:
    """Give a table of settings of its own to a test."""
    return _table(engine, create_settings_table)


def activity_table(engine: Engine) -> AbstractContextManager[str]:
    """Give a table for activity of its own to a test."""
    return _table(engine, create_activity_table)


@contextmanager
def bucket(engine: Engine) -> Iterator[str]:
    """Give a bucket of its own to a test."""
    name = f"interlock-test-{uuid.uuid4().hex[:12]}"
    s3 = engine.aws.s3.client()
    create_bucket(s3, name)
    yield name
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=name):
        for found in page.get("Contents", []):
            s3.delete_object(Bucket=name, Key=found.get("Key", ""))
    s3.delete_bucket(Bucket=name)


@contextmanager
def topic_and_queue(engine: Engine, *, visibility_seconds: int, max_receives: int) -> Iterator[TopicAndQueue]:
    """Give a topic, a queue and a dead-letter queue of its own to a test."""
    name = f"interlock-test-{uuid.uuid4().hex[:12]}"
    sns, sqs = engine.aws.sns.client(), engine.aws.sqs.client()
    made = create_topic_and_queue(sns, sqs, name, visibility_seconds=visibility_seconds, max_receives=max_receives)
    yield made
    sns.delete_topic(TopicArn=made.topic_arn)
    sqs.delete_queue(QueueUrl=made.queue_url)
    sqs.delete_queue(QueueUrl=made.dead_letter_url)


@dataclass(frozen=True)
class BusAndQueue:
    """A bus, and what its rule feeds."""

    bus: str
    queue_url: str
    dead_letter_url: str


@contextmanager
def event_queue(engine: Engine, *, visibility_seconds: int = 60, max_receives: int = 5) -> Iterator[BusAndQueue]:
    """Give a bus of its own, a rule, a queue and a dead-letter queue to a test."""
    name = f"interlock-test-{uuid.uuid4().hex[:12]}"
    events, sqs = engine.aws.events.client(), engine.aws.sqs.client()
    events.create_event_bus(Name=name)
    how = {"visibility_seconds": visibility_seconds, "max_receives": max_receives}
    made = create_event_queue(events, sqs, name, name, **how)
    yield BusAndQueue(name, made.queue_url, made.dead_letter_url)
    events.remove_targets(Rule=name, EventBusName=name, Ids=["queue"])
    events.delete_rule(Name=name, EventBusName=name)
    events.delete_event_bus(Name=name)


@contextmanager
def standard_queue(engine: Engine, *, visibility_seconds: int, max_receives: int) -> Iterator[QueuePair]:
    """Give a standard queue and a dead-letter queue of its own to a test."""
    name = f"interlock-test-{uuid.uuid4().hex[:12]}"
    sqs = engine.aws.sqs.client()
    made = create_queues(sqs, name, visibility_seconds=visibility_seconds, max_receives=max_receives)
    yield made
    sqs.delete_queue(QueueUrl=made.queue_url)
    sqs.delete_queue(QueueUrl=made.dead_letter_url)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
