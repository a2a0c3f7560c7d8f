"""Ids that count up: fresh within one process, and the same in every run."""

from itertools import count


class CountingIds:
    """Ids of the form `id-1`."""

    def __init__(self) -> None:
        """Start at 1."""
        self._numbers = count(1)

    def new_id(self) -> str:
        """Give the next id."""
        return f"id-{next(self._numbers)}"
