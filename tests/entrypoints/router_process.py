"""One of several processes that deliver events to the router at once, for tests of many.

python -m tests.entrypoints.router_process DATA_DIR ADDRESS FILE

The file holds one EventBridge event a line. They are routed 16 at a time; the outcomes are printed as JSON.
"""

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path

from adapters.memory.metrics import MemoryMetrics
from domain.eventbridge import from_eventbridge
from entrypoints.engines.router import make_router, make_starter, open_stores
from entrypoints.engines.skip_list import SkipListEngine
from entrypoints.settings import read_variables

AT_ONCE = 16


async def deliver(data_dir: str, address: str, lines: list[str]) -> Counter[str]:
    """Route all events."""
    settings = read_variables({"INTERLOCK_DATA_DIR": data_dir, "INTERLOCK_TEMPORAL__ADDRESS": address})
    metrics = MemoryMetrics()
    stores, skip_list = open_stores(settings), SkipListEngine(settings, metrics)
    router = make_router(settings, stores, make_starter(settings), skip_list.reader, metrics)
    slots = asyncio.Semaphore(AT_ONCE)
    outcomes: Counter[str] = Counter()

    async def one(line: str) -> None:
        async with slots:
            outcomes[(await router.route(from_eventbridge(json.loads(line)), lambda: 60.0)).outcome] += 1

    async with asyncio.TaskGroup() as tasks:
        for line in lines:
            tasks.create_task(one(line))
    await skip_list.aclose()
    await stores.aclose()
    return outcomes


if __name__ == "__main__":
    outcomes = asyncio.run(deliver(sys.argv[1], sys.argv[2], Path(sys.argv[3]).read_text().splitlines()))
    sys.stdout.write(json.dumps(outcomes))
