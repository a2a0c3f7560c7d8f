"""Which dead-letter queue a name stands for, on the engine that is configured (R-503, FC-20).

| name | on sqlite | on aws |
|---|---|---|
| `lifecycle`, `intake`, `router` | that queue of the data folder | the one of the settings, and its dead-letter queue |
| URL of a queue, or of its dead-letter queue | no | those two |
| URL of a dead-letter queue of EventBridge or Lambda | no | back to the function that each letter names, or to `--to` |
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from adapters.system.clock import SystemClock
from domain.errors import Invalid, Misconfigured
from entrypoints.engines import event_bus, intake, sqlite
from entrypoints.settings import Settings, variable
from ports.dead_letters import DeadLetters

if TYPE_CHECKING:
    from adapters.aws.clients import Aws


class _Place(NamedTuple):
    """Where a queue is on sqlite, and the group of settings that has its URL on aws."""

    file: str
    queue: str
    dead_letters: str
    group: str


_PLACES: Final = {
    "lifecycle": _Place("queues.db", sqlite.QUEUE, sqlite.DEAD_LETTERS, "lifecycle"),
    "intake": _Place("queues.db", intake.QUEUE, intake.DEAD_LETTERS, "intake"),
    "router": _Place("bus.db", event_bus.QUEUE, event_bus.DEAD_LETTERS, "bus"),
}
NAMES: Final = tuple(_PLACES)
_URL: Final = ("https://", "http://")


@asynccontextmanager
async def open_dead_letters(
    settings: Settings, name: str, to: str | None = None, *, only_look: bool = False
) -> AsyncIterator[DeadLetters]:
    """Give the dead letters of a queue, and close what they are read from afterwards.

    Args:
        settings: which engine, and where its queues are.
        name: see the table of this module.
        to: on aws, where letters go instead: URL of a queue, or name or ARN of a function.
        only_look: none will go back, so it may be open where to.

    Raises:
        Invalid: there is no such queue on this engine.
        Misconfigured: the settings name none.
    """
    if settings.engine == "aws":
        from entrypoints.engines.aws import AwsEngine  # noqa: PLC0415 - only what this engine needs

        engine = AwsEngine(settings)
        try:
            yield await _on_aws(engine.aws, settings, name, to, only_look=only_look)
        finally:
            await asyncio.shield(engine.aclose())
        return
    if name not in NAMES:
        raise Invalid("QUEUE", f"must be one of {', '.join(NAMES)} on the engine {settings.engine}")
    if to is not None:
        raise Invalid("--to", f"is for the engine aws; on {settings.engine} letters go back to their queue")
    from adapters.sqlite.database import Database  # noqa: PLC0415 - only what this engine needs
    from adapters.sqlite.dead_letters import SqliteDeadLetters  # noqa: PLC0415 - the same
    from adapters.sqlite.message_queue import QUEUES  # noqa: PLC0415 - the same

    place = _PLACES[name]
    database = Database(settings.data_dir / place.file, QUEUES)
    try:
        yield SqliteDeadLetters(database, place.dead_letters, place.queue, SystemClock())
    finally:
        await database.aclose()


async def _on_aws(aws: "Aws", settings: Settings, name: str, to: str | None, *, only_look: bool) -> DeadLetters:
    from adapters.sqs.dead_letters import (  # noqa: PLC0415 - only what this engine needs
        SQSDeadLetters,
        dead_letters_of,
        sources_of,
        to_function,
        to_queue,
    )

    clock = SystemClock()
    queue = _queue_url(settings, name)
    dead = await dead_letters_of(aws, queue)
    sources = [queue] if dead is not None else await sources_of(aws, queue)
    if queue != name and dead is None:
        raise Misconfigured(f"queue {queue}", "has no dead-letter queue; see `interlock tables create`")
    if len(sources) > 1 and to is None and not only_look:
        raise Invalid("QUEUE", f"holds the dead letters of {len(sources)} queues; say with --to which gets them")
    to = to or next(iter(sources), None)
    if to is not None and to.startswith(_URL):
        return SQSDeadLetters(aws, dead or queue, to_queue(aws, to, clock, unwrap=not sources), clock)
    return SQSDeadLetters(aws, dead or queue, to_function(aws, to), clock)


def _queue_url(settings: Settings, name: str) -> str:
    if name.startswith(_URL):
        return name
    if name not in _PLACES:
        raise Invalid("QUEUE", f"must be one of {', '.join(NAMES)}, or the URL of a queue")
    group = _PLACES[name].group
    url: str | None = getattr(settings, group).queue_url
    if url is None:
        raise Misconfigured(variable((group, "queue_url")), "is not set; set it, or pass the queue's URL")
    return url
