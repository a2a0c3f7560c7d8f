import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from application.ingest import ingest
from application.move import apply_message, move, note_dead_letter
from application.queries import list_events, show
from domain.errors import Contention, Invalid, MoveRejected, NotFound, Unavailable, VersionConflict
from domain.event import Head, ListQuery, event_ids
from domain.lifecycle import Accepted, Duplicate, LifecycleDefinition, Move, Transition, fold
from domain.messages import EventIngested, TransitionRequested
from domain.retry import RetryRule
from tests.examples import START, STATES, an_envelope
from tests.platforms import Machine, WatchedStore, a_machine

pytestmark = pytest.mark.anyio


def ask(to: str, command_id: str, **more: Any) -> Move:
    return Move(more.pop("event_id", "e1"), more.pop("entity", ""), to, "ada", command_id, **more)


def request(
    to: str = "open", command_id: str = "c1", event_id: str = "e1", entity: str = "N14228"
) -> TransitionRequested:
    return TransitionRequested(
        event_id=event_id,
        entity=entity,
        to=to,
        actor="ada",
        command_id=command_id,
        requested_at="2026-01-01T10:00:00Z",
    )


async def started(machine: Machine, *event_ids: str) -> Machine:
    await ingest(machine.platform, [an_envelope(event_id) for event_id in event_ids or ("e1",)])
    await machine.drain()
    return machine


async def states_of(machine: Machine, event_id: str = "e1") -> list[str]:
    stream = await machine.store.stream(event_id)
    status = fold(stream.history)
    head = stream.head
    assert (head and head.state, head.sequence if head else 0, head and head.since) == status
    return [fact.to_state for fact in stream.history]


async def test_r101_an_event_moves_through_its_lifecycle_to_the_end() -> None:
    machine = await started(a_machine())
    for number, to in enumerate(STATES[1:]):
        machine.clock.advance(60)
        decision = await move(machine.platform, ask(to, f"c{number}", reason="because"))
        assert decision == Accepted(
            Transition(
                "e1", "N14228", STATES[number], to, machine.clock.now(), "ada", "because", f"c{number}", number + 2
            )
        )
    assert await states_of(machine) == list(STATES)
    assert machine.metrics.total("moves_total", outcome="accepted") == 4


async def test_r101_a_rejection_names_the_moves_that_are_legal_now() -> None:
    machine = await started(a_machine())
    with pytest.raises(MoveRejected) as caught:
        await move(machine.platform, ask("closed", "c1"))
    assert (caught.value.current_state, caught.value.legal_moves, caught.value.to) == ("to_review", ("open",), "closed")
    assert "legal now: open" in str(caught.value)
    assert not caught.value.reused
    for number, to in enumerate(STATES[1:]):
        await move(machine.platform, ask(to, f"step-{number}"))
    with pytest.raises(MoveRejected, match="nothing: the state is terminal") as ended:
        await move(machine.platform, ask("open", "c2"))
    assert (ended.value.current_state, ended.value.legal_moves) == ("closed", ())
    assert machine.metrics.total("moves_total", outcome="rejected") == 2
    assert (await machine.store.stream("e1")).missed == ()


async def test_r104_an_operator_who_saw_another_state_is_refused() -> None:
    machine = await started(a_machine())
    await move(machine.platform, ask("open", "c1", expected_state="to_review"))
    with pytest.raises(MoveRejected, match="is in state 'open', not 'to_review'") as caught:
        await move(machine.platform, ask("scheduled", "c2", expected_state="to_review"))
    assert caught.value.legal_moves == ("scheduled",)
    assert await states_of(machine) == ["to_review", "open"]


async def test_r110_a_repeated_command_gets_the_same_transition_again() -> None:
    machine = await started(a_machine())
    first = await move(machine.platform, ask("open", "c1"))
    await move(machine.platform, ask("scheduled", "c2"))
    assert isinstance(first, Accepted)
    assert await move(machine.platform, ask("open", "c1", expected_state="to_review")) == Duplicate(first.transition)
    assert await states_of(machine) == ["to_review", "open", "scheduled"]


async def test_r110_a_command_id_that_did_something_else_is_refused() -> None:
    machine = await started(a_machine())
    await move(machine.platform, ask("open", "c1"))
    with pytest.raises(MoveRejected) as caught:
        await move(machine.platform, ask("scheduled", "c1"))
    assert caught.value.reused


async def test_an_event_is_unknown_pending_or_of_another_entity() -> None:
    machine = a_machine()
    with pytest.raises(NotFound) as unknown:
        await move(machine.platform, ask("open", "c1"))
    assert unknown.value.event_id == "e1"
    await ingest(machine.platform, [an_envelope()])
    with pytest.raises(MoveRejected, match="is ingested but not started yet") as pending:
        await move(machine.platform, ask("to_review", "c1"))
    assert (pending.value.current_state, pending.value.legal_moves) == (None, ())
    await machine.drain()
    with pytest.raises(MoveRejected, match="belongs to entity 'N14228', not 'other'") as foreign:
        await move(machine.platform, ask("open", "c1", entity="other"))
    assert foreign.value.legal_moves == ("open",)
    assert await states_of(machine) == ["to_review"]


async def test_r104_sixteen_operators_ask_for_one_move_and_each_is_told_the_truth() -> None:
    machine = await started(a_machine(WatchedStore()))
    told: dict[int, object] = {}

    async def operator(number: int) -> None:
        try:
            decision = await move(machine.platform, ask("open", f"c{number}"))
        except MoveRejected as refused:
            told[number] = (refused.current_state, refused.legal_moves)
        else:
            told[number] = decision

    async with asyncio.TaskGroup() as tasks:
        for number in range(16):
            tasks.create_task(operator(number))
    assert sorted(told) == list(range(16))
    history = (await machine.store.stream("e1")).history
    assert await states_of(machine) == ["to_review", "open"]
    truth = [
        Accepted(history[1]) if f"c{number}" == history[1].command_id else ("open", ("scheduled",))
        for number in range(16)
    ]
    assert [told[number] for number in range(16)] == truth


async def test_r104_sixteen_writers_on_a_loop_leave_one_gap_free_history() -> None:
    """Every move is legal somewhere, so all writers win in turn; nobody is told of a fact that is not there."""
    loop = LifecycleDefinition(
        name="loop",
        initial="to_review",
        terminal=frozenset({"closed"}),
        moves={"to_review": ("to_review", "closed"), "closed": ()},
    )
    store = WatchedStore()
    machine = await started(
        a_machine(store, definition=loop, contention=RetryRule(attempts=200, base=0.001, ceiling=0.01))
    )
    won: list[Transition] = []

    async def writer(number: int) -> None:
        for step in range(3):
            decision = await move(machine.platform, ask("to_review", f"c{number}-{step}"))
            assert isinstance(decision, Accepted)
            won.append(decision.transition)

    async with asyncio.TaskGroup() as tasks:
        for number in range(16):
            tasks.create_task(writer(number))
    history = (await store.stream("e1")).history
    assert len(await states_of(machine)) == 1 + 48
    assert sorted(won, key=lambda fact: fact.sequence) == list(history[1:])
    assert store.calls["append"] > 49


class ContestedStore(WatchedStore):
    """A store in which somebody else always wins."""

    async def append(self, head: Head, facts: Sequence[Transition], /) -> None:
        self.calls["append"] += 1
        raise VersionConflict(head.event_id, facts[0].sequence - 1)


async def test_r104_contention_is_bounded_and_told() -> None:
    source = await started(a_machine())
    store = ContestedStore()
    vars(store).update({name: value for name, value in vars(source.store).items() if name != "calls"})
    machine = a_machine(store, contention=RetryRule(attempts=7, base=0.5, ceiling=2))
    with pytest.raises(Contention) as caught:
        await move(machine.platform, ask("open", "c1"))
    assert (caught.value.event_id, caught.value.attempts) == ("e1", 7)
    assert (store.calls["append"], store.calls["stream"]) == (7, 7)
    assert timedelta(0) < machine.clock.now() - START <= timedelta(seconds=0.5 + 1 + 2 * 4)


class DeafStore(WatchedStore):
    """A store whose first answer to an append is lost: the facts are written, and the writer hears `error`.

    Attributes:
        error: what the writer hears; None once it was raised.
        intruder: a transition that somebody else appends in between.
    """

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None
        self.intruder: Transition | None = None

    async def append(self, head: Head, facts: Sequence[Transition], /) -> None:
        await super().append(head, facts)
        if self.error is None:
            return
        if self.intruder is not None:
            moved = head._replace(state=self.intruder.to_state, sequence=self.intruder.sequence, since=self.intruder.at)
            await super().append(moved, [self.intruder])
        error, self.error = self.error, None
        raise error


@pytest.mark.parametrize("intruded", [False, True])
async def test_r104_a_writer_whose_answer_was_lost_recognises_its_own_fact(*, intruded: bool) -> None:
    """The driver repeats a write whose answer was lost and meets its own fact: that is no conflict."""
    store = DeafStore()
    machine = await started(a_machine(store))
    store.error = VersionConflict("e1", 1)
    if intruded:
        store.intruder = Transition("e1", "N14228", "open", "scheduled", START, "bob", None, "other", 3)
    decision = await move(machine.platform, ask("open", "c1"))
    assert isinstance(decision, Accepted)
    assert (decision.transition.command_id, decision.transition.sequence) == ("c1", 2)
    assert await states_of(machine) == list(STATES[: 3 if intruded else 2])


async def test_r110_a_move_with_an_unknown_end_is_repeated_under_its_command_id() -> None:
    store = DeafStore()
    machine = await started(a_machine(store))
    store.error = Unavailable("event store", "timed out")
    with pytest.raises(Unavailable):
        await move(machine.platform, ask("open", "c1"))
    again = await move(machine.platform, ask("open", "c1"))
    assert again == Duplicate((await store.stream("e1")).history[1])
    assert await states_of(machine) == ["to_review", "open"]


async def test_fc52_under_a_frozen_clock_both_changes_are_kept_and_a_copy_is_one() -> None:
    machine = await started(a_machine())
    await move(machine.platform, ask("open", "c1"))
    await move(machine.platform, ask("scheduled", "c2"))
    await move(machine.platform, ask("scheduled", "c2"))
    history = (await machine.store.stream("e1")).history
    assert [(fact.to_state, fact.at) for fact in history] == [(state, START) for state in STATES[:3]]


async def test_fc52_a_clock_that_steps_back_keeps_the_order_of_arrival() -> None:
    machine = await started(a_machine())
    machine.clock.advance(60)
    await move(machine.platform, ask("open", "c1"))
    machine.clock.advance(-1)
    await move(machine.platform, ask("scheduled", "c2"))
    machine.clock.advance(-3600)
    await move(machine.platform, ask("under_watch", "c3"))
    stream = await machine.store.stream("e1")
    assert [fact.to_state for fact in stream.history] == list(STATES[:4])
    assert [fact.at for fact in stream.history[1:]] == [START + timedelta(seconds=60)] * 3
    assert stream.head is not None
    assert stream.head.since == START + timedelta(seconds=60)


async def test_r110_a_redelivered_notification_starts_its_event_once() -> None:
    machine = a_machine()
    await ingest(machine.platform, [an_envelope()])
    message = EventIngested(an_envelope())
    assert [await apply_message(machine.platform, message) for _ in range(3)] == ["done", "duplicate", "duplicate"]
    await move(machine.platform, ask("open", "c1"))
    assert await apply_message(machine.platform, message) == "duplicate"
    [first, _] = (await machine.store.stream("e1")).history
    assert (first.from_state, first.to_state, first.actor) == (None, "to_review", "ingestion")


@pytest.mark.parametrize("time", ["2026-01-01T10:00:00Z", None])
async def test_a_notification_that_was_never_ingested_is_recorded_first(time: str | None) -> None:
    machine = a_machine()
    message = EventIngested(an_envelope(time=time))
    assert [await apply_message(machine.platform, message) for _ in range(2)] == ["done", "duplicate"]
    stored, head = await machine.store.event("e1"), await machine.store.head("e1")
    assert stored is not None
    assert head is not None
    assert head.occurred_at == stored.envelope.occurred_at
    assert await states_of(machine) == ["to_review"]


async def test_notifications_of_two_sources_with_one_id_start_two_events_in_any_order() -> None:
    machine = a_machine()
    mine, yours = an_envelope(source="/mine"), an_envelope(source="/yours")
    await ingest(machine.platform, [mine, yours])
    for envelope in (yours, mine, yours, mine):
        await apply_message(machine.platform, EventIngested(envelope))
    for event_id, source in (("e1", "/mine"), (event_ids(yours)[1], "/yours")):
        head = await machine.store.head(event_id)
        assert head is not None
        assert head.source == source
        assert await states_of(machine, event_id) == ["to_review"]


async def test_r110_a_requested_transition_is_applied_once() -> None:
    machine = await started(a_machine())
    assert [await apply_message(machine.platform, request()) for _ in range(2)] == ["done", "duplicate"]
    assert await states_of(machine) == ["to_review", "open"]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (request("closed"), "cannot move from 'to_review' to 'closed'; legal now: open"),
        (request(entity="other"), "belongs to entity 'N14228', not 'other'"),
    ],
    ids=["illegal", "wrong entity"],
)
async def test_a_request_that_is_refused_is_handled_and_noted_once(message: TransitionRequested, reason: str) -> None:
    machine = await started(a_machine())
    for _ in range(2):
        assert await apply_message(machine.platform, message) == "rejected"
        machine.clock.advance(60)
    stream = await machine.store.stream("e1")
    assert [(miss.command_id, miss.to, miss.reason, miss.at) for miss in stream.missed] == [
        ("c1", message.to, reason, START)
    ]
    assert len(stream.history) == 1


async def test_a_request_for_an_event_that_was_never_ingested_fails() -> None:
    machine = a_machine()
    with pytest.raises(NotFound):
        await apply_message(machine.platform, request())
    assert await machine.store.stream("e1") == (None, (), ())


async def test_fc48_a_dead_letter_is_noted_beside_its_own_event() -> None:
    """Also where another source has the id that the envelope carries."""
    machine = a_machine()
    mine, yours = an_envelope(source="/mine"), an_envelope(source="/yours")
    await note_dead_letter(machine.platform, EventIngested(an_envelope("never")), "unavailable")
    await ingest(machine.platform, [mine])
    await note_dead_letter(machine.platform, EventIngested(mine), "unavailable")
    await note_dead_letter(machine.platform, EventIngested(yours), "unavailable")
    await note_dead_letter(machine.platform, request(event_id="e2"), "not_found")
    noted = {}
    for event_id in ("never", "e1", event_ids(yours)[1], "e2"):
        [miss] = (await machine.store.stream(event_id)).missed
        noted[event_id] = (miss.to, miss.reason)
    assert noted == {
        "never": ("to_review", "sent to the dead-letter queue: unavailable"),
        "e1": ("to_review", "sent to the dead-letter queue: unavailable"),
        event_ids(yours)[1]: ("to_review", "sent to the dead-letter queue: unavailable"),
        "e2": ("open", "sent to the dead-letter queue: not_found"),
    }


SHORTER = LifecycleDefinition(
    name="shorter", initial="to_review", terminal=frozenset({"closed"}), moves={"to_review": ("closed",), "closed": ()}
)


async def test_r112_an_event_in_a_state_that_the_lifecycle_lost_is_found_and_rightly_described() -> None:
    machine = await started(a_machine())
    first = await move(machine.platform, ask("open", "k1"))
    shorter = replace(machine.platform, definition=SHORTER)

    with pytest.raises(MoveRejected, match="has lost the state") as caught:
        await move(shorter, ask("closed", "k2"))
    assert (caught.value.current_state, caught.value.legal_moves) == ("open", ())
    assert await move(shorter, ask("open", "k1")) == Duplicate(first.transition)
    with pytest.raises(MoveRejected):
        await move(shorter, ask("closed", "k3", expected_state="open"))
    assert [head.event_id for head in (await list_events(shorter, ListQuery(state="open"))).items] == ["e1"]
    assert (await show(shorter, "e1")).state == "open"


@pytest.mark.parametrize(
    ("to", "expected_state", "place"), [("opne", None, "to"), ("open", "to_reveiw", "expected_state")]
)
async def test_a_misspelt_state_is_told_from_a_move_that_is_not_legal(
    to: str, expected_state: str | None, place: str
) -> None:
    machine = await started(a_machine())
    with pytest.raises(Invalid, match="is not a state of this lifecycle") as caught:
        await move(machine.platform, ask(to, "k1", expected_state=expected_state))
    assert caught.value.place == place


async def test_r109_a_misspelt_state_of_a_list_is_refused() -> None:
    machine = await started(a_machine())
    with pytest.raises(Invalid, match="is not a state of this lifecycle: to_review, open"):
        await list_events(machine.platform, ListQuery(state="opne"))
    assert list((await list_events(machine.platform, ListQuery(state="open"))).items) == []
