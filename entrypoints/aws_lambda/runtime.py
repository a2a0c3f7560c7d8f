"""What all functions share: one event loop and one platform for the life of a container, made at the first call.

Clients belong to the loop that they were made under (FC-22), so loop and platform are held together, and a failed first
call leaves nothing half-made behind. This module imports neither pydantic-settings nor structlog nor
dependency-injector: together they would double the cold start (goal G19).
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from adapters.cloudwatch.metrics import CloudWatchMetrics
from adapters.system.clock import SystemClock
from application.platform import Platform
from entrypoints.settings import read_variables
from entrypoints.wiring import Engine, make_platform, open_activity, open_engine

if TYPE_CHECKING:
    from entrypoints.engines.activity import ActivityEngine

T = TypeVar("T")

NAMESPACE = "Interlock"


class Context(Protocol):
    """What AWS tells of an invocation."""

    @property
    def aws_request_id(self) -> str:
        """Id of the request, as in the logs of AWS."""
        ...

    def get_remaining_time_in_millis(self) -> int:
        """Give the milliseconds until AWS stops the function."""
        ...


class Warm:
    """What stays in a container from one call to the next: settings, loop and figures.

    Args:
        variables: the environment.

    Raises:
        Misconfigured: a variable cannot work.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.settings = read_variables(variables)

    @cached_property
    def runner(self) -> asyncio.Runner:
        """The one loop."""
        return asyncio.Runner()

    @cached_property
    def metrics(self) -> CloudWatchMetrics:
        """Figures, written at the end of each call."""
        return CloudWatchMetrics(NAMESPACE, SystemClock(), write_line)

    def run_once(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run one call's work on the loop; then write its figures, also where it failed."""
        try:
            return self.runner.run(work())
        finally:
            self.metrics.flush()

    def close(self) -> None:
        """Close the loop, as at the end of a container."""
        self.runner.close()


class Runtime(Warm):
    """A container of the lifecycle and of activity.

    Args:
        publishing: whether the function ingests events, and so needs a topic. None: it leaves the lifecycle alone.
        variables: the environment.

    Raises:
        Misconfigured: a variable cannot work.
    """

    def __init__(self, *, publishing: bool | None, variables: Mapping[str, str] = os.environ) -> None:
        super().__init__(variables)
        self._publishing = publishing is True
        # Adapters are imported here, while AWS starts the container at full speed; clients come with the first call.
        _ = self.activity if publishing is None else self.engine

    @cached_property
    def engine(self) -> Engine:
        """The lifecycle's stores and queues."""
        return open_engine(self.settings)

    @cached_property
    def activity(self) -> "ActivityEngine":
        """The writer and the reader of activity."""
        return open_activity(self.settings, self.metrics)

    @cached_property
    def platform(self) -> Platform:
        """The lifecycle's ports and rules."""
        return make_platform(self.settings, self.engine, self.metrics, publishing=self._publishing)

    def run(self, work: Callable[[Platform], Coroutine[Any, Any, T]]) -> T:
        """Run one call's work on the lifecycle; then write its figures, also where it failed."""
        platform = self.platform
        return self.run_once(lambda: work(platform))

    def close(self) -> None:
        """Close clients and loop, as at the end of a container."""
        for name in ("engine", "activity"):
            if name in vars(self):
                self.runner.run(getattr(self, name).aclose())
        super().close()


def write_line(line: str) -> None:
    """Write to what becomes the function's log."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def log(level: str, event: str, context: Context, **fields: str | int | None) -> None:
    """Log one line of JSON: ids, codes and counts, never content."""
    write_line(json.dumps({"level": level, "event": event, "request_id": context.aws_request_id, **fields}))
