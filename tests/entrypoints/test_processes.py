"""Several processes under one: what they print goes on, however much it is, and keeps nobody waiting."""

import asyncio
import signal

import pytest

from entrypoints.grpc.processes import run_processes

pytestmark = pytest.mark.anyio

LOTS = 1_000_000
"""More than a pipe and its reader hold."""

A_TALKATIVE_ONE = f"""
import asyncio, os, signal
from entrypoints.grpc.processes import say_ready
print("printed by a module", flush=True)
print("o" * {LOTS}, flush=True)
say_ready()
print("printed by an activity", flush=True)
print("x" * {LOTS}, flush=True)
os.write(1, b"written by a library\\n")
os.kill(os.getppid(), signal.SIGUSR1)
input()
"""


async def test_what_processes_print_is_passed_on_and_holds_none_of_them_up(capfd: pytest.CaptureFixture[str]) -> None:
    stop, all_listen, printed = asyncio.Event(), asyncio.Event(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, printed.set)
    try:
        under = asyncio.create_task(run_processes([["-c", A_TALKATIVE_ONE]], stop, all_listen.set))
        async with asyncio.timeout(30):
            await all_listen.wait()
            await printed.wait()
            stop.set()
            await under
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR1)
    told = capfd.readouterr()
    assert told.out == ""
    assert [line for line in told.err.splitlines() if line.startswith(("printed", "written"))] == [
        "printed by a module",
        "printed by an activity",
        "written by a library",
    ]
    assert (told.err.count("o") >= LOTS, told.err.count("x")) == (True, LOTS)


async def test_one_that_ends_before_it_listens_ends_the_others() -> None:
    listening = "from entrypoints.grpc.processes import say_ready; say_ready(); input()"
    ready = asyncio.Event()
    commands = [["-c", listening], ["-c", "print('on my way')"]]
    async with asyncio.timeout(30):
        assert not await run_processes(commands, asyncio.Event(), ready.set)
    assert not ready.is_set()


async def test_told_to_stop_before_they_listen_they_end_without_an_error() -> None:
    stop, ready = asyncio.Event(), asyncio.Event()
    under = asyncio.create_task(run_processes([["-c", "input()"], ["-c", "input()"]], stop, ready.set))
    await asyncio.sleep(0.2)
    stop.set()
    assert await asyncio.wait_for(under, 30)
    assert not ready.is_set()


async def test_one_that_fails_when_it_is_told_to_stop_is_an_error() -> None:
    fails = """
import signal, sys
from entrypoints.grpc.processes import say_ready
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
say_ready()
signal.pause()
"""
    stop = asyncio.Event()
    async with asyncio.timeout(30):
        assert not await run_processes([["-c", fails]], stop, stop.set)
