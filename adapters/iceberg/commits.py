"""Which files a load meets, and the one commit that puts its own in their place (ADR 0018)."""

import json
from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final

from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table

from adapters.iceberg.day_files import EPOCH, Target
from domain.event_schema import EventSchema, new_views, schema_from

SCHEMA: Final = "interlock.schema."
"""Properties of the table: the declaration of an event type, by the name of its view."""

SMALL_FILE_BYTES: Final = 4 * 1024 * 1024
"""Files under this size are written again together with the next rows of their day."""

_DAY: Final = timedelta(days=1)


def target_of(table: Table) -> Target:
    """Give what workers need to read and write the table's files."""
    return Target(table.metadata, {str(name): str(value) for name, value in table.io.properties.items()})


def schemas_of(table: Table) -> dict[str, EventSchema]:
    """Read the declarations out of the table's properties, by event type."""
    found = [schema_from(json.loads(value)) for name, value in table.properties.items() if name.startswith(SCHEMA)]
    return {schema.type: schema for schema in found}


def property_of(schema: EventSchema) -> tuple[str, str]:
    """Write a declaration as a property."""
    return SCHEMA + schema.view, json.dumps(schema.to_json())


def plan_files(table: Table, touched: Collection[date]) -> tuple[list[FileScanTask], list[FileScanTask]]:
    """Give the small files of the days that get rows, and the other files that may hold the same keys.

    An event without a time that is sent again around midnight is of another day: keys are looked for a day before and
    after, too.

    Args:
        table: as it is now.
        touched: days that get rows; at least one.
    """
    near = {day + step for day in touched for step in (-_DAY, timedelta(), _DAY)}
    start, end = (datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (min(near), max(near) + _DAY))
    between = f"time >= '{start.isoformat()}' and time < '{end.isoformat()}'"
    small: list[FileScanTask] = []
    others: list[FileScanTask] = []
    for task in table.scan(row_filter=between).plan_files():
        day = EPOCH + timedelta(days=task.file.partition[0])
        if day in touched and task.file.file_size_in_bytes < SMALL_FILE_BYTES:
            small.append(task)
        elif day in near:
            others.append(task)
    return small, others


def put_in_place(table: Table, added: Sequence[DataFile], replaced: Sequence[DataFile], types: Collection[str]) -> bool:
    """Commit files in one snapshot: readers see the table without them, or with all of them.

    Args:
        table: as it was when the files were made of it; it is the new one afterwards.
        added: files that no commit names yet.
        replaced: files whose rows are in them.
        types: event types of their rows; each gets a view.

    Returns:
        Whether it is done. Where another writer was first, it is not, and the files are gone.
    """
    try:
        with table.transaction() as change:
            views = new_views(schemas_of(table), types)
            if views:
                change.set_properties(dict(map(property_of, views)))
            with change.update_snapshot().overwrite() as snapshot:
                for file in replaced:
                    snapshot.delete_data_file(file)
                for file in added:
                    snapshot.append_data_file(file)
    except (CommitFailedException, ValidationException):
        drop(table, added)
        return False
    return True


def drop(table: Table, files: Sequence[DataFile]) -> None:
    """Delete files that no commit names."""
    for file in files:
        table.io.delete(file.file_path)


def version_of(table: Table) -> str | None:
    """Name the snapshot that readers see; None where there is none yet."""
    snapshot = table.current_snapshot()
    return None if snapshot is None else str(snapshot.snapshot_id)
