"""The workflow catalog in this process's memory (ports/workflow_catalog.py)."""

from domain.routing import Offer


class MemoryCatalog:
    """Offers in a dict."""

    def __init__(self) -> None:
        """Start empty."""
        self._offers: dict[str, Offer] = {}

    async def publish(self, offer: Offer, /) -> None:
        """Put a worker's offer in the place of its earlier one."""
        self._offers[offer.worker] = offer

    async def offers(self) -> list[Offer]:
        """Give the offers."""
        return [self._offers[worker] for worker in sorted(self._offers)]
