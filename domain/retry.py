"""Retry rules as values: how often, how long to wait, and which failures are worth it. Sleeping is the caller's job.

**gRPC status codes** (R-305), as `classify` judges them for a call that starts something under an id of its own:

    status                 verdict           why
    CANCELLED              retry             a client-side time limit arrives as this; nobody cancelled
    UNKNOWN                retry             a fault that nobody named may pass
    DEADLINE_EXCEEDED      retry             the call may have taken place: the id says so next time
    ABORTED                retry             lost a race inside the server
    INTERNAL               retry             a fault of the server's own
    UNAVAILABLE            retry             not there, or going away
    RESOURCE_EXHAUSTED     retry             asked to slow down …
                           too large         … unless its text speaks of a size (FC-18): that never fits
    INVALID_ARGUMENT       give up           the request is wrong …
                           too large         … or too large
    OUT_OF_RANGE           give up           …
                           too large         … and is what the client library says of a message over its own limit
    ALREADY_EXISTS         already started   the id was taken: what was asked for is there
    NOT_FOUND              give up           no such namespace
    PERMISSION_DENIED      give up           the key may not do that
    UNAUTHENTICATED        give up           there is no key, or it opens nothing
    FAILED_PRECONDITION    give up           somebody must change something first
    UNIMPLEMENTED          give up           another kind of server, or too old
    DATA_LOSS              give up           lost for good
    OK                     give up           no failure at all: whoever asks has a fault

Any other name is a code that gRPC may add: `retry`, within the bound that every rule has.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

from domain.errors import Misconfigured

Verdict = Literal["retry", "give_up", "too_large", "already_started"]

_GIVE_UP: Final = frozenset(
    {
        "OK",
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "PERMISSION_DENIED",
        "FAILED_PRECONDITION",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    }
)
_MAY_BE_SIZE: Final = frozenset({"RESOURCE_EXHAUSTED", "INVALID_ARGUMENT", "OUT_OF_RANGE"})
# What grpc-go, grpc-core, tonic and Temporal say of messages, payloads and memos over their limits.
_SIZE: Final = re.compile(
    r"larger than max|length too large|(?:size|length|blob\w*|payload\w*|memo) \S*\s?exceeds|too large", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class RetryRule:
    """Exponential backoff with full jitter and a bound.

    Attributes:
        attempts: how often to try at all, the first time included.
        base: seconds of the first wait, before jitter.
        ceiling: seconds that no wait exceeds.

    Raises:
        Misconfigured: for a rule that would never try, or would wait backwards.
    """

    attempts: int = 5
    base: float = 0.05
    ceiling: float = 2.0

    def __post_init__(self) -> None:
        """Refuse a rule that cannot work."""
        if self.attempts < 1:
            raise Misconfigured("attempts", "must be at least 1")
        if not 0 <= self.base <= self.ceiling:
            raise Misconfigured("base", "must lie between 0 and the ceiling")

    def wait(self, attempt: int, spread: float) -> float | None:
        """Say how long to wait after a failed attempt.

        Args:
            attempt: the number of the attempt that failed, from 1.
            spread: a random number from 0 to 1, drawn by the caller.

        Returns:
            Seconds, or None when no attempt is left.
        """
        if attempt >= self.attempts:
            return None
        return spread * min(self.ceiling, self.base * 2.0 ** min(attempt - 1, 64))

    def wait_within(self, attempt: int, spread: float, remaining: float) -> float | None:
        """Say how long to wait after a failed attempt, where time runs out (R-305).

        Args:
            attempt: the number of the attempt that failed, from 1.
            spread: a random number from 0 to 1, drawn by the caller.
            remaining: seconds that are left for waiting and for the next attempt.

        Returns:
            Seconds, or None when no attempt is left, or no time for one after the wait.
        """
        seconds = self.wait(attempt, spread)
        return None if seconds is None or seconds >= remaining else seconds


def classify(status: str, message: str) -> Verdict:
    """Judge a failed gRPC call by the table above.

    Args:
        status: the name of its code, such as `UNAVAILABLE`.
        message: its text; never repeated, only looked at for what the code does not say.
    """
    if status == "ALREADY_EXISTS":
        return "already_started"
    if status in _MAY_BE_SIZE and _SIZE.search(message):
        return "too_large"
    return "give_up" if status in _GIVE_UP else "retry"
