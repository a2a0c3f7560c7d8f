"""The workflow catalog in one SQLite file (ports/workflow_catalog.py)."""

import json
import sqlite3
from datetime import UTC, datetime, timedelta
from typing import Final

from adapters.sqlite.database import Database
from adapters.sqlite.message_queue import microseconds
from domain.routing import Offer

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
KEPT: Final = timedelta(days=2)
"""How long before a new offer ends an old one must have ended to be deleted."""

_PUBLISH: Final = "INSERT OR REPLACE INTO offers VALUES (?, ?, ?, ?)"
_EXPIRE: Final = "DELETE FROM offers WHERE until < ?"
_OFFERS: Final = "SELECT worker, workflows, task_queues, until FROM offers ORDER BY worker"


class SqliteCatalog:
    """Offers in a file opened with `ROUTER`; whoever opened it closes it."""

    def __init__(self, database: Database) -> None:
        """Keep offers in this file."""
        self._database = database

    async def publish(self, offer: Offer, /) -> None:
        """Put a worker's offer in the place of its earlier one."""
        row = (offer.worker, json.dumps(offer.workflows), json.dumps(offer.task_queues), microseconds(offer.until))
        long_ago = microseconds(offer.until - KEPT)

        def insert(connection: sqlite3.Connection) -> None:
            connection.execute(_EXPIRE, (long_ago,))
            connection.execute(_PUBLISH, row)

        await self._database.write(insert)

    async def offers(self) -> list[Offer]:
        """Give the offers."""

        def select(connection: sqlite3.Connection) -> list[Offer]:
            return [
                Offer(worker, tuple(json.loads(workflows)), tuple(json.loads(queues)), moment(until))
                for worker, workflows, queues, until in connection.execute(_OFFERS).fetchall()
            ]

        return await self._database.read(select)


def moment(since_1970: int) -> datetime:
    """Give the time of a number of microseconds since 1970."""
    return EPOCH + timedelta(microseconds=since_1970)
