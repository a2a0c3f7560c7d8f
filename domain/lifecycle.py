"""The lifecycle as data, and the pure rules over it: `decide` and `fold` (R-101, R-102, R-112).

A definition names the states and the legal moves between them. `decide` answers a command from an event's
history; `fold` reduces a history to where the event stands. Both are plain functions on immutable values:
time comes in as an argument.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Final, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from domain.errors import CorruptHistory
from domain.json_reader import refuse
from domain.validation import invalid_from

_STATE_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}", re.ASCII)

StateName = Annotated[str, Field(min_length=1, max_length=63)]


class LifecycleDefinition(BaseModel):
    """States and legal moves, validated when made (R-112).

    Attributes:
        name: of the lifecycle, for people.
        initial: the state that an ingested event enters.
        terminal: the states that nothing leaves.
        moves: for each state, the states that it may move to. Every state is a key.

    Raises:
        pydantic.ValidationError: where the states do not form a lifecycle; it names the state.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: Annotated[str, Field(min_length=1, max_length=100)]
    initial: StateName
    terminal: frozenset[StateName]
    moves: Annotated[Mapping[StateName, tuple[StateName, ...]], Field(min_length=1, max_length=100)]

    @model_validator(mode="after")
    def _is_a_lifecycle(self) -> Self:
        for state, targets in self.moves.items():
            if complaint := self._complaint(state, targets):
                raise ValueError(f"state {state!r} {complaint}")
        for state in sorted({self.initial} | self.terminal):
            if state not in self.moves:
                raise ValueError(f"state {state!r} is not among the states")
        reached = _closure({self.initial}, self.moves)
        backwards = {state: [s for s, targets in self.moves.items() if state in targets] for state in self.moves}
        ending = _closure(set(self.terminal), backwards)
        for state in self.moves:
            if state not in reached:
                raise ValueError(f"state {state!r} cannot be reached from {self.initial!r}")
            if state not in ending:
                raise ValueError(f"state {state!r} can never reach a terminal state")
        return self

    def _complaint(self, state: str, targets: tuple[str, ...]) -> str | None:
        unknown = [target for target in targets if target not in self.moves]
        checks = {
            "has an odd name: use lower-case letters, digits and underscores": _STATE_NAME.fullmatch(state) is None,
            "lists a move twice": len(set(targets)) != len(targets),
            f"moves to {unknown}, which this lifecycle does not have": bool(unknown),
            "is terminal but has moves": bool(targets) and state in self.terminal,
            "has no moves; name it as terminal": not targets and state not in self.terminal,
        }
        return next((complaint for complaint, broken in checks.items() if broken), None)

    @property
    def states(self) -> tuple[str, ...]:
        """All states, in the order in which they were defined."""
        return tuple(self.moves)

    def legal_moves(self, state: str | None) -> tuple[str, ...]:
        """Give the states that an event may move to now; the initial one where it has no state yet."""
        if state is None:
            return (self.initial,)
        return self.moves.get(state, ())


def _closure(start: set[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    found, frontier = set(start), set(start)
    while frontier:
        frontier = {target for state in frontier for target in edges[state]} - found
        found |= frontier
    return found


def read_definition(text: str | bytes) -> LifecycleDefinition:
    """Read a lifecycle from JSON, strictly: a state that is named twice would lose the moves named first.

    Raises:
        Invalid: naming the part that does not make a lifecycle.
    """
    raw = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    refuse(raw)
    try:
        return LifecycleDefinition.model_validate_json(raw)
    except ValidationError as error:
        raise invalid_from(error, "states") from None


DEFAULT_LIFECYCLE: Final = LifecycleDefinition(
    name="event review",
    initial="to_review",
    terminal=frozenset({"closed"}),
    moves={
        "to_review": ("open",),
        "open": ("scheduled",),
        "scheduled": ("under_watch",),
        "under_watch": ("closed",),
        "closed": (),
    },
)


class Transition(NamedTuple):
    """One fact: a move that happened (CONTRACTS § 4). Never changed once written (R-102)."""

    event_id: str
    entity: str
    from_state: str | None
    to_state: str
    at: datetime
    actor: str
    reason: str | None
    command_id: str
    sequence: int


class Status(NamedTuple):
    """Where an event stands: the fold of its history. `state` is None before the first transition."""

    state: str | None
    sequence: int
    since: datetime | None


NOT_STARTED: Final = Status(None, 0, None)


class Move(NamedTuple):
    """A command: move an event to a state.

    `command_id` makes it idempotent (R-110). `expected_state` is what the requester saw, or None for "any".
    """

    event_id: str
    entity: str
    to: str
    actor: str
    command_id: str
    reason: str | None = None
    expected_state: str | None = None


class Accepted(NamedTuple):
    """The move is legal; the transition is to be appended after `transition.sequence - 1`."""

    transition: Transition


class Duplicate(NamedTuple):
    """This command was applied before; `transition` is what it did then."""

    transition: Transition


class Rejected(NamedTuple):
    """The move is not legal now. `reused` marks a command id that was used for another move before."""

    reason: str
    current_state: str | None
    legal_moves: tuple[str, ...]
    reused: bool = False


Decision = Accepted | Duplicate | Rejected


def fold(history: Sequence[Transition]) -> Status:
    """Reduce a history to where the event stands.

    Args:
        history: all transitions of one event, oldest first.

    Raises:
        CorruptHistory: when a transition is missing, or does not start where the last one ended.
    """
    state: str | None = None
    sequence = 0
    since: datetime | None = None
    for fact in history:
        sequence += 1
        if fact.sequence != sequence or fact.from_state != state:
            raise CorruptHistory(fact.event_id, f"transition {fact.sequence} does not follow {sequence - 1} ({state})")
        state = fact.to_state
        since = fact.at
    return Status(state, sequence, since)


def decide(definition: LifecycleDefinition, history: Sequence[Transition], command: Move, now: datetime) -> Decision:
    """Answer a command from the history of its event.

    A command id that is in the history answers with what it did then. Where the clock stepped back, the new
    transition takes the time of the last one, so that order of arrival stays order of time (FC-52).

    Args:
        definition: the lifecycle in force.
        history: all transitions of the event, oldest first.
        command: what is asked for.
        now: the time of arrival, UTC.

    Returns:
        `Accepted`, `Duplicate` or `Rejected`; nothing is raised for a move that is merely illegal.

    Raises:
        CorruptHistory: see `fold`.
    """
    status = fold(history)
    legal = definition.legal_moves(status.state)
    for fact in history:
        if fact.command_id == command.command_id:
            if fact.to_state == command.to:
                return Duplicate(fact)
            reason = f"command {command.command_id!r} already moved it to {fact.to_state!r}; use a new id"
            return Rejected(reason, status.state, legal, reused=True)
    if command.expected_state is not None and command.expected_state != status.state:
        return Rejected(f"is in state {status.state!r}, not {command.expected_state!r}", status.state, legal)
    if command.to not in legal:
        allowed = ", ".join(legal) or "nothing: the state is terminal"
        if status.state is not None and status.state not in definition.moves:
            allowed = "nothing: this lifecycle has lost the state; put it back, with a move out of it"
        return Rejected(
            f"cannot move from {status.state!r} to {command.to!r}; legal now: {allowed}", status.state, legal
        )
    at = now if status.since is None or now > status.since else status.since
    return Accepted(
        Transition(
            event_id=command.event_id,
            entity=command.entity,
            from_state=status.state,
            to_state=command.to,
            at=at,
            actor=command.actor,
            reason=command.reason,
            command_id=command.command_id,
            sequence=status.sequence + 1,
        )
    )
