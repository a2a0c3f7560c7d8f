"""What the workflow server says of workflows that have completed (R-304)."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Protocol

from domain.routing import Handled


class WorkflowHistory(Protocol):
    """The server's own list; it may lag behind by seconds, and forgets what is past its retention."""

    def completed(self, since: datetime, /) -> AsyncIterator[Handled]:
        """Give the routed workflows that have completed since a time, in no order; failed ones are not among them.

        Raises:
            Unavailable: no answer.
            Misconfigured: the namespace is not there, or may not be read.
        """
        ...
