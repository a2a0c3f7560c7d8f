"""The Temporal worker: runs workflows, says which, and writes down what has completed (R-302 to R-304).

It serves the catch-all and whatever workflows and activities its modules hold, on both task queues, and keeps saying so
in the catalog. Told to stop, it finishes the tasks in hand. Its offer then ends by itself, a lease later: what comes in
meanwhile waits on its task queue for the next worker, so that a deploy sends nothing to the catch-all (ADR 0012).
"""

import asyncio
import socket
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib import import_module
from types import ModuleType
from typing import Any, Final, NamedTuple

import structlog
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from adapters.temporal.catch_all import CatchAllActivities, UnmatchedEventWorkflow
from adapters.temporal.connection import Temporal, connect, translate
from adapters.temporal.workflow_history import TemporalHistory
from application.remember import remember_completed
from domain.errors import InterlockError, Misconfigured, Retryable
from domain.routing import EVENTS, EXPORTS, Offer, check_workflows
from entrypoints.engines.router import RouterStores
from entrypoints.failures import code_of, one_error, reason_of
from entrypoints.worker.taking import BACKOFF, pause
from ports.clock import Clock
from ports.id_source import IdSource

GRACE: Final = timedelta(seconds=10)
NAMESPACE_LIMIT: Final = timedelta(seconds=5)
SYNC_ACTIVITIES: Final = 64
WORKFLOW_TASKS: Final = 100
EXPORT_TASKS: Final = 4
"""Workflow tasks of exports in hand at a time: a burst of them takes turns, and leaves the server to others."""
SWEEP_SECONDS: Final = 60.0

# A workflow may be annotated with our own models without a word about the sandbox.
PASSED_THROUGH: Final = ("domain", "pydantic", "pydantic_core", "annotated_types", "typing_extensions")

_log: structlog.stdlib.BoundLogger = structlog.get_logger("interlock.worker")


class Serving(NamedTuple):
    """What a worker serves.

    Attributes:
        workflows: classes, by name of the workflow type.
        activities: functions and bound methods.
        task_queues: where tasks are taken from.
        lease_seconds: how long the worker counts as there after it last said so.
    """

    workflows: dict[str, type]
    activities: tuple[Callable[..., Any], ...]
    task_queues: tuple[str, ...] = (EVENTS, EXPORTS)
    lease_seconds: float = 300.0


def load_modules(names: Sequence[str]) -> tuple[dict[str, type], tuple[Callable[..., Any], ...]]:
    """Import modules, and give the workflows and activities that they hold.

    A workflow is a class under `@workflow.defn`; an activity a function under `@activity.defn`, or what the module
    lists in `ACTIVITIES`, such as methods of an object.

    Raises:
        Misconfigured: a module cannot be imported, holds none of either, or two workflows have one name.
    """
    workflows: dict[str, type] = {}
    activities: dict[str, Callable[..., Any]] = {}
    for name in names:
        module = _imported(name)
        found = [*vars(module).values(), *getattr(module, "ACTIVITIES", ())]
        classes = {_workflow_name(value): value for value in found if isinstance(value, type) and _workflow_name(value)}
        functions = {_activity_name(value): value for value in found if _activity_name(value)}
        if not classes and not functions:
            raise Misconfigured(f"module {name}", "holds no workflow and no activity; see @workflow.defn")
        for kind, twin in classes.items():
            if workflows.setdefault(kind, twin) is not twin:
                raise Misconfigured(f"module {name}", f"has another workflow called {kind} than a module before it")
        activities |= functions
    return workflows, tuple(activities.values())


def _imported(name: str) -> ModuleType:
    if "" not in sys.path:
        sys.path.insert(0, "")  # the working folder, as `python -m` does
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise Misconfigured(f"module {name}", "is not found in the working folder, nor on Python's path") from error
    except (TypeError, ValueError) as error:
        raise Misconfigured(f"module {name}", f"cannot be imported: {error}") from error


def _workflow_name(value: type) -> str:
    definition = vars(value).get("__temporal_workflow_definition")
    return "" if definition is None else definition.name or ""


def _activity_name(value: object) -> str:
    definition = getattr(value, "__temporal_activity_definition", None) if callable(value) else None
    return "" if definition is None else definition.name or ""


async def serve_workflows(
    temporal: Temporal, stores: RouterStores, serving: Serving, clock: Clock, ids: IdSource, stop: asyncio.Event
) -> None:
    """Run workflows until told to stop; the tasks in hand are finished first.

    A server that does not answer is waited for, however long, and also where it goes away just as the workers start:
    they ask it for the namespace then, and end where it says nothing.

    Raises:
        Misconfigured: the namespace is not there, the key opens nothing, a workflow cannot be run, or a store is not
            set up.
    """
    worker = f"{socket.gethostname()}/{ids.new_id()}"
    attempt = 0
    while not stop.is_set():
        try:
            client = await _connected(temporal)
            with one_error(), ThreadPoolExecutor(SYNC_ACTIVITIES, "activity") as pool:
                workers = [_worker(client, stores, serving, queue, pool) for queue in serving.task_queues]
                async with asyncio.TaskGroup() as tasks:
                    for one in workers:
                        tasks.create_task(_run(one))
                    offering = tasks.create_task(_keep_offering(stores, serving, clock, worker, stop))
                    sweeping = tasks.create_task(_keep_ledger(temporal, stores, clock, stop))
                    await stop.wait()
                    for one in workers:
                        await one.shutdown()
                    await asyncio.wait([offering, sweeping])
        except Retryable as error:
            attempt += 1
            _log.warning("no answer from Temporal", code=error.code, reason=str(error), attempt=attempt)
            await pause(BACKOFF, attempt, stop)


async def _connected(temporal: Temporal) -> Client:
    """Connect, and ask for the namespace: nothing is offered that this worker could not run."""
    client = await connect(temporal.target, lazy=False)
    request = DescribeNamespaceRequest(namespace=client.namespace)
    try:
        await client.workflow_service.describe_namespace(request, timeout=NAMESPACE_LIMIT)
    except RPCError as error:
        raise translate(error) from error
    return client


async def _run(worker: Worker) -> None:
    try:
        await worker.run()
    except RuntimeError as error:
        raise translate(error) from error


def _worker(client: Client, stores: RouterStores, serving: Serving, queue: str, pool: ThreadPoolExecutor) -> Worker:
    """Make a worker of one queue.

    Raises:
        Misconfigured: a workflow or an activity cannot be run, says the SDK.
    """
    try:
        return _made(client, stores, serving, queue, pool)
    except (RuntimeError, TypeError, ValueError) as error:
        because = "" if error.__cause__ is None else f": {error.__cause__}"
        raise Misconfigured("workflows and activities", f"cannot be run: {error}{because}") from error


def _made(client: Client, stores: RouterStores, serving: Serving, queue: str, pool: ThreadPoolExecutor) -> Worker:
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH)
    return Worker(
        client,
        task_queue=queue,
        workflows=[UnmatchedEventWorkflow, *serving.workflows.values()],
        activities=[CatchAllActivities(stores.caught).record, *serving.activities],
        activity_executor=pool,
        max_concurrent_activities=SYNC_ACTIVITIES,
        max_concurrent_workflow_tasks=EXPORT_TASKS if queue == EXPORTS else WORKFLOW_TASKS,
        workflow_runner=SandboxedWorkflowRunner(restrictions=restrictions),
        graceful_shutdown_timeout=GRACE,
    )


async def _keep_offering(
    stores: RouterStores, serving: Serving, clock: Clock, worker: str, stop: asyncio.Event
) -> None:
    """Say what is served, and say it again while the last time still counts."""
    names = check_workflows(list(serving.workflows))
    attempt = 0
    while not stop.is_set():
        until = clock.now() + timedelta(seconds=serving.lease_seconds)
        try:
            await stores.catalog.publish(Offer(worker, names, serving.task_queues, until))
        except Retryable as error:
            attempt += 1
            _log.warning("the catalog did not answer", code=error.code, reason=str(error), attempt=attempt)
            await pause(BACKOFF, attempt, stop)
        else:
            attempt = 0
            await _wait(serving.lease_seconds / 3, stop)


async def _keep_ledger(temporal: Temporal, stores: RouterStores, clock: Clock, stop: asyncio.Event) -> None:
    """Write down what has completed, every minute. A failure costs a minute, never the worker."""
    history = TemporalHistory(temporal)
    while not stop.is_set():
        try:
            written = await remember_completed(history, stores.ledger, clock)
        except InterlockError as error:
            _log.warning("completed workflows were not written down", code=code_of(error), reason=reason_of(error))
        else:
            _log.debug("completed workflows are written down", written=written)
        await _wait(SWEEP_SECONDS, stop)


async def _wait(seconds: float, stop: asyncio.Event) -> None:
    """Wait so long, or until told to stop."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
