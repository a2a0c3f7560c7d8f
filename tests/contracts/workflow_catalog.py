"""What every workflow catalog promises (ports/workflow_catalog.py). Subclass it and provide the `catalog` fixture."""

import asyncio
from datetime import timedelta
from typing import ClassVar

from domain.routing import MAX_WORKFLOWS, Offer
from ports.workflow_catalog import WorkflowCatalog
from tests.examples import START


def an_offer(worker: str, *workflows: str, minutes: float = 5) -> Offer:
    """Give an offer on both task queues."""
    return Offer(worker, workflows, ("events", "exports"), START + timedelta(minutes=minutes))


class WorkflowCatalogContract:
    """One class of tests an adapter."""

    adapter: ClassVar[str]

    async def test_r302_offers_come_back_as_they_were_made(self, catalog: WorkflowCatalog) -> None:
        assert await catalog.offers() == []
        offers = [
            Offer("a/1", ("AWorkflow", "Order.Placed.v2Workflow", "Ünïcode 日本Workflow"), ("events",), START),
            Offer("b", (), ("events", "exports", "third"), START + timedelta(microseconds=1)),
        ]
        for offer in reversed(offers):
            await catalog.publish(offer)
        assert await catalog.offers() == offers

    async def test_r302_a_later_offer_takes_the_place_of_the_workers_earlier_one(
        self, catalog: WorkflowCatalog
    ) -> None:
        await catalog.publish(an_offer("a", "AWorkflow", "BWorkflow"))
        await catalog.publish(an_offer("b", "AWorkflow"))
        renewed = an_offer("a", "CWorkflow", minutes=10)
        await catalog.publish(renewed)
        assert await catalog.offers() == [renewed, an_offer("b", "AWorkflow")]

    async def test_r302_workers_that_come_at_once_are_all_there(self, catalog: WorkflowCatalog) -> None:
        offers = [an_offer(f"worker-{number:02}", f"W{number}Workflow") for number in range(20)]
        async with asyncio.TaskGroup() as tasks:
            for offer in offers:
                tasks.create_task(catalog.publish(offer))
        assert await catalog.offers() == offers

    async def test_r302_a_worker_may_serve_as_much_as_one_offer_holds(self, catalog: WorkflowCatalog) -> None:
        names = tuple(f"{'x' * 120}{number:04}Workflow" for number in range(MAX_WORKFLOWS))
        for worker in ("a", "b", "c", "d", "e", "f", "g", "h"):  # more than a page of a store holds
            await catalog.publish(an_offer(worker, *names))
        assert [len(offer.workflows) for offer in await catalog.offers()] == [MAX_WORKFLOWS] * 8
