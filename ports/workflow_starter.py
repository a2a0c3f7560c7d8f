"""Starting workflows, each once (R-304; ADR 0011)."""

from typing import Protocol

from domain.routing import Started, StartRequest


class WorkflowStarter(Protocol):
    """A server that runs workflows, and takes each id once."""

    async def start(self, request: StartRequest, seconds: float, /) -> Started:
        """Ask once for a workflow to be started, without a look before; the server takes an id once.

        | the last run under this id | answer |
        |---|---|
        | there is none | a new run |
        | runs, also after it continued as new | not new: that run |
        | completed | not new: that run |
        | failed, timed out, was terminated or cancelled | a new run |
        | was started by this very request (`start_id`), whose answer was lost | that run, as new |

        Args:
            request: what to start.
            seconds: how long an answer is waited for at most.

        Raises:
            Unavailable: no answer, or asked to slow down; the start may have taken place, and asking again is safe.
            TooLarge: the event does not fit; where we can tell, before anything is sent (FC-18).
            Invalid: the server refuses the request.
            Misconfigured: the namespace is not there, the key opens nothing, or the server is of another kind.
        """
        ...
