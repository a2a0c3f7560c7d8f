import json
from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from domain.errors import CorruptHistory, Invalid, Malformed
from domain.event import fact_key
from domain.lifecycle import (
    DEFAULT_LIFECYCLE,
    NOT_STARTED,
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
from tests.examples import START, STATES, facts_of


def ask(to: str, command_id: str = "c-new", **more: Any) -> Move:
    return Move("e1", "N14228", to, "ada", command_id, **more)


def test_r101_the_default_lifecycle_is_the_five_states_in_a_row() -> None:
    assert DEFAULT_LIFECYCLE.states == STATES
    assert DEFAULT_LIFECYCLE.initial == "to_review"
    assert DEFAULT_LIFECYCLE.terminal == {"closed"}
    assert {state: DEFAULT_LIFECYCLE.legal_moves(state) for state in (None, *STATES, "nowhere")} == {
        None: ("to_review",),
        "to_review": ("open",),
        "open": ("scheduled",),
        "scheduled": ("under_watch",),
        "under_watch": ("closed",),
        "closed": (),
        "nowhere": (),
    }


@pytest.mark.parametrize("made", range(6))
@pytest.mark.parametrize("to", [*STATES, "nowhere", ""])
def test_r101_every_move_from_every_state_is_accepted_or_names_the_legal_ones(made: int, to: str) -> None:
    history = facts_of("e1", made)
    state = STATES[made - 1] if made else None
    legal = STATES[made : made + 1]
    decision = decide(DEFAULT_LIFECYCLE, history, ask(to), START + timedelta(days=1))
    if to in legal:
        assert decision == Accepted(
            Transition("e1", "N14228", state, to, START + timedelta(days=1), "ada", None, "c-new", made + 1)
        )
    else:
        allowed = ", ".join(legal) or "nothing: the state is terminal"
        assert decision == Rejected(f"cannot move from {state!r} to {to!r}; legal now: {allowed}", state, legal)


def test_an_accepted_move_carries_its_actor_and_reason() -> None:
    decision = decide(DEFAULT_LIFECYCLE, facts_of("e1", 1), ask("open", reason="seen"), START + timedelta(days=1))
    assert isinstance(decision, Accepted)
    assert (decision.transition.actor, decision.transition.reason) == ("ada", "seen")


@pytest.mark.parametrize("made", [1, 2, 5])
def test_r110_a_repeated_command_answers_with_what_it_did_then(made: int) -> None:
    history = facts_of("e1", made)
    for fact in history:
        again = ask(fact.to_state, fact.command_id, reason="other", expected_state="nonsense")
        assert decide(DEFAULT_LIFECYCLE, history, again, START + timedelta(days=9)) == Duplicate(fact)


def test_r110_a_command_id_used_for_another_move_is_refused_as_reused() -> None:
    history = facts_of("e1", 2)
    decision = decide(DEFAULT_LIFECYCLE, history, ask("scheduled", history[0].command_id), START)
    assert isinstance(decision, Rejected)
    assert decision.reused
    assert (decision.current_state, decision.legal_moves) == ("open", ("scheduled",))
    assert "already moved it to 'to_review'" in decision.reason


def test_expected_state_is_held_against_the_state_now() -> None:
    history = facts_of("e1", 2)
    stale = decide(DEFAULT_LIFECYCLE, history, ask("scheduled", expected_state="to_review"), START)
    assert stale == Rejected("is in state 'open', not 'to_review'", "open", ("scheduled",))
    seen = decide(DEFAULT_LIFECYCLE, history, ask("scheduled", expected_state="open"), START)
    assert isinstance(seen, Accepted)
    unstarted = decide(DEFAULT_LIFECYCLE, [], ask("to_review", expected_state="open"), START)
    assert unstarted == Rejected("is in state None, not 'open'", None, ("to_review",))


def test_fc52_two_changes_under_a_frozen_clock_are_two_items_in_order() -> None:
    """FC-52: the sort key carries a tie-breaker, so equal times both survive."""
    history = facts_of("e1", 1)
    for to in ("open", "scheduled"):
        decision = decide(DEFAULT_LIFECYCLE, history, ask(to, f"c-{to}"), history[0].at)
        assert isinstance(decision, Accepted)
        history.append(decision.transition)
    assert len({fact.at for fact in history}) == 1
    keys = [fact_key(fact.at, fact.sequence) for fact in history]
    assert keys == sorted(set(keys))


def test_fc52_the_same_change_delivered_twice_is_one_item() -> None:
    history = facts_of("e1", 1)
    first = decide(DEFAULT_LIFECYCLE, history, ask("open", "c-1"), START)
    assert isinstance(first, Accepted)
    history.append(first.transition)
    assert decide(DEFAULT_LIFECYCLE, history, ask("open", "c-1"), START) == Duplicate(first.transition)


def test_fc52_a_clock_that_steps_back_keeps_the_order_of_arrival() -> None:
    """FC-52: the later change takes the time of the one before, never an earlier one."""
    history = facts_of("e1", 2)
    decision = decide(DEFAULT_LIFECYCLE, history, ask("scheduled"), history[1].at - timedelta(seconds=1))
    assert isinstance(decision, Accepted)
    assert decision.transition.at == history[1].at
    keys = [fact_key(fact.at, fact.sequence) for fact in [*history, decision.transition]]
    assert keys == sorted(keys)


def test_r102_the_current_state_is_a_fold_of_the_history() -> None:
    assert fold([]) == NOT_STARTED == Status(None, 0, None)
    for made in range(1, 6):
        history = facts_of("e1", made)
        assert fold(history) == Status(STATES[made - 1], made, history[-1].at)


@pytest.mark.parametrize(
    "broken",
    [
        facts_of("e1", 3)[1:],
        [facts_of("e1", 3)[0], facts_of("e1", 3)[2]],
        [facts_of("e1", 2)[1], facts_of("e1", 2)[0]],
        [facts_of("e1", 1)[0], facts_of("e1", 1)[0]],
        [facts_of("e1", 1)[0]._replace(from_state="open")],
        [facts_of("e1", 2)[0], facts_of("e1", 2)[1]._replace(from_state="closed")],
        [facts_of("e1", 1)[0]._replace(sequence=0)],
    ],
    ids=["first missing", "gap", "swapped", "twice", "starts elsewhere", "does not join", "counts from 0"],
)
def test_r104_a_history_that_is_no_chain_is_corrupt(broken: list[Transition]) -> None:
    with pytest.raises(CorruptHistory) as caught:
        fold(broken)
    assert caught.value.event_id == "e1"
    with pytest.raises(CorruptHistory):
        decide(DEFAULT_LIFECYCLE, broken, ask("open"), START)


GOOD: dict[str, Any] = {
    "name": "ticket",
    "initial": "new",
    "terminal": ["done", "dropped"],
    "moves": {"new": ["active", "dropped"], "active": ["active", "done"], "done": [], "dropped": []},
}


def test_r112_another_lifecycle_is_data() -> None:
    definition = read_definition(json.dumps(GOOD))
    assert definition == read_definition(json.dumps(GOOD).encode())
    assert definition.states == ("new", "active", "done", "dropped")
    assert definition.legal_moves("active") == ("active", "done")
    assert definition.legal_moves(None) == ("new",)
    assert definition.terminal == {"done", "dropped"}


def test_r112_one_state_that_begins_and_ends_is_a_lifecycle() -> None:
    definition = LifecycleDefinition(name="seen", initial="seen", terminal=frozenset({"seen"}), moves={"seen": ()})
    assert decide(definition, [], ask("seen"), START) == Accepted(
        Transition("e1", "N14228", None, "seen", START, "ada", None, "c-new", 1)
    )


@pytest.mark.parametrize(
    ("change", "place", "reason"),
    [
        ({"initial": "gone"}, "", "state 'gone' is not among the states"),
        ({"terminal": ["done", "dropped", "gone"]}, "", "state 'gone' is not among the states"),
        ({"moves": {**GOOD["moves"], "New": []}}, "", "state 'New' has an odd name"),
        ({"moves": {**GOOD["moves"], "2nd": []}}, "", "state '2nd' has an odd name"),
        ({"moves": {**GOOD["moves"], "a-b": []}}, "", "state 'a-b' has an odd name"),
        ({"moves": {**GOOD["moves"], "done\n": []}}, "", "state 'done\\n' has an odd name"),
        ({"moves": {**GOOD["moves"], "new": ["active", "active"]}}, "", "state 'new' lists a move twice"),
        ({"moves": {**GOOD["moves"], "new": ["lost"]}}, "", "state 'new' moves to ['lost']"),
        ({"moves": {**GOOD["moves"], "done": ["new"]}}, "", "state 'done' is terminal but has moves"),
        ({"terminal": ["done"]}, "", "state 'dropped' has no moves; name it as terminal"),
        ({"terminal": []}, "", "state 'done' has no moves; name it as terminal"),
        ({"moves": {**GOOD["moves"], "island": ["done"]}}, "", "state 'island' cannot be reached from 'new'"),
        ({"initial": "active"}, "", "state 'new' cannot be reached from 'active'"),
        (
            {"moves": {**GOOD["moves"], "new": ["active", "dropped", "trap"], "trap": ["trap"]}},
            "",
            "state 'trap' can never reach a terminal state",
        ),
        ({"moves": {}}, "moves", "at least 1 item"),
        ({"moves": {f"s{number}": [] for number in range(101)}}, "moves", "at most 100 items"),
        ({"initial": ""}, "initial", "must not be empty"),
        ({"initial": "x" * 64}, "initial", "must have at most 63 characters"),
        ({"initial": 1}, "initial", "must be a string"),
        ({"name": ""}, "name", "must not be empty"),
        ({"name": "x" * 101}, "name", "must have at most 100 characters"),
        ({"states": []}, "states", "is not a field here"),
    ],
    ids=lambda value: value[:50] if isinstance(value, str) and value else "",
)
def test_r112_a_broken_definition_is_refused_when_made_and_names_the_state(
    change: dict[str, Any], place: str, reason: str
) -> None:
    with pytest.raises(Invalid) as caught:
        read_definition(json.dumps({**GOOD, **change}))
    assert caught.value.place == place
    assert reason in caught.value.reason


@pytest.mark.parametrize("name", ["name", "initial", "terminal", "moves"])
def test_r112_every_part_is_required(name: str) -> None:
    with pytest.raises(Invalid, match="is required") as caught:
        read_definition(json.dumps({key: value for key, value in GOOD.items() if key != name}))
    assert caught.value.place == name


def test_r112_a_state_that_is_named_twice_is_refused_not_halved() -> None:
    text = '{"name":"x","initial":"a","terminal":["b"],"moves":{"a":["b"],"a" :["a","b"],"b":[]}}'
    with pytest.raises(Malformed, match="is a duplicate key") as caught:
        read_definition(text)
    assert caught.value.steps == ("moves", "a")


def test_r112_a_definition_does_not_change_after_it_was_checked() -> None:
    moves = {"a": ("b",), "b": ()}
    definition = LifecycleDefinition(name="x", initial="a", terminal=frozenset({"b"}), moves=moves)
    moves["a"] = ()
    assert definition.legal_moves("a") == ("b",)
    with pytest.raises(ValidationError, match="frozen"):
        definition.initial = "b"  # type: ignore[misc]
