"""Nobody who shows something can forget to redact it: logs and error texts mask, and payloads have one reader (R-403).

`test_planted_secrets.py` walks the read paths from outside; this holds what they stand on.
"""

import ast
import io
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import assume, given, settings

from domain.errors import InterlockError, Invalid, MoveRejected, NotFound, Unavailable
from entrypoints.failures import reason_of
from entrypoints.logs import mask, set_up
from tests.secrets import FORMS, PLACES, planted

ROOT = Path(__file__).parents[2]
READERS_OF_ROWS = {"application/activity.py", "application/activity_history.py"}
"""Who may see what a row holds: one records, one redacts. Stores write and read rows, and see them sealed."""


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


def trees(*layers: str) -> Iterator[tuple[str, ast.AST]]:
    for layer in layers:
        for path in sorted((ROOT / layer).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))


def test_r403_only_the_reader_that_redacts_opens_what_a_row_holds() -> None:
    openers = {
        name
        for name, tree in trees("application", "entrypoints")
        for node in ast.walk(tree)
        if (isinstance(node, ast.Name) and node.id == "unsealed")
        or (isinstance(node, ast.Attribute) and node.attr == "unsealed")
    }
    assert openers
    assert openers <= READERS_OF_ROWS


def test_r403_no_entrypoint_reads_rows_or_payloads_itself() -> None:
    reads = {
        f"{name}: {ast.unparse(node)}"
        for name, tree in trees("entrypoints")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("store.find", "payloads.get"))
    }
    assert reads == set()


FORM_EXAMPLES = {
    "email": "ada@example.com",
    "phone": "+49 151 1234567",
    "card": "4111 1111 1111 1111",
    "iban": "DE89370400440532013000",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
    "aws_id": "AKIAIOSFODNN7EXAMPLE",
    "aws_secret": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
}
SECRETS = [*FORM_EXAMPLES.values(), *(place.format("s3cr3tAbC9") for place in PLACES)]


@pytest.mark.parametrize("secret", SECRETS)
def test_fc29_logs_show_no_secret_wherever_it_stands(secret: str) -> None:
    stream = io.StringIO()
    set_up(stream)
    hidden = "s3cr3tAbC9" if "s3cr3tAbC9" in secret else secret
    log = structlog.get_logger("ours")
    event = f"event: {secret}"
    log.warning(event, value=secret, deep={"list": [secret]}, items=[secret], password=hidden)
    logging.getLogger("uvicorn.error").warning("started with %s", secret)
    log.error("failed", exc_info=ValueError(secret))
    assert stream.getvalue().count("\n") == 3
    assert hidden not in stream.getvalue()


@pytest.mark.parametrize("secret", SECRETS)
def test_fc29_error_texts_show_no_secret_once_they_are_told(secret: str) -> None:
    """An error of ours names ids and places, which may be personal; one of others is told by its place alone."""
    hidden = "s3cr3tAbC9" if "s3cr3tAbC9" in secret else secret
    errors: list[InterlockError] = [
        NotFound(secret),
        Invalid(f"data.{secret}", f"is {secret}"),
        Unavailable("store", f"no answer; {secret}"),
        MoveRejected(secret, "closed", f"no such move; {secret}", None, ()),
    ]
    for error in errors:
        assert hidden not in mask(reason_of(error))
    nothing: dict[str, str] = {}
    with pytest.raises(KeyError) as raised:
        nothing[secret]
    assert hidden not in reason_of(raised.value)


@settings(deadline=None, max_examples=60)
@given(planted())
def test_fc29_logged_values_show_no_planted_secret(case: tuple[str, object]) -> None:
    secret, value = case
    assume(not re.fullmatch(r"[0-9a-f.:]+", secret))  # IP addresses are masked by option
    stream = io.StringIO()
    set_up(stream)
    structlog.get_logger("ours").info("seen", value=value)
    assert max(secret.split("\n"), key=len) not in stream.getvalue()


def test_the_examples_are_of_the_kinds_that_are_planted() -> None:
    assert set(FORM_EXAMPLES) <= set(FORMS)
