"""kill -9 at any moment of ingestion or transition, and restart: no accepted event lost, none twice (R-602, R-102)."""

import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from application.ingest import ingest
from application.move import apply_message, move
from domain.lifecycle import Move, fold
from domain.messages import EventIngested, read_message
from tests.examples import an_envelope
from tests.integration.sqlite_process import BATCH, ENTITIES, PING_PONG, VISIBILITY_SECONDS, opened

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
KILLS = 10
LONGEST_RUN = 0.15


def run_and_kill(seconds: float, *arguments: object) -> list[str]:
    """Run a process of its own, kill it some time after its first line, and give the whole lines that it printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.sqlite_process", *map(str, arguments)],
        cwd=ROOT,
        bufsize=0,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(seconds)
        assert process.poll() is None, "it must not end by itself"
    finally:
        process.kill()
        rest, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (-9, b"")
    return (first + rest).decode().splitlines()


def run_at_once(argument_lists: list[list[str]]) -> dict[str, list[str]]:
    """Run processes that start together once all are ready; give the words that they printed, by their first."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.integration.sqlite_process", *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for arguments in argument_lists
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        outputs = [process.communicate(timeout=30) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [errors for _, errors in outputs] == [""] * len(processes)
    return {line.split()[0]: line.split()[1:] for output, _ in outputs for line in output.splitlines()}


def assert_sound(folder: Path) -> None:
    for name in ("events.db", "queues.db"):
        connection = sqlite3.connect(folder / name)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)], name
        connection.close()


async def test_r602_ingestion_killed_ten_times_loses_and_doubles_nothing(tmp_path: Path) -> None:
    chance = random.Random(20130101)
    accepted: list[str] = []
    for _ in range(KILLS):
        # What was not answered is sent again, as any client does.
        accepted += run_and_kill(chance.uniform(0, LONGEST_RUN), "ingest", tmp_path, len(accepted))
        assert_sound(tmp_path)
    assert len(accepted) > KILLS * BATCH, "it must have been at work when it was killed"
    assert accepted == [f"e{number}" for number in range(len(accepted))]

    async with opened(tmp_path) as (platform, queue):
        answers = await ingest(platform, [an_envelope(event_id) for event_id in accepted])
        assert {getattr(answer, "outcome", answer) for answer in answers} == {"duplicate"}
        notified: list[str] = []
        order: dict[str, list[int]] = {}
        while batch := await queue.receive(100, 0):
            assert await queue.delete(batch) == []
            for received in batch:
                message = read_message(received.body)
                assert isinstance(message, EventIngested)
                notified.append(message.event.id)
                order.setdefault(received.group_id or "", []).append(int(message.event.id[1:]))
        assert max(Counter(notified).values()) == 1, "nothing is notified twice"
        assert not set(accepted) - set(notified), "nothing accepted is lost"
        unanswered = set(notified) - set(accepted)
        assert len(unanswered) <= BATCH, "at most the last batch was taken without an answer"
        assert set(order) == {f"N{number}" for number in range(ENTITIES)}
        assert all(numbers == sorted(numbers) for numbers in order.values()), "each entity's order is kept"


async def test_r602_transitions_killed_ten_times_lose_and_double_nothing(tmp_path: Path) -> None:
    chance = random.Random(20131231)
    ids = [f"e{number}" for number in range(800)]
    async with opened(tmp_path) as (platform, _):
        await ingest(platform, [an_envelope(event_id, entity=f"N{event_id}") for event_id in ids])
    said: list[tuple[str, str]] = []
    for _ in range(KILLS):
        lines = run_and_kill(chance.uniform(0.02, LONGEST_RUN), "work", tmp_path)
        said += [(line.split()[0], line.split()[1]) for line in lines if line != "up"]
        assert_sound(tmp_path)
    assert len(set(said)) > KILLS, "it must have been at work when it was killed"

    async with opened(tmp_path) as (platform, queue):
        for event_id, to in set(said):
            history = (await platform.store.stream(event_id)).history
            assert [fact.to_state for fact in history].count(to) == 1, "an answered move is there, once"
        while batch := await queue.receive(100, 5 * VISIBILITY_SECONDS):
            for received in batch:
                message = read_message(received.body)
                await apply_message(platform, message)
                assert isinstance(message, EventIngested)
                await move(platform, Move(message.event.id, "", "open", "ada", f"open-{message.event.id}"))
            assert await queue.delete(batch) == []
        for event_id in ids:
            stream = await platform.store.stream(event_id)
            assert [fact.to_state for fact in stream.history] == ["to_review", "open"]
            assert stream.head is not None
            assert (stream.head.state, stream.head.sequence) == fold(stream.history)[:2]
            assert not stream.missed
    assert_sound(tmp_path)


async def test_r104_sixteen_writers_in_four_processes_leave_one_gap_free_history(tmp_path: Path) -> None:
    async with opened(tmp_path, PING_PONG) as (platform, _):
        await ingest(platform, [an_envelope("e0")])
        await apply_message(platform, EventIngested(an_envelope("e0")))
    writers, moves = 4, 8
    told = run_at_once([["race", str(tmp_path), name, str(writers), str(moves)] for name in "abcd"])
    assert len(told) == 4 * writers * moves, "each writer is answered for each attempt"

    async with opened(tmp_path) as (platform, _):
        stream = await platform.store.stream("e0")
    assert [fact.sequence for fact in stream.history] == list(range(1, len(stream.history) + 1))
    fold(stream.history)
    happened = {fact.command_id: ["Accepted", str(fact.sequence)] for fact in stream.history[1:]}
    assert happened == {command_id: answer for command_id, answer in told.items() if answer[0] == "Accepted"}
    refused = [answer for answer in told.values() if answer[0] != "Accepted"]
    assert {answer[0] for answer in refused} <= {"move_rejected", "contention"}
    assert len({fact.actor[0] for fact in stream.history[1:]}) > 1, "more than one process must have won"
