"""The lifecycle under random commands, clocks and definitions."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from domain.errors import CorruptHistory, Invalid
from domain.event import fact_key
from domain.lifecycle import (
    DEFAULT_LIFECYCLE,
    Accepted,
    Duplicate,
    LifecycleDefinition,
    Move,
    Rejected,
    Status,
    Transition,
    decide,
    fold,
    read_definition,
)
from tests.examples import START

names = st.from_regex(r"[a-z][a-z0-9_]{0,10}", fullmatch=True)


@st.composite
def definitions(draw: st.DrawFn) -> dict[str, Any]:
    """Give the JSON of a legal lifecycle.

    States stand in a row whose first is the initial and whose last is a terminal one. Each but the first is entered
    from an earlier one that is not terminal, each that is not terminal leads to a later one, and the rest is free.
    """
    states = draw(st.lists(names, min_size=2, max_size=7, unique=True))
    terminal = {states[-1], *draw(st.sets(st.sampled_from(states[1:])))}
    moves: dict[str, set[str]] = {state: set() for state in states}
    for index, state in enumerate(states):
        earlier = [before for before in states[:index] if before not in terminal]
        if earlier:
            moves[draw(st.sampled_from(earlier))].add(state)
        if state not in terminal:
            moves[state].add(draw(st.sampled_from(states[index + 1 :])))
            moves[state] |= draw(st.sets(st.sampled_from(states), max_size=3))
    order = draw(st.permutations(states))
    targets = {state: draw(st.permutations(sorted(moves[state]))) for state in order}
    return {"name": "drawn", "initial": states[0], "terminal": sorted(terminal), "moves": targets}


@settings(deadline=None, max_examples=60)
@given(definitions())
def test_r112_every_sound_definition_is_accepted_and_kept_as_given(drawn: dict[str, Any]) -> None:
    definition = read_definition(json.dumps(drawn))
    assert list(definition.states) == list(drawn["moves"])
    assert {state: list(definition.legal_moves(state)) for state in definition.states} == drawn["moves"]
    assert read_definition(definition.model_dump_json()) == definition


BREAKS = (
    "unknown target",
    "move twice",
    "terminal moves",
    "dead end",
    "odd name",
    "initial unknown",
    "terminal unknown",
    "island",
    "trap",
)


@pytest.mark.parametrize("way", BREAKS)
@settings(deadline=None, max_examples=30)
@given(drawn=definitions(), data=st.data())
def test_r112_every_way_of_breaking_one_is_refused_and_names_the_state(
    way: str, drawn: dict[str, Any], data: st.DataObject
) -> None:
    moves, terminal = drawn["moves"], drawn["terminal"]
    active = data.draw(st.sampled_from([state for state in moves if state not in terminal]))
    final = data.draw(st.sampled_from(terminal))
    fresh = "never_drawn_as_too_long"
    match way:
        case "unknown target":
            moves[active], culprit = [*moves[active], fresh], active
        case "move twice":
            moves[active], culprit = [*moves[active], moves[active][0]], active
        case "terminal moves":
            moves[final], culprit = [active], final
        case "dead end":
            moves[active], culprit = [], active
        case "odd name":
            culprit = data.draw(st.sampled_from(["Upper", "1st", "a-b", " a", "é", "_a"]))
            moves[culprit] = [active]
        case "initial unknown":
            drawn["initial"] = culprit = fresh
        case "terminal unknown":
            terminal.append(fresh)
            culprit = fresh
        case "island":
            moves[fresh], culprit = [active], fresh
        case _:
            moves[drawn["initial"]], moves[fresh], culprit = [*moves[drawn["initial"]], fresh], [fresh], fresh
    with pytest.raises(Invalid) as caught:
        read_definition(json.dumps(drawn))
    assert caught.value.reason.startswith(f"state {culprit!r} ")


class Lifecycle(RuleBasedStateMachine):
    """Commands of all kinds on one event, beside a model that only remembers what was done."""

    definition: LifecycleDefinition

    @initialize(drawn=st.none() | definitions())
    def start(self, drawn: dict[str, Any] | None) -> None:
        self.definition = DEFAULT_LIFECYCLE if drawn is None else read_definition(json.dumps(drawn))
        self.history: list[Transition] = []
        self.done: dict[str, str] = {}
        self.trail: list[str] = []
        self.latest = self.now = START

    def state(self) -> str | None:
        return self.trail[-1] if self.trail else None

    def legal(self) -> tuple[str, ...]:
        """Say what the model holds legal now, from the definition's raw data."""
        return (self.definition.initial,) if not self.trail else tuple(self.definition.moves[self.trail[-1]])

    @rule(seconds=st.sampled_from([0, 0, 1e-6, 1, 3600, -1, -1e-6, -86400]))
    def let_the_clock_run(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(data=st.data(), number=st.integers(0, 12), expected=st.sampled_from(["any", "now", "other"]))
    def ask(self, data: st.DataObject, number: int, expected: str) -> None:
        to = data.draw(st.sampled_from([*self.definition.states, *self.legal(), *self.legal(), "nowhere"]))
        command_id = f"c{number}"
        seen = {"any": None, "now": self.state(), "other": "elsewhere"}[expected]
        before = list(self.history)
        decision = decide(
            self.definition, self.history, Move("e1", "N1", to, "ada", command_id, expected_state=seen), self.now
        )
        assert self.history == before
        if self.done.get(command_id) == to:
            first = next(fact for fact in self.history if fact.command_id == command_id)
            assert decision == Duplicate(first)
        elif command_id in self.done:
            assert isinstance(decision, Rejected)
            assert decision.reused
            assert (decision.current_state, decision.legal_moves) == (self.state(), self.legal())
        elif to in self.legal() and seen in (None, self.state()):
            assert isinstance(decision, Accepted)
            self.accept(decision.transition, to, command_id)
        else:
            assert isinstance(decision, Rejected)
            assert not decision.reused
            assert (decision.current_state, decision.legal_moves) == (self.state(), self.legal())

    def accept(self, fact: Transition, to: str, command_id: str) -> None:
        self.latest = max(self.latest, self.now) if self.trail else self.now
        assert fact == Transition(
            "e1", "N1", self.state(), to, self.latest, "ada", None, command_id, len(self.trail) + 1
        )
        self.history.append(fact)
        self.trail.append(to)
        self.done[command_id] = to

    @invariant()
    def the_fold_is_what_the_model_remembers(self) -> None:
        since: datetime | None = self.latest if self.trail else None
        assert fold(self.history) == Status(self.state(), len(self.trail), since)

    @invariant()
    def fc52_keys_keep_the_order_of_arrival(self) -> None:
        keys = [fact_key(fact.at, fact.sequence) for fact in self.history]
        assert keys == sorted(set(keys))

    @invariant()
    def r104_no_fact_can_be_left_out_or_moved(self) -> None:
        for index in range(len(self.history) - 1):
            with pytest.raises(CorruptHistory):
                fold(self.history[:index] + self.history[index + 1 :])
            with pytest.raises(CorruptHistory):
                fold([*self.history[:index], self.history[index + 1], self.history[index], *self.history[index + 2 :]])


TestLifecycle = Lifecycle.TestCase
TestLifecycle.settings = settings(deadline=None, max_examples=40, stateful_step_count=25)
