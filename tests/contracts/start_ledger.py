"""What every start ledger promises (ports/start_ledger.py). Subclass it and provide the `ledger` fixture."""

from datetime import timedelta
from typing import ClassVar

from domain.routing import Handled
from ports.start_ledger import StartLedger
from tests.examples import START


def handled(workflow_id: str, run_id: str = "run-1", *, days: float = 0) -> Handled:
    """Give a completed workflow."""
    return Handled(workflow_id, run_id, START + timedelta(days=days))


class StartLedgerContract:
    """One class of tests an adapter."""

    adapter: ClassVar[str]

    async def test_r304_what_was_recorded_is_found_and_nothing_else(self, ledger: StartLedger) -> None:
        assert await ledger.find("AWorkflow-1") is None
        odd = Handled("Ünï日本-~x" + "y" * 200, "run-2", START + timedelta(microseconds=123456))
        await ledger.record([handled("AWorkflow-1"), odd])
        assert await ledger.find("AWorkflow-1") == handled("AWorkflow-1")
        assert await ledger.find(odd.workflow_id) == odd
        for other in ("aworkflow-1", "AWorkflow-", "AWorkflow-1 ", "-", "swept"):
            assert await ledger.find(other) is None

    async def test_r304_recording_again_changes_nothing_and_many_are_taken_at_once(self, ledger: StartLedger) -> None:
        many = [handled(f"AWorkflow-{number}", f"run-{number}") for number in range(120)]
        await ledger.record([])
        await ledger.record([*many, *many[:10]])
        await ledger.record(many[50:])
        assert [await ledger.find(one.workflow_id) for one in many[::17]] == many[::17]

    async def test_r304_it_remembers_for_over_a_year(self, ledger: StartLedger) -> None:
        await ledger.record([handled("AWorkflow-old")])
        for year in range(3):
            await ledger.record([handled(f"AWorkflow-{year}-{number}", days=399) for number in range(5)])
        assert await ledger.find("AWorkflow-old") == handled("AWorkflow-old")

    async def test_r304_the_time_of_the_last_sweep_only_moves_on(self, ledger: StartLedger) -> None:
        assert await ledger.swept_until() is None
        for seconds in (10, 5, 10, 20, 0):
            await ledger.note_swept(START + timedelta(seconds=seconds))
        assert await ledger.swept_until() == START + timedelta(seconds=20)
        assert await ledger.find("AWorkflow-1") is None
