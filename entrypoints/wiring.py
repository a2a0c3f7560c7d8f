"""The composition root as plain factories. Adapters are imported where they are picked: nobody loads another's engine.

`entrypoints.container` offers the same factories as dependency-injector providers. Lambda functions use them straight,
because that library would cost a third of their cold start (goal G19).
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from adapters.system.clock import SystemClock
from adapters.system.id_source import RandomIds
from application.platform import Platform
from domain.errors import InterlockError, Misconfigured
from domain.messages import Outgoing
from entrypoints.durations import read_duration
from entrypoints.settings import Settings, load_definition, variable
from ports.access import CheckedAccess
from ports.event_store import EventStore
from ports.intake_queue import IntakeQueue
from ports.message_queue import MessageQueue
from ports.metrics import Metrics
from ports.publisher import Publisher

if TYPE_CHECKING:
    from fastapi import FastAPI

    from adapters.prometheus.metrics import PrometheusMetrics
    from application.explain import Explain
    from application.intake import Intake
    from entrypoints.engines.activity import ActivityEngine
    from entrypoints.engines.dedup import DedupEngine
    from entrypoints.engines.event_bus import EventBusEngine
    from entrypoints.engines.intake import IntakeEngine
    from entrypoints.engines.lake import LakeEngine
    from entrypoints.engines.router import RouterStores
    from entrypoints.engines.skip_list import SkipListEngine
    from entrypoints.grpc.calls import Service
    from entrypoints.worker.intake import Gathering
    from entrypoints.worker.transitions import Consumption


class Engine(Protocol):
    """The stores and queues of one kind. Files and connections are opened at first use, and kept.

    Attributes:
        batch: how many messages a worker takes at a time.
        receivers: how many batches a worker has in hand side by side.
        wait_seconds: how long a worker waits for a message in one call.
    """

    @property
    def batch(self) -> int: ...  # noqa: D102 - see the class

    @property
    def receivers(self) -> int: ...  # noqa: D102 - see the class

    @property
    def wait_seconds(self) -> float: ...  # noqa: D102 - see the class

    @property
    def store(self) -> EventStore:
        """The event store."""
        ...

    @property
    def queue(self) -> MessageQueue:
        """The lifecycle queue."""
        ...

    @property
    def publisher(self) -> Publisher:
        """The lifecycle topic."""
        ...

    async def aclose(self) -> None:
        """Finish what runs, and let go of files and connections."""
        ...


class NoPublisher:
    """The topic of processes that never publish, such as the transition consumer: they need no right to."""

    @property
    def max_bytes(self) -> int:
        """Nothing fits."""
        return 0

    async def publish(self, messages: Sequence[Outgoing], /) -> list[InterlockError | None]:
        """Refuse.

        Raises:
            Misconfigured: always, unless there is nothing to publish.
        """
        if messages:
            raise Misconfigured(variable(("lifecycle", "topic_arn")), "this process was set up without a topic")
        return []


def open_engine(settings: Settings) -> Engine:
    """Give the engine that is configured. It opens nothing before its first use."""
    match settings.engine:
        case "memory":
            from entrypoints.engines.memory import MemoryEngine  # noqa: PLC0415 - only what this engine needs

            return MemoryEngine(settings)
        case "sqlite":
            from entrypoints.engines.sqlite import SqliteEngine  # noqa: PLC0415 - only what this engine needs

            return SqliteEngine(settings)
        case "aws":
            from entrypoints.engines.aws import AwsEngine  # noqa: PLC0415 - only what this engine needs

            return AwsEngine(settings)


def open_dedup(settings: Settings, metrics: Metrics) -> "DedupEngine":
    """Give the dedup cache that is configured. Nothing is connected to before its first use.

    Raises:
        Misconfigured: a setting that is needed is missing.
    """
    from entrypoints.engines import dedup  # noqa: PLC0415 - the dedup service's alone

    return dedup.open_dedup(settings, metrics)


def open_activity(settings: Settings, metrics: Metrics) -> "ActivityEngine":
    """Give the writer and the reader of activity on the configured engine. Nothing is connected to before its use."""
    from entrypoints.engines import activity  # noqa: PLC0415 - the activity store's alone

    return activity.ActivityEngine(settings, metrics)


def make_dedup_service(settings: Settings, engine: "DedupEngine", metrics: Metrics) -> "Service":
    """Put the dedup service before its cache."""
    from entrypoints.grpc.dedup import DedupService  # noqa: PLC0415 - the gRPC server's alone

    default_ttl = read_duration(settings.dedup.default_ttl, variable(("dedup", "default_ttl")))
    return DedupService(engine.cache, metrics, default_ttl).service


def open_skip_list(settings: Settings, metrics: Metrics) -> "SkipListEngine":
    """Give the skip list that is configured. Nothing is opened before its first use."""
    from entrypoints.engines import skip_list  # noqa: PLC0415 - only who edits or routes needs it

    return skip_list.SkipListEngine(settings, metrics)


def open_event_bus(settings: Settings) -> "EventBusEngine":
    """Give the event bus that is configured. Nothing is opened before its first use."""
    from entrypoints.engines import event_bus  # noqa: PLC0415 - only who publishes or routes needs it

    return event_bus.EventBusEngine(settings)


def open_router_stores(settings: Settings) -> "RouterStores":
    """Give the router's stores. Nothing is opened before its first use."""
    from entrypoints.engines import router  # noqa: PLC0415 - only who routes or explains needs it

    return router.open_stores(settings)


def make_explain(
    settings: Settings, stores: "RouterStores", skip_list: "SkipListEngine", metrics: Metrics
) -> "Explain":
    """Give what answers where an event would go."""
    from entrypoints.engines import router  # noqa: PLC0415 - only who routes or explains needs it

    return router.make_explain(settings, stores, skip_list, metrics)


def make_skip_list_service(engine: "SkipListEngine") -> "Service":
    """Put the skip list's service before its store."""
    from entrypoints.grpc.skip_list import SkipListService  # noqa: PLC0415 - the gRPC server's alone

    return SkipListService(lambda: engine.store, SystemClock()).service


def open_intake(settings: Settings) -> "IntakeEngine":
    """Give the front door's queue and object store. Nothing is opened before its first use."""
    from entrypoints.engines.intake import IntakeEngine  # noqa: PLC0415 - the front door's alone

    return IntakeEngine(settings)


def open_lake(settings: Settings) -> "LakeEngine":
    """Give the lake's table and the objects it is filled from. Nothing is opened before its first use."""
    from entrypoints.engines.lake import LakeEngine  # noqa: PLC0415 - the daily job's alone

    return LakeEngine(settings)


def open_front_door(settings: Settings, engine: "IntakeEngine") -> IntakeQueue | None:
    """Give the queue behind `POST /v1/intake`; None where none is set on aws: the gateway is the door there."""
    return None if settings.engine == "aws" and settings.intake.queue_url is None else engine.queue


def make_intake(engine: "IntakeEngine", metrics: Metrics) -> "Intake":
    """Put the front door's processor together.

    Raises:
        Misconfigured: a setting that is needed is missing.
    """
    from application.intake import Intake  # noqa: PLC0415 - the front door's alone

    return Intake(engine.objects, SystemClock(), metrics)


def make_gathering(settings: Settings) -> "Gathering":
    """Say how a worker takes messages from the intake queue."""
    from entrypoints.worker.intake import Gathering  # noqa: PLC0415 - the worker's alone

    return Gathering(
        batch=1000,
        receivers=1,
        wait_seconds=1.0 if settings.engine != "aws" else 5.0,
        window_seconds=settings.intake.window_seconds,
        visibility_seconds=settings.intake.visibility_seconds,
    )


def make_platform(
    settings: Settings,
    engine: Engine,
    metrics: Metrics,
    *,
    publishing: bool = True,
    activity: "ActivityEngine | None" = None,
) -> Platform:
    """Put the lifecycle's ports and rules together.

    Args:
        settings: which lifecycle.
        engine: the stores and queues.
        metrics: where figures go.
        publishing: whether this process ingests events; without, no topic is needed.
        activity: is fed with what is ingested on one machine; on AWS a rule of EventBridge feeds it.

    Raises:
        Misconfigured: a setting that is needed is missing or cannot work.
    """
    return Platform(
        store=engine.store,
        publisher=_publisher(settings, engine, activity) if publishing else NoPublisher(),
        clock=SystemClock(),
        ids=RandomIds(),
        metrics=metrics,
        definition=load_definition(settings),
    )


def _publisher(settings: Settings, engine: Engine, activity: "ActivityEngine | None") -> Publisher:
    if activity is None or settings.engine == "aws":
        return engine.publisher
    from entrypoints.local_bus import LocalBus  # noqa: PLC0415 - AWS has a bus of its own

    return LocalBus(engine.publisher, activity.feed)


def make_metrics() -> "PrometheusMetrics":
    """Give the figures of a process, to be read at `/metrics`."""
    from adapters.prometheus.metrics import PrometheusMetrics  # noqa: PLC0415 - Lambda functions keep figures otherwise

    return PrometheusMetrics()


def open_access(settings: Settings) -> CheckedAccess | None:
    """Give the judge of tokens, or None where neither a tokens file nor keys for JWTs are set.

    Whoever serves decides whether nobody or everybody gets in then.

    Raises:
        Misconfigured: JWTs are to be judged, and it is not said whose.
    """
    from entrypoints.engines import access  # noqa: PLC0415 - only those need it whom somebody calls

    return access.open_access(settings.auth)


def make_app(
    settings: Settings,
    platform: Platform,
    access: CheckedAccess | None,
    activity: "ActivityEngine",
    metrics_text: Callable[[], bytes] | None = None,
    explain: "Explain | None" = None,
    intake: IntakeQueue | None = None,
) -> "FastAPI":
    """Give the HTTP API, ready when the store answers and the tokens can be read.

    Args:
        settings: the limits.
        platform: the lifecycle.
        access: the judge of tokens; None lets everybody in.
        activity: whose reader answers about accounts.
        metrics_text: gives the figures for `/metrics`; None leaves that path out.
        explain: says where an event would go; None leaves that path out.
        intake: the front door's queue; None leaves its path out.
    """
    from entrypoints.http.app import Beside, create_app  # noqa: PLC0415 - the API's alone

    async def store() -> None:
        await platform.store.head("-")

    readiness: dict[str, Callable[[], Awaitable[None]]] = {"store": store, "activity": activity.history.check}
    if access is not None:
        readiness["tokens"] = access.check
    return create_app(
        platform,
        access=access,
        beside=Beside(activity.history, intake, explain),
        metrics_text=metrics_text,
        readiness=readiness,
        max_body_bytes=settings.http.max_body_bytes,
    )


def make_consumption(settings: Settings, engine: Engine) -> "Consumption":
    """Say how a worker takes messages from this engine."""
    from entrypoints.worker.transitions import Consumption  # noqa: PLC0415 - the worker's alone

    return Consumption(
        batch=engine.batch,
        receivers=engine.receivers,
        wait_seconds=engine.wait_seconds,
        visibility_seconds=settings.lifecycle.visibility_seconds,
        max_receives=settings.lifecycle.max_receives,
    )
