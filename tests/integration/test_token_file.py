import asyncio
import contextlib
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from adapters.file import token_file
from adapters.file.token_file import TokenFile, add_token, list_tokens
from domain.access import IssuedToken, Scope, issue_token, read_tokens
from domain.errors import Misconfigured, Unauthenticated, Unavailable
from tests.examples import START


def a_token(number: int = 1, scope: Scope = "view") -> IssuedToken:
    return issue_token(f"caller {number}", [scope], START + timedelta(days=1), bytes([number]) * 40)


def who(tokens: TokenFile, token: IssuedToken) -> str:
    """Give the name that a token is known by."""
    return asyncio.run(tokens.identify(token.text, START)).name


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """A path for the file, in a folder where nothing else may be left over."""
    yield tmp_path / "tokens.json"
    assert {file.name for file in tmp_path.iterdir()} <= {"tokens.json"}


def test_a_token_added_to_the_file_is_known(path: Path) -> None:
    token = a_token()
    add_token(path, token.record)
    assert who(TokenFile(path), token) == "caller 1"


def test_the_file_is_for_its_owner_only_and_holds_no_secret(path: Path) -> None:
    token = a_token()
    before = os.umask(0)
    try:
        add_token(path, token.record)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert token.text.get_secret_value()[21:] not in path.read_text()


def test_changes_count_at_once(path: Path) -> None:
    """Adding, revoking and giving back a token need no restart."""
    first, second = a_token(1), a_token(2)
    add_token(path, first.record)
    tokens = TokenFile(path)
    who(tokens, first)
    with pytest.raises(Unauthenticated):
        who(tokens, second)
    add_token(path, second.record)
    assert who(tokens, second) == "caller 2"
    path.write_text("[]")
    for token in (first, second):
        with pytest.raises(Unauthenticated):
            who(tokens, token)


def test_an_unchanged_file_is_not_read_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = a_token()
    add_token(path, token.record)
    tokens = TokenFile(path)
    who(tokens, token)
    reads: list[bytes] = []
    monkeypatch.setattr(token_file, "read_tokens", reads.append)
    assert who(tokens, token) == "caller 1"
    assert reads == []


@pytest.mark.parametrize("content", [None, "", "{}", '[{"id": "x"}]', "[] []", "\ufeff[]"])
def test_a_file_that_cannot_be_read_lets_nobody_in(path: Path, content: str | None) -> None:
    """Fails closed, also for tokens that were good a moment ago."""
    token = a_token()
    add_token(path, token.record)
    tokens = TokenFile(path)
    who(tokens, token)
    path.unlink()
    if content is not None:
        path.write_text(content)
    for _ in range(2):
        with pytest.raises(Unavailable) as refusal:
            who(tokens, token)
        assert str(path) not in str(refusal.value)
        with pytest.raises(Unavailable):
            asyncio.run(tokens.check())
    path.unlink(missing_ok=True)
    add_token(path, token.record)
    asyncio.run(tokens.check())
    assert who(tokens, token) == "caller 1"


def test_a_folder_in_its_place_lets_nobody_in(path: Path) -> None:
    path.mkdir()
    with pytest.raises(Unavailable):
        who(TokenFile(path), a_token())


def test_tokens_added_at_the_same_time_are_all_kept(path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(add_token, path, a_token(number).record) for number in range(24)]:
            done.result()
    assert len(read_tokens(path.read_bytes())) == 24


def test_a_file_of_something_else_is_left_alone(path: Path) -> None:
    path.write_text('{"my": "notes"}')
    with pytest.raises(Misconfigured, match="not a tokens file"):
        add_token(path, a_token().record)
    assert path.read_text() == '{"my": "notes"}'


def test_a_missing_folder_is_named_as_the_reason(tmp_path: Path) -> None:
    folder = tmp_path / "nowhere"
    with pytest.raises(Misconfigured, match=f"^{folder}/tokens.json: does not exist; make {folder} first$"):
        add_token(folder / "tokens.json", a_token().record)


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_regular_file_lets_nobody_in_and_is_not_waited_for(make: Callable[[Path], None], path: Path) -> None:
    make(path)
    with pytest.raises(Unavailable, match="must be a regular file"):
        who(TokenFile(path), a_token())
    for command in (list_tokens, lambda path: add_token(path, a_token().record)):
        with pytest.raises(Misconfigured, match=f"^{path}: is not a tokens file: it must be a regular file"):
            command(path)
    handles = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(Misconfigured):
        list_tokens(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == handles


class HungDisk:
    """A disk that does not answer until it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks = 0
        self.asked = threading.Event()
        self.answers = threading.Event()
        look = Path.stat

        def stat_when_told(path: Path, **how: bool) -> os.stat_result:
            self.looks += 1
            self.asked.set()
            self.answers.wait(20)
            return look(path, **how)

        monkeypatch.setattr(Path, "stat", stat_when_told)


async def refused(tokens: TokenFile, token: IssuedToken) -> float:
    """See that the disk's silence refuses a token, and give the seconds that it took."""
    begin = time.monotonic()
    with pytest.raises(Unavailable, match="its disk does not answer"):
        await tokens.identify(token.text, START)
    return time.monotonic() - begin


@pytest.mark.anyio
async def test_a_disk_that_hangs_refuses_everybody_and_stops_nobody_else(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is there waits for a bounded time, whoever comes later not at all, and all is well once it answers."""
    token = a_token()
    add_token(path, token.record)
    tokens = TokenFile(path, patience_seconds=0.2)
    assert (await tokens.identify(token.text, START)).name == "caller 1"
    disk = HungDisk(monkeypatch)
    waiting = [asyncio.create_task(refused(tokens, token)) for _ in range(50)]
    await asyncio.sleep(0)  # the loop goes on: the disk would hold it here
    assert not any(task.done() for task in waiting)
    assert all(0.1 < seconds < 5 for seconds in await asyncio.gather(*waiting))
    assert await refused(tokens, token) < 0.1
    assert disk.looks == 1
    disk.answers.set()
    async with asyncio.timeout(10):
        while True:
            with contextlib.suppress(Unavailable):
                assert (await tokens.identify(token.text, START)).name == "caller 1"
                break
            await asyncio.sleep(0.01)


@pytest.mark.anyio
async def test_one_look_answers_all_who_wait_and_each_sees_what_was_there_when_it_asked(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = a_token()
    add_token(path, token.record)
    tokens = TokenFile(path)
    disk = HungDisk(monkeypatch)
    first = asyncio.create_task(tokens.identify(token.text, START))
    assert await asyncio.to_thread(disk.asked.wait, 10)
    others = [asyncio.create_task(tokens.identify(token.text, START)) for _ in range(50)]
    await asyncio.sleep(0)
    disk.answers.set()
    callers = await asyncio.gather(first, *others)
    assert {caller.name for caller in callers} == {"caller 1"}
    assert disk.looks <= 3
