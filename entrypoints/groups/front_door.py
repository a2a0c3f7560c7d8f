"""The front door and the lake."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from entrypoints.groups.base import Group


class IntakeSettings(Group):
    """The front door: its queue, and where its messages are kept."""

    bucket: Annotated[
        str | None,
        Field(
            pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$",
            description="name of the S3 bucket: 3-63 of a-z 0-9 . -, as `interlock tables create` prints it",
        ),
    ] = None
    queue_url: Annotated[
        str | None,
        Field(
            pattern=r"^https?://\S+/[A-Za-z0-9_-]{1,80}$",
            description="URL of the SQS standard queue, as `interlock tables create` prints it",
        ),
    ] = None
    max_receives: Annotated[
        int, Field(ge=1, le=1000, description="deliveries before a message goes to the dead-letter queue, 1-1000")
    ] = 5
    visibility_seconds: Annotated[
        int, Field(ge=2, le=43200, description="seconds that a received message stays hidden, 2-43200")
    ] = 60
    window_seconds: Annotated[
        float,
        Field(
            ge=0,
            le=300,
            description="seconds that `interlock worker intake` gathers messages for one object, at most 300; "
            "at most a third of visibility_seconds counts",
        ),
    ] = 5.0


class LakeSettings(Group):
    """The lake: the table that the daily job fills and `interlock query` reads."""

    table: Annotated[
        str,
        Field(pattern=r"^[a-z0-9_]{1,128}\.[a-z0-9_]{1,128}$", description="name of the table: database.table"),
    ] = "interlock.events"
    warehouse: Annotated[
        str | None,
        Field(
            pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/\S*)?$",
            description="where the table's files are on aws: s3://bucket/folder; unset means lake/ in the intake's one",
        ),
    ] = None
    back_days: Annotated[
        int,
        Field(
            ge=0,
            le=366,
            description="days before its own that the daily job looks at for objects that came after their day, 0-366",
        ),
    ] = 14
    processes: Annotated[
        int,
        Field(ge=1, le=64, description="processes of the daily job, 1-64; each needs about 300 MB"),
    ] = 2
    spill_dir: Annotated[
        Path | None,
        Field(description="folder for temporary files of loads and queries; unset means the system's folder for such"),
    ] = None
