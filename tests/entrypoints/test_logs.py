"""Logs: one form for all loggers, and no secret in any of them."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from domain.errors import NotFound
from entrypoints.failures import code_of, reason_of
from entrypoints.logs import set_up


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


def test_outside_a_terminal_a_line_is_a_json_object_for_every_logger() -> None:
    stream = io.StringIO()
    set_up(stream)
    structlog.get_logger("ours").info("batch", received=3)
    logging.getLogger("uvicorn.error").warning("started in %s s", 2)
    logging.getLogger("botocore").info("chatter")
    ours, theirs = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (ours["event"], ours["received"], ours["logger"], ours["level"]) == ("batch", 3, "ours", "info")
    assert (theirs["event"], theirs["logger"], theirs["level"]) == ("started in 2 s", "uvicorn.error", "warning")
    assert ours["timestamp"].endswith("Z")


def test_on_a_terminal_a_line_is_for_people() -> None:
    stream = Terminal()
    set_up(stream)
    structlog.get_logger("ours").info("batch", received=3)
    assert not stream.getvalue().startswith("{")
    assert "batch" in stream.getvalue()


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_secrets_are_masked_wherever_they_stand(stream: io.StringIO) -> None:
    set_up(stream)
    log = structlog.get_logger("ours")
    log.warning("Bearer hunter2", password="hunter2", api_key="hunter2", url="redis://ada:hunter2@cache.example:6379")
    logging.getLogger("urllib3").warning("to https://ada:%s@sqs.example", "hunter2")
    log.error("failed", exc_info=ValueError("https://ada:hunter2@sqs.example"))
    assert "hunter2" not in stream.getvalue()
    assert sum(stream.getvalue().count(mark) for mark in ("***", "[user_info]", "[credentials]")) >= 6


def test_a_failure_of_ours_is_told_in_its_own_words() -> None:
    assert (code_of(NotFound("e1")), reason_of(NotFound("e1"))) == ("not_found", "no event 'e1'")


def test_a_fault_is_told_by_its_place_and_not_by_its_text() -> None:
    with pytest.raises(ValueError, match="Expecting") as raised:
        json.loads('{"payload": hunter2}')
    assert code_of(raised.value) == "JSONDecodeError"
    assert reason_of(raised.value).startswith("a fault in the code: decoder.py, line ")
    assert reason_of(ValueError("hunter2")) == "a fault in the code"
