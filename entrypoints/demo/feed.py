"""The machine feed of the demo, a process of its own: flights as events, from bytes, into ingestion.

`python -m entrypoints.demo.feed --first 300` sends the first 300 messages, `--skip 300` the rest. Each line that it
prints is a JSON object of running totals. The settings say which engine takes the events.
"""

import argparse
import asyncio
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from adapters.memory.metrics import MemoryMetrics
from application.ingest import Ingested, ingest
from domain.envelope import Envelope, read_envelope
from domain.errors import Invalid
from domain.json_reader import write_json
from entrypoints.demo.flights import disturb, is_event, january, to_envelope, year
from entrypoints.settings import YIELDING, read_variables
from entrypoints.wiring import make_platform, open_activity, open_engine

SEED: Final = 2013
BATCH: Final = 250
BROKEN: Final[tuple[bytes, ...]] = (
    b'{"specversion":"1.0","id":"broken-1","source":"/flights/nyc","type":"FlightDelayed","id":"broken-1"}',
    b'{"specversion":"1.0","id":"broken-2","source":"/flights/nyc","type":"FlightDelayed","subject":""}',
    b'{"specversion":"1.0","id":"broken-3","source":"/flights/nyc","type":"FlightDelayed","time":"2013-02-30T00:00:00Z"}',
    b'{"specversion":"1.0","id":"broken-4","source":"/flights/nyc","type":"FlightDelayed"}',
    b'{"specversion":"1.0","id":"broken-5","source":"/flights/nyc","type":"FlightDelayed","data":{"late":NaN}}',
)
"""Messages that break a rule each; every one must be refused."""


def messages(*, whole_year: bool) -> Iterator[bytes]:
    """Give what the feed sends, always in the same order: every tenth event twice, some shuffled, a few broken."""
    flights = year() if whole_year else january()
    events = (to_envelope(flight) for flight in flights if is_event(flight))
    for index, attributes in enumerate(disturb(events, SEED)):
        if index % 1000 == 0 and index // 1000 < len(BROKEN):
            yield BROKEN[index // 1000]
        yield write_json(attributes).encode()


async def send(bodies: Iterable[bytes]) -> None:
    """Ingest messages in batches, and print totals: sent = new + duplicate + rejected."""
    settings = read_variables(os.environ)
    engine = open_engine(settings)
    activity = open_activity(settings, MemoryMetrics())
    platform = make_platform(settings, engine, MemoryMetrics(), activity=activity)
    totals = Counter(sent=0, new=0, duplicate=0, rejected=0)
    remaining = iter(bodies)
    try:
        while batch := list(islice(remaining, BATCH)):
            envelopes: list[Envelope] = []
            for body in batch:
                try:
                    envelopes.append(read_envelope(body, platform.clock.now()))
                except Invalid:
                    totals["rejected"] += 1
            for answer in await ingest(platform, envelopes):
                totals[answer.outcome if isinstance(answer, Ingested) else "rejected"] += 1
            totals["sent"] += len(batch)
            print(write_json(totals), flush=True)  # noqa: T201 - the parent reads this line
    finally:
        await engine.aclose()
        await activity.aclose()


def main(arguments: Sequence[str] | None = None) -> None:
    """Send the messages that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--year", action="store_true", help="the whole year, not January alone")
    parser.add_argument("--skip", type=int, default=0, help="messages to leave out at the start")
    parser.add_argument("--first", type=int, help="how many to send at most")
    options = parser.parse_args(arguments)
    stop = None if options.first is None else options.skip + options.first
    os.nice(YIELDING)
    asyncio.run(send(islice(messages(whole_year=options.year), options.skip, stop)))


if __name__ == "__main__":
    main()
