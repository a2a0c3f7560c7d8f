"""R-304 at length: 2,000 events, each delivered five times from four processes at once; one run each.

    python -m benchmarks.router_deliveries

Counted on a Temporal dev server of its own.
"""

import asyncio
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from adapters.temporal.connection import Target, connect
from benchmarks.figures import rate, show
from domain.routing import Offer
from entrypoints.engines.router import open_stores
from entrypoints.settings import read_variables
from tests.entrypoints.test_router_must_hold import DELIVERIES, PROCESSES, WORKFLOW, an_event, deliver
from tests.temporal_engines import server
from tests.waiting import until

EVENTS = 2000


async def offer(folder: Path) -> None:
    stores = open_stores(read_variables({"INTERLOCK_DATA_DIR": str(folder / "data")}))
    queues = ("events", "exports")
    await stores.catalog.publish(Offer("w", (WORKFLOW,), queues, datetime.now(UTC) + timedelta(hours=1)))
    await stores.aclose()


async def runs(address: str) -> int:
    client = await connect(Target(address), lazy=False)

    async def all_listed() -> bool:
        return (await client.count_workflows()).count >= EVENTS

    await until(all_listed)
    return (await client.count_workflows()).count


def main() -> None:
    with server() as one, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(offer(folder))
        events = [an_event(f"e{number}") for number in range(EVENTS)]
        shares = [[event for event in events for _ in range(2 if share == 0 else 1)] for share in range(PROCESSES)]
        start = time.perf_counter()
        outcomes = deliver(folder, one.address, shares)
        seconds = time.perf_counter() - start
        found = asyncio.run(runs(one.address))
    what = f"runs of {EVENTS} events, {DELIVERIES} deliveries each"
    show("R-304", what, str(found), f"{EVENTS} wanted", found / EVENTS, "1.00x")
    deliveries = sum(outcomes.values())
    show("R-304", "deliveries", rate(deliveries / seconds), str(dict(outcomes)), None, f"{EVENTS} started")


if __name__ == "__main__":
    main()
