"""R-603: one composition root plugs adapters into entrypoints, and each process loads no more than its engine needs."""

import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from dependency_injector import providers

from adapters.memory.metrics import MemoryMetrics
from adapters.system.clock import SystemClock
from application.platform import Platform
from domain.errors import Misconfigured
from domain.messages import Outgoing
from entrypoints.container import Container
from entrypoints.settings import Settings, read_variables
from entrypoints.wiring import make_app, make_platform, open_access, open_activity, open_engine, open_intake

ROOT = Path(__file__).parents[2]
ENGINES = ("memory", "sqlite", "aws")
PROVIDERS = sorted(name for name, provider in vars(Container).items() if isinstance(provider, providers.Provider))


def settings_of(engine: str, folder: Path) -> Settings:
    return read_variables(
        {
            "INTERLOCK_ENGINE": engine,
            "INTERLOCK_DATA_DIR": str(folder / "data"),
            "INTERLOCK_AUTH__TOKENS_FILE": str(folder / "tokens.json"),
            "INTERLOCK_LIFECYCLE__TOPIC_ARN": "arn:aws:sns:us-east-1:000000000000:lifecycle.fifo",
            "INTERLOCK_LIFECYCLE__QUEUE_URL": "http://127.0.0.1:9/000000000000/lifecycle.fifo",
            "INTERLOCK_INTAKE__BUCKET": "interlock-intake",
            "INTERLOCK_INTAKE__QUEUE_URL": "http://127.0.0.1:9/000000000000/interlock-intake",
        }
    )


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("resolving a provider opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_REGION", "us-east-1")


@pytest.mark.anyio
@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("engine", ENGINES)
async def test_r603_every_provider_resolves_on_every_engine(engine: str, tmp_path: Path) -> None:
    container = Container(settings=settings_of(engine, tmp_path))
    assert {"app", "platform", "queue", "consumption", "access"} <= set(PROVIDERS)
    try:
        for name in PROVIDERS:
            resolved = getattr(container, name)()
            assert resolved is not None, name
            if isinstance(vars(Container)[name], providers.Singleton):
                assert getattr(container, name)() is resolved, f"{name} is made twice"
        assert container.platform().metrics is container.consumer_platform().metrics
    finally:
        await container.engine().aclose()
        await container.intake_engine().aclose()


def test_without_a_tokens_file_there_is_no_judge_of_tokens() -> None:
    assert open_access(Settings()) is None


@pytest.mark.parametrize(("port", "name"), [("publisher", "TOPIC_ARN"), ("queue", "QUEUE_URL")])
def test_a_missing_address_on_aws_is_named_with_the_command_that_makes_it(port: str, name: str) -> None:
    engine = open_engine(Settings(engine="aws"))
    with pytest.raises(Misconfigured, match=f"INTERLOCK_LIFECYCLE__{name}: is not set; .*interlock tables create"):
        getattr(engine, port)


@pytest.mark.parametrize(("port", "name"), [("objects", "BUCKET"), ("queue", "QUEUE_URL")])
def test_what_the_intake_misses_on_aws_is_named_with_the_command_that_makes_it(port: str, name: str) -> None:
    engine = open_intake(Settings(engine="aws"))
    with pytest.raises(Misconfigured, match=f"INTERLOCK_INTAKE__{name}: is not set; .*interlock tables create"):
        getattr(engine, port)


@pytest.mark.anyio
async def test_a_process_that_does_not_ingest_needs_no_topic_and_cannot_publish() -> None:
    settings = Settings(engine="aws")
    platform = make_platform(settings, open_engine(settings), MemoryMetrics(), publishing=False)
    assert await platform.publisher.publish([]) == []
    with pytest.raises(Misconfigured, match="set up without a topic"):
        await platform.publisher.publish([Outgoing("g", "d", "{}")])


@pytest.mark.anyio
async def test_a_memory_engine_is_one_world() -> None:
    engine = open_engine(Settings(engine="memory"))
    platform = make_platform(Settings(engine="memory"), engine, MemoryMetrics())
    assert await platform.publisher.publish([Outgoing("g", "d", "{}")]) == [None]
    assert [message.body for message in await engine.queue.receive(1, 0)] == ["{}"]


@pytest.mark.anyio
async def test_readiness_asks_the_store_and_the_tokens(tmp_path: Path) -> None:
    settings = settings_of("memory", tmp_path)
    engine = open_engine(settings)
    platform = make_platform(settings, engine, MemoryMetrics())
    assert isinstance(platform, Platform)
    assert isinstance(platform.clock, SystemClock)
    activity = open_activity(settings, MemoryMetrics())
    transport = httpx.ASGITransport(make_app(settings, platform, open_access(settings), activity))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        assert (await client.get("/readyz")).json()["dependencies"] == {
            "store": "ok",
            "activity": "ok",
            "tokens": "failed",
        }
        (tmp_path / "tokens.json").write_text("[]")
        assert set((await client.get("/readyz")).json()["dependencies"].values()) == {"ok"}


@pytest.mark.parametrize(
    ("engine", "foreign"),
    [
        ("memory", {"boto3", "sqlite3", "adapters.sqlite", "adapters.dynamodb"}),
        ("sqlite", {"boto3", "adapters.dynamodb", "adapters.sns"}),
        ("aws", {"sqlite3", "adapters.sqlite"}),
    ],
)
def test_an_engine_loads_no_other_engine(engine: str, foreign: set[str]) -> None:
    code = (
        "import sys\n"
        "from entrypoints.settings import Settings\n"
        "from entrypoints.wiring import open_engine\n"
        f"open_engine(Settings(engine={engine!r})).store\n"
        "print(*sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    loaded = set(run.stdout.split())
    assert f"entrypoints.engines.{engine}" in loaded
    assert not loaded & (foreign | {"dependency_injector", "fastapi", "pydantic_settings", "structlog", "uvicorn"})
