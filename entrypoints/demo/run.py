"""The demo: real flights through the whole platform on one machine, and a summary that must add up.

Three processes beside this one, each as in production: the API, the transitions worker and the machine feed, over one
SQLite engine. Operators read single events while nothing else runs, and while ingestion runs at full speed; then they
move events along. Then usage events come through the front door into the lake (`entrypoints.demo.intake`), and some of
the events go through the router (`entrypoints.demo.routed`). At the end everything is counted twice: from what was
sent, and from what is stored.
"""

import asyncio
import json
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

from domain.errors import Misconfigured
from domain.lifecycle import DEFAULT_LIFECYCLE, fold
from entrypoints.demo import intake, processes
from entrypoints.demo.activity import ACCOUNT, History, read_history, record_reports
from entrypoints.demo.activity import checks as activity_checks
from entrypoints.demo.feed import messages
from entrypoints.demo.operators import Api, Latency, read_until, steps_of, work
from entrypoints.demo.routed import Routed, route
from entrypoints.local_bus import LOCAL_ACCOUNT
from entrypoints.settings import Settings
from entrypoints.temporal_server import end_left_over, missing
from entrypoints.wiring import open_engine

FIRST: Final = 300
"""Messages sent ahead, so that there is something to read."""
READS: Final = 500
MOVED_EVENTS: Final = 2000

Tell = Callable[[str, int, int], None]
"""Is told the phase, how much of it is done, and how much there is."""


class Summary(BaseModel):
    """What the demo counted. `checks` names what must hold, and says whether it does."""

    model_config = ConfigDict(frozen=True)

    flights: str
    sent: int
    new: int
    duplicate: int
    rejected: int
    worker: dict[str, int]
    operators: dict[str, int]
    facts: int
    states: dict[str, int]
    activity: list[History]
    reads_idle: Latency
    reads_during_ingestion: Latency
    ingested_per_second: int
    routed: Routed | None
    """None where there is no Temporal server to be started."""
    seconds: float
    folder: str
    front_door: intake.FrontDoor
    checks: dict[str, bool]


class _Fed(BaseModel):
    totals: dict[str, int]
    idle: Latency
    during: Latency
    per_second: int


def run(folder: Path, *, whole_year: bool, tell: Tell) -> Summary:
    """Run the demo in a folder, which is emptied first where an earlier demo made it.

    Raises:
        Misconfigured: the folder holds something else.
        Unavailable: a process ended early, or nothing came of it in five minutes.
    """
    started = time.monotonic()
    _empty(folder)
    expected = _expected(whole_year=whole_year)
    port = processes.free_port()
    with ExitStack() as stack:
        running = [
            stack.enter_context(processes.running(processes.api(port), folder, "api.log")),
            stack.enter_context(processes.running(processes.worker(), folder, "worker.log")),
        ]
        processes.wait_until(lambda: processes.is_ready(port), running)
        fed = _feed(folder, port, running, expected, tell, whole_year=whole_year)
        processes.wait_until(lambda: _told(tell, "applying", _worker(folder)["done"], expected["new"]), running)

        waiting = [item["event_id"] for item in Api(port).every(state=DEFAULT_LIFECYCLE.initial)]
        chosen = waiting[:: max(1, len(waiting) // MOVED_EVENTS)]
        operators = work(port, chosen, lambda done: tell("operators", done, len(chosen)))
        states = {state: sum(1 for _ in Api(port).every(state=state)) for state in DEFAULT_LIFECYCLE.states}
        reports = asyncio.run(record_reports(Settings(engine="sqlite", data_dir=folder)))
        accounts = {LOCAL_ACCOUNT: fed.totals["new"], ACCOUNT: reports["recorded"]}
        told = _read_activity(port, accounts, tell)
        front_door, at_the_door = asyncio.run(
            intake.run(folder, port, lambda done, of: tell("front door", done, of), whole_year=whole_year)
        )

    facts, folded = asyncio.run(_read_every_history(folder, tell, whole_year=whole_year))
    worker = _worker(folder)
    totals = fed.totals
    routed = route(folder, tell) if missing() is None else None
    return Summary(
        flights="the year 2013" if whole_year else "January 2013",
        **totals,
        worker=worker,
        operators=operators,
        facts=facts,
        states=states,
        activity=[history for history, _ in told],
        reads_idle=fed.idle,
        reads_during_ingestion=fed.during,
        ingested_per_second=fed.per_second,
        routed=routed,
        seconds=round(time.monotonic() - started, 1),
        folder=str(folder),
        front_door=front_door,
        checks={
            "sent = new + duplicate + rejected": totals["sent"] == sum(totals.values()) - totals["sent"],
            "sent, new, duplicate and rejected are what the flights hold": totals == expected,
            "worker: received = done + duplicate + rejected + returned": worker["received"]
            == sum(worker.values()) - worker["received"],
            "each new event was started once": worker["done"] == totals["new"],
            "operators moved what they set out to move": operators["moved"] == sum(map(steps_of, chosen)),
            "the API answered operators as the contract says": operators["unexpected"] == 0,
            "facts = events started + operators' moves": facts == totals["new"] + operators["moved"],
            "the lists by state hold each event once": sum(states.values()) == totals["new"],
            "the folded histories agree with the lists": folded == states,
            **({} if routed is None else routed.checks),
            "report runs: recorded = duplicate": reports["recorded"] == reports["duplicate"],
            **{
                check: holds
                for (history, text), recorded in zip(told, accounts.values(), strict=True)
                for check, holds in activity_checks(history, text, recorded=recorded).items()
            },
            **at_the_door,
        },
    )


def _read_activity(port: int, accounts: Mapping[str, int], tell: Tell) -> list[tuple[History, str]]:
    """Read the histories of accounts, given how many events each should have."""
    total = sum(accounts.values())
    told: list[tuple[History, str]] = []
    for account in accounts:
        before = sum(history.events for history, _ in told)
        told.append(read_history(port, account, partial(_tell_activity, tell, before, total)))
    return told


def _tell_activity(tell: Tell, before: int, total: int, done: int) -> None:
    tell("activity", before + done, total)


def _feed(
    folder: Path,
    port: int,
    running: Sequence[processes.Process],
    expected: Mapping[str, int],
    tell: Tell,
    *,
    whole_year: bool,
) -> _Fed:
    """Send everything, and measure reads before and while it is sent."""
    arguments = ["-m", "entrypoints.demo.feed", *(["--year"] if whole_year else [])]
    ahead = processes.feed([*arguments, "--first", str(FIRST)], folder, lambda _: None)
    processes.wait_until(lambda: _worker(folder)["done"] >= ahead["new"], running)
    event_ids = _first_ids(whole_year=whole_year)
    sent = threading.Event()
    sent.set()
    idle = read_until(port, event_ids, sent, at_least=READS)
    sent.clear()
    with ThreadPoolExecutor(1) as reader:
        reading = reader.submit(read_until, port, event_ids, sent, at_least=READS)
        start = time.monotonic()
        try:
            rest = processes.feed(
                [*arguments, "--skip", str(FIRST)],
                folder,
                lambda so_far: tell("ingesting", FIRST + so_far["sent"], expected["sent"]),
            )
        finally:
            sent.set()
        seconds = time.monotonic() - start
        during = reading.result()
    totals = {name: ahead[name] + rest[name] for name in ahead}
    return _Fed(totals=totals, idle=idle, during=during, per_second=round(rest["sent"] / seconds))


def _expected(*, whole_year: bool) -> dict[str, int]:
    """Count what the feed will send, from the flights alone."""
    seen: set[str] = set()
    counts: dict[str, int] = {"sent": 0, "new": 0, "duplicate": 0, "rejected": 0}
    for body in messages(whole_year=whole_year):
        counts["sent"] += 1
        event_id = json.loads(body)["id"]
        if event_id.startswith("broken-"):
            counts["rejected"] += 1
        else:
            counts["duplicate" if event_id in seen else "new"] += 1
            seen.add(event_id)
    return counts


def _event_ids(*, whole_year: bool) -> list[str]:
    """Give the ids of all events, in the order in which they are sent first."""
    ids = dict.fromkeys(json.loads(body)["id"] for body in messages(whole_year=whole_year))
    return [event_id for event_id in ids if not event_id.startswith("broken-")]


def _first_ids(*, whole_year: bool) -> list[str]:
    return _event_ids(whole_year=whole_year)[: FIRST * 2 // 3]


async def _read_every_history(folder: Path, tell: Tell, *, whole_year: bool) -> tuple[int, dict[str, int]]:
    """Read and fold the history of every event.

    Returns:
        How many facts there are, and how many events stand in each state.

    Raises:
        CorruptHistory: a history with a gap.
    """
    engine = open_engine(Settings(engine="sqlite", data_dir=folder))
    event_ids = _event_ids(whole_year=whole_year)
    facts = 0
    states = Counter(dict.fromkeys(DEFAULT_LIFECYCLE.states, 0))
    try:
        for number, event_id in enumerate(event_ids, start=1):
            history = (await engine.store.stream(event_id)).history
            facts += len(history)
            states.update([fold(history).state or "none"])
            tell("counting", number, len(event_ids))
    finally:
        await engine.aclose()
    return facts, dict(states)


def _worker(folder: Path) -> dict[str, int]:
    """Add up what the worker said of its batches, in its log."""
    totals: Counter[str] = Counter(received=0, done=0, duplicate=0, rejected=0, returned=0)
    for line in (folder / "worker.log").read_text().splitlines():
        if line.endswith("}") and (said := json.loads(line))["event"] == "batch":
            totals.update({name: said[name] for name in totals})
    return dict(totals)


def _told(tell: Tell, phase: str, done: int, total: int) -> bool:
    tell(phase, done, total)
    return done >= total


def _empty(folder: Path) -> None:
    """Make the folder, or remove what an earlier demo left in it."""
    marker = folder / "made-by-interlock-demo"
    if folder.exists() and any(folder.iterdir()) and not marker.exists():
        raise Misconfigured(str(folder), "is not empty and was not made by a demo; name another folder")
    end_left_over(folder / "temporal")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    marker.touch()
