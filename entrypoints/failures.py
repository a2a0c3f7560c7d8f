"""How a failure is told in logs: by code and reason, never with content."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from domain.errors import InterlockError

if TYPE_CHECKING:
    from domain.intake import Rejection


def code_of(error: BaseException) -> str:
    """Give the stable code of an error; the class's name where it is none of ours."""
    return error.code if isinstance(error, InterlockError) else type(error).__name__


def reason_of(error: BaseException) -> str:
    """Say why. The text of an error that is not ours may quote content, so only its place in the code is told."""
    if isinstance(error, InterlockError):
        return str(error)
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if place is None:
        return "a fault in the code"
    return f"a fault in the code: {Path(place.tb_frame.f_code.co_filename).name}, line {place.tb_lineno}"


def rejection_fields(message_id: str, rejections: "Sequence[Rejection]") -> dict[str, str | int]:
    """Give what a log line says of a message with broken events: the first of them, and how many there are."""
    first = rejections[0]
    return {
        "message_id": message_id,
        "code": first.code,
        "stage": first.stage,
        "reason": first.without_content(),
        "rejections": len(rejections),
    }


@contextmanager
def one_error() -> Iterator[None]:
    """Let the first error of a task group out by itself: the others are what it stopped."""
    try:
        yield
    except ExceptionGroup as errors:
        error: Exception = errors
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        raise error from None
