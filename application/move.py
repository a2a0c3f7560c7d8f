"""Moving events: an operator's command, a notification, a requested transition (R-101, R-104, R-110)."""

import hashlib
from typing import Final, Literal

from application.ingest import record_once
from application.platform import Platform
from domain.envelope import Envelope
from domain.errors import Contention, Invalid, MoveRejected, NotFound, VersionConflict
from domain.event import Head, Missed, event_ids, first_head, ingest_command_id
from domain.lifecycle import Accepted, Decision, Duplicate, Move, Rejected, Transition, decide
from domain.messages import EventIngested, LifecycleMessage

INGESTION_ACTOR: Final = "ingestion"

Outcome = Literal["done", "duplicate", "rejected"]


async def move(platform: Platform, command: Move) -> Accepted | Duplicate:
    """Move an event, or find that this command did so before.

    Costs one query and one transaction where nobody else writes. Where another writer wins, the move is decided
    anew on what is stored then, a bounded number of times.

    Args:
        platform: the ports and rules.
        command: the move; an empty `entity` stands for the event's own.

    Raises:
        NotFound: no such event.
        Invalid: a state that this lifecycle does not have.
        MoveRejected: the lifecycle has no such move now; `current_state` and `legal_moves` say what there is.
        Contention: other writers won every time; try again.
        Unavailable: the store did not answer. The move may have happened: repeat it with the same command id.
    """
    decision = await _settle(platform, command)
    platform.metrics.count("moves_total", outcome=type(decision).__name__.lower())
    if isinstance(decision, Rejected):
        _check_states(platform, command, decision)
        raise MoveRejected(
            command.event_id, command.to, decision.reason, decision.current_state, decision.legal_moves, decision.reused
        )
    return decision


def _check_states(platform: Platform, command: Move, rejected: Rejected) -> None:
    """Tell a misspelt state from a move that is not legal now. A state that the lifecycle lost may still be expected.

    Raises:
        Invalid: naming the field.
    """
    states = platform.definition.states
    for field, state in (("to", command.to), ("expected_state", command.expected_state)):
        if state is not None and state not in states and state != rejected.current_state:
            raise Invalid(field, f"is not a state of this lifecycle: {', '.join(states)}")


async def apply_message(platform: Platform, message: LifecycleMessage) -> Outcome:
    """Apply a notification or a requested transition, once however often it is delivered.

    A move that the lifecycle refuses is noted beside the event's history and counts as handled: repeating it
    would change nothing.

    Raises:
        NotFound: a transition requested for an event that was never ingested.
        Contention, Unavailable: as in `move`; deliver the message again.
    """
    if isinstance(message, EventIngested):
        return await _start(platform, message.event)
    command = message.move()
    decision = await _settle(platform, command)
    match decision:
        case Accepted():
            return "done"
        case Duplicate():
            return "duplicate"
        case Rejected():
            await platform.store.note_missed(_missed(platform, command, decision.reason))
            return "rejected"


async def note_dead_letter(platform: Platform, message: LifecycleMessage, reason: str) -> None:
    """Note beside an event's history that a message of it went to the dead-letter queue (FC-48).

    An event that was never recorded is noted under the id that its envelope carries, unless another source has that.
    """
    if isinstance(message, EventIngested):
        own, second = event_ids(message.event)
        holder = await platform.store.event(own)
        is_own = holder is None or holder.envelope.source == message.event.source
        command = _first_move(platform, message.event, own if is_own else second)
    else:
        command = message.move()
    await platform.store.note_missed(_missed(platform, command, f"sent to the dead-letter queue: {reason}"))


def _missed(platform: Platform, command: Move, reason: str) -> Missed:
    return Missed(command.event_id, command.command_id, command.to, platform.clock.now(), reason)


def _first_move(platform: Platform, envelope: Envelope, event_id: str) -> Move:
    return Move(event_id, "", platform.definition.initial, INGESTION_ACTOR, ingest_command_id(envelope))


async def _start(platform: Platform, envelope: Envelope) -> Outcome:
    """Make the first transition of an ingested event, under whichever of its two ids it was recorded.

    A notification that did not come from our ingestion finds no record; the event is then recorded from it.
    """
    outcome = await _start_recorded(platform, envelope)
    if outcome is None:
        await record_once(platform, [envelope])
        outcome = await _start_recorded(platform, envelope)
    if outcome is None:
        raise NotFound(envelope.id)
    return outcome


async def _start_recorded(platform: Platform, envelope: Envelope) -> Outcome | None:
    for event_id in event_ids(envelope):
        if envelope.time is None:
            event = await platform.store.event(event_id)
            if event is None or event.envelope.source != envelope.source:
                continue
            envelope = event.envelope
        seed = first_head(envelope, event_id, platform.definition.initial, platform.clock.now())
        try:
            decision = await _settle(platform, _first_move(platform, envelope, event_id), seed)
        except NotFound:
            continue
        return "done" if isinstance(decision, Accepted) else "duplicate"
    return None


async def _settle(platform: Platform, command: Move, seed: Head | None = None) -> Decision:
    """Decide on what is stored, append, and decide anew where another writer won.

    Args:
        platform: the ports and rules.
        command: the move.
        seed: the head to start from, where the command may be the event's first transition.

    Raises:
        NotFound: no such event; with a seed: not recorded under this id from the seed's source.
        Contention: other writers won every time.
    """
    attempt = 0
    tried: Transition | None = None
    while True:
        attempt += 1
        stored, history, _ = await platform.store.stream(command.event_id)
        head = stored or seed
        if head is None:
            if await platform.store.event(command.event_id) is None:
                raise NotFound(command.event_id)
            return Rejected("is ingested but not started yet; try again in a moment", None, ())
        if seed is not None and head.source != seed.source:
            raise NotFound(command.event_id)
        if command.entity not in ("", head.entity):
            legal = platform.definition.legal_moves(head.state)
            return Rejected(f"belongs to entity {head.entity!r}, not {command.entity!r}", head.state, legal)
        asked = command._replace(entity=head.entity)
        decision = decide(platform.definition, history, asked, platform.clock.now())
        if isinstance(decision, Duplicate) and decision.transition == tried:
            return Accepted(decision.transition)
        if not isinstance(decision, Accepted):
            return decision
        tried = decision.transition
        moved = head._replace(state=tried.to_state, sequence=tried.sequence, since=tried.at)
        try:
            await platform.store.append(moved, [tried])
        except VersionConflict:
            wait = platform.contention.wait(attempt, _spread(command.command_id, attempt))
            if wait is None:
                raise Contention(command.event_id, attempt) from None
            await platform.clock.sleep(wait)
        else:
            return decision


def _spread(command_id: str, attempt: int) -> float:
    """Spread the waits of crossing writers over 0 to 1 without drawing a random number."""
    digest = hashlib.blake2b(f"{attempt}:{command_id}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") / 0xFFFFFFFF
