"""The lifecycle and the events that go through it."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from entrypoints.groups.base import Group, TableName


class EventsSettings(Group):
    """Where events are kept."""

    table: TableName = "interlock-events"
    state_shards: Annotated[
        int,
        Field(ge=1, le=64, description="index partitions for each state on DynamoDB, 1-64; raise it, never lower it"),
    ] = 4


class LifecycleSettings(Group):
    """The lifecycle, its topic and its queue."""

    topic_arn: Annotated[
        str | None,
        Field(
            pattern=r"^arn:[a-z-]+:sns:[a-z0-9-]*:[0-9]*:[A-Za-z0-9_-]{1,251}\.fifo$",
            description="ARN of the SNS FIFO topic, as `interlock tables create` prints it",
        ),
    ] = None
    queue_url: Annotated[
        str | None,
        Field(
            pattern=r"^https?://\S+/[A-Za-z0-9_-]{1,75}\.fifo$",
            description="URL of the SQS FIFO queue, as `interlock tables create` prints it",
        ),
    ] = None
    definition_file: Annotated[
        Path | None, Field(description="JSON file with states and moves; unset means the five states of Interlock")
    ] = None
    max_receives: Annotated[
        int, Field(ge=1, le=1000, description="deliveries before a message goes to the dead-letter queue, 1-1000")
    ] = 5
    visibility_seconds: Annotated[
        int, Field(ge=2, le=43200, description="seconds that a received message stays hidden, 2-43200")
    ] = 30
