"""What clients see of events, as plain dicts: the same from HTTP and the command line (CONTRACTS § 4)."""

import re
from typing import Any, Final

from application.queries import EventView, Page
from domain.event import Head, Missed, Stream
from domain.lifecycle import Transition
from domain.times import format_time

_OWN_COMMAND_ID: Final = re.compile(r"[0-9a-f]{64}|:.*", re.ASCII)


def item(event: Head | EventView) -> dict[str, Any]:
    """Write an item of an event list."""
    return {
        "event_id": event.event_id,
        "entity": event.entity,
        "type": event.type,
        "source": event.source,
        "state": event.state,
        "since": None if event.since is None else format_time(event.since),
        "occurred_at": format_time(event.occurred_at),
        "sequence": event.sequence,
    }


def transition(fact: Transition) -> dict[str, Any]:
    """Write a transition."""
    return {
        "event_id": fact.event_id,
        "entity": fact.entity,
        "from": fact.from_state,
        "to": fact.to_state,
        "at": format_time(fact.at),
        "actor": fact.actor,
        "reason": fact.reason,
        "command_id": key_of(fact.command_id),
        "sequence": fact.sequence,
    }


def missed_move(missed: Missed) -> dict[str, Any]:
    """Write a move that never became a transition."""
    return {
        "command_id": key_of(missed.command_id),
        "to": missed.to,
        "at": format_time(missed.at),
        "reason": missed.reason,
    }


def event(view: EventView) -> dict[str, Any]:
    """Write one event as it stands now."""
    return {**item(view), "legal_moves": view.legal_moves}


def page(found: Page) -> dict[str, Any]:
    """Write a page of a list."""
    return {"items": [item(head) for head in found.items], "next_cursor": found.next_cursor}


def history(stream: Stream) -> dict[str, Any]:
    """Write a history, and what it missed."""
    return {
        "items": [transition(fact) for fact in stream.history],
        "missed": [missed_move(missed) for missed in stream.missed],
    }


def command_id_of(key: str) -> str:
    """Give the command id of an `Idempotency-Key`: the key, marked where it looks like one that ingestion makes.

    Ingestion's command ids are 64 hex digits (`domain.event.ingest_command_id`). A key of that form, and one that
    looks marked already, gets a colon in front, so that no caller meets ingestion's command by chance or on purpose.
    """
    return f":{key}" if _OWN_COMMAND_ID.fullmatch(key) else key


def key_of(command_id: str) -> str:
    """Give the key back that a command id was made of."""
    return command_id.removeprefix(":")
