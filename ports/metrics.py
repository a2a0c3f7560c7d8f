"""Counters and timings."""

from typing import Protocol


class Metrics(Protocol):
    """Where figures go. Names are `snake_case` with their unit; labels have few values each."""

    def count(self, name: str, amount: int = 1, /, **labels: str) -> None:
        """Add to a counter."""
        ...

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        """Record one measurement, such as a duration in seconds."""
        ...
