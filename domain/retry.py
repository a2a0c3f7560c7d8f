"""Retry rules as a value: how often, and how long to wait. Sleeping is the caller's job."""

from dataclasses import dataclass

from domain.errors import Misconfigured


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
