import asyncio
import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from adapters.file.token_file import TokenFile, add_token
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
    monkeypatch.setattr(Path, "open", lambda *_: pytest.fail("read again"))
    assert who(tokens, token) == "caller 1"


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
    with pytest.raises(Misconfigured, match="No such file or directory"):
        add_token(tmp_path / "nowhere" / "tokens.json", a_token().record)
