"""A lake in a folder, for tests: raw objects as the processor writes them, and all that can be seen afterwards."""

import json
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from adapters.iceberg.event_table import IcebergEventTable
from adapters.iceberg.query import ask
from adapters.zstd.object_store import compress, decompress
from domain.intake import RawMessage, join_lines, object_name, split_lines, write_line
from entrypoints.engines.intake import OBJECTS
from entrypoints.engines.lake import open_table
from entrypoints.groups.front_door import LakeSettings
from entrypoints.settings import Settings


def settings_of(folder: Path, *, processes: int = 1) -> Settings:
    return Settings(
        engine="sqlite", data_dir=folder, lake=LakeSettings(processes=processes, spill_dir=folder / "spill")
    )


def put_raw(folder: Path, messages: Sequence[RawMessage]) -> str:
    """Write one raw object, and give its name."""
    name = object_name("raw", messages)
    file = folder / OBJECTS / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(compress(join_lines(write_line(message) for message in messages)))
    return name


def put_all(folder: Path, messages: Iterable[RawMessage], size: int) -> None:
    """Write raw objects of at most `size` messages."""
    rest = iter(messages)
    while some := list(islice(rest, size)):
        put_raw(folder, some)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """Read the whole table."""
    source = open_table(settings_of(folder))
    try:
        table = source.table()
        return [] if table is None else table.scan().to_arrow().to_pylist()
    finally:
        source.close()


async def asked(table: IcebergEventTable, sql: str) -> list[Sequence[Any]]:
    """Ask a question, and give the rows."""
    rows: list[Sequence[Any]] = []
    await ask(table.table(), sql, lambda answer: rows.extend(answer.rows))
    return rows


def quarantine_of(folder: Path) -> list[dict[str, Any]]:
    """Read all that is in quarantine."""
    files = sorted((folder / OBJECTS / "quarantine").rglob("*.zst"))
    return [json.loads(line) for file in files for line in split_lines(decompress(file.read_bytes(), file.name))]
