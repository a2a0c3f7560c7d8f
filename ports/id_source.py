"""Fresh ids."""

from typing import Protocol


class IdSource(Protocol):
    """A source of ids that nobody had before."""

    def new_id(self) -> str:
        """Give a fresh id of at most 64 characters."""
        ...
