"""Random ids."""

from uuid import uuid4


class RandomIds:
    """Version 4 UUIDs (RFC 9562 § 5.4)."""

    def new_id(self) -> str:
        """Give a fresh id of 36 characters."""
        return str(uuid4())
