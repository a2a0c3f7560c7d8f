"""Which workflows exist: workers say what they serve, the router reads it (R-302; ADR 0012)."""

from typing import Protocol

from domain.routing import Offer


class WorkflowCatalog(Protocol):
    """The offers of all workers. Every method may raise `Unavailable`."""

    async def publish(self, offer: Offer, /) -> None:
        """Put a worker's offer in the place of its earlier one."""
        ...

    async def offers(self) -> list[Offer]:
        """Give the offers, up to date, in the order of the workers' ids. Some may have ended: see `domain.routing`."""
        ...
