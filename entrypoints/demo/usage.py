"""What the front door of the demo is sent: an event for each flight, and one in a hundred broken in one of twenty ways.

A broken event stands in a batch of good ones where a batch can be read with it, and comes alone where it cannot. Every
twentieth batch comes twice, as from a sender that heard no answer.
"""

import gzip
from collections.abc import Callable, Iterable, Iterator
from itertools import count, cycle, islice
from typing import Any, Final, NamedTuple

from domain.json_reader import write_json
from domain.times import format_time
from entrypoints.demo.flights import Attributes, Flight, scheduled_at

SOURCE: Final = "/flights/nyc/usage"
TYPE: Final = "AircraftUsed"
BATCH: Final = 50
BROKEN_EVERY: Final = 2
"""Batches of 50 events: one event in a hundred is broken."""
REPEATED_EVERY: Final = 20

SCHEMA: Final[dict[str, Any]] = {
    "type": TYPE,
    "columns": [
        {"name": "carrier", "type": "string"},
        {"name": "distance", "type": "long"},
        {"name": "air_time", "type": "long"},
    ],
}
"""What of `data` becomes columns of the table."""


class Post(NamedTuple):
    """One request.

    Attributes:
        body: its bytes.
        good: how many good events are in it.
        broken: how many broken ones: none or one.
        repeats: whether it was sent before.
    """

    body: bytes
    good: int
    broken: int
    repeats: bool = False


def to_usage(flight: Flight) -> Attributes | None:
    """Write a flight as a usage event of its aircraft; None where it did not get there."""
    if flight.air_time is None:
        return None
    date = f"{flight.year}-{flight.month:02}-{flight.day:02}"
    return {
        "specversion": "1.0",
        "id": f"{date}-{flight.carrier}-{flight.flight}-{flight.origin}-{flight.sched_dep_time:04}",
        "source": SOURCE,
        "type": TYPE,
        "subject": flight.tailnum,
        "time": format_time(scheduled_at(flight)),
        "data": {
            "carrier": flight.carrier,
            "origin": flight.origin,
            "dest": flight.dest,
            "distance": flight.distance,
            "air_time": flight.air_time,
        },
    }


def _with(**changes: Any) -> Callable[[Attributes], Attributes]:
    return lambda event: {**event, **changes}


def _without(name: str) -> Callable[[Attributes], Attributes]:
    return lambda event: {key: value for key, value in event.items() if key != name}


BROKEN_EVENTS: Final[dict[str, Callable[[Attributes], Attributes]]] = {
    "no version": _without("specversion"),
    "another version": _with(specversion="0.3"),
    "no id": _without("id"),
    "an empty id": _with(id=""),
    "a number as id": _with(id=1545),
    "no source": _without("source"),
    "a source that is no URI": _with(source="flights of New York"),
    "no type": _without("type"),
    "a type that is too long": _with(type="x" * 129),
    "a time without an offset": _with(time="2013-01-01T05:15:00"),
    "a day that is not in the calendar": _with(time="2013-02-30T05:15:00Z"),
    "a time as a number": _with(time=1357035300),
    "a distance that is no number": lambda event: {**event, "data": {"carrier": "UA", "distance": "far"}},
}
"""Ways in which an event is broken, and its neighbours are not."""

BROKEN_BODIES: Final[dict[str, Callable[[bytes], bytes]]] = {
    "text that was cut": lambda text: text[:-9],
    "NaN": lambda text: text.replace(b'"data":{', b'"data":{"late":NaN,'),
    "a key twice": lambda text: text.replace(b'"specversion"', b'"id":"x","specversion"'),
    "no JSON": lambda _: b"type=AircraftUsed&distance=1400",
    "no object": lambda _: b'"AircraftUsed"',
    "a nesting that is too deep": lambda text: text.replace(
        b'"data":{', b'"data":{"d":' + b"[" * 99 + b"]" * 99 + b","
    ),
    "gzip that is damaged": lambda text: gzip.compress(text, mtime=0)[:-20] + b"x" * 20,
}
"""Ways in which a whole body is broken."""


def posts(flights: Iterable[Flight]) -> Iterator[Post]:
    """Give what is sent, always the same."""
    events = filter(None, map(to_usage, flights))
    ways = cycle([*BROKEN_EVENTS, *BROKEN_BODIES])
    for number in count(1):
        batch = list(islice(events, BATCH))
        if not batch:
            return
        texts = [_text(event) for event in batch]
        broken = 0
        if number % BROKEN_EVERY == 0:
            way, example = next(ways), {**batch[0], "id": f"broken-{number}"}
            if way in BROKEN_EVENTS:
                texts.insert(len(texts) // 2, _text(BROKEN_EVENTS[way](example)))
                broken = 1
            else:
                yield Post(BROKEN_BODIES[way](_text(example)), 0, 1)
        post = Post(b"[" + b",".join(texts) + b"]", len(batch), broken)
        yield post
        if number % REPEATED_EVERY == 1:
            yield post._replace(repeats=True)


def totals(flights: Iterable[Flight]) -> dict[str, tuple[int, int, int]]:
    """Say of each carrier how many flights, miles and minutes there are to be used, from the flights alone."""
    found: dict[str, tuple[int, int, int]] = {}
    for flight in flights:
        if flight.air_time is not None:
            number, miles, minutes = found.get(flight.carrier, (0, 0, 0))
            found[flight.carrier] = (number + 1, miles + flight.distance, minutes + flight.air_time)
    return found


def _text(event: Attributes) -> bytes:
    return write_json(event).encode()
