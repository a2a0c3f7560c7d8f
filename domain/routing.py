"""Where an event goes: names, ids and task queues of workflows, and the decision (R-302 to R-304, R-306, R-307).

**Names.** The type `ReportRunCompletedEvent` is for the workflow `ReportRunCompletedEventWorkflow`. Names come from
what workers say they serve (`Directory`), and are never built from an event's text (FC-21).

**Ids** (CONTRACTS § 7). A workflow's id is `<workflow>-<event id>`, the catch-all's
`UnmatchedEventWorkflow-<type>-<event id>`. The event id is `detail.event_id` where that is a non-empty string: it
survives a republish, and the envelope's id does not (FC-14). Copies of an event meet on one id, different events never:

| part | stands as it is | else `~` and a digest of it |
|---|---|---|
| workflow or type | letters, digits, `_` and `.` | all else: with a `-` in it nobody could say where it ends |
| event id | up to 200 letters, digits, `_`, `.`, `:` and `-` | all else, and what makes the id over 255 bytes |

So the first `-` (of the catch-all, the second) ends the part before it, and no text is taken for a digest, as none
holds `~`. No workflow that is for a type is called `UnmatchedEventWorkflow`, so that the two forms do not meet either.

**The decision.**

| on the skip list | served on the type's task queue | decision |
|---|---|---|
| yes | any | `Skip` |
| no | yes | `Start` |
| no | no: no worker has it, the last one is gone, or it serves another queue | `CatchAll` |
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import ClassVar, Final, Literal, NamedTuple, TypeAlias

from pydantic import JsonValue

from domain.envelope import Envelope, framed_digest
from domain.errors import Invalid

SUFFIX: Final = "Workflow"
CATCH_ALL: Final = "UnmatchedEventWorkflow"
EVENTS: Final = "events"
EXPORTS: Final = "exports"
EXPORT_PATTERNS: Final = ("Export*", "*.export.*")

MAX_WORKFLOWS: Final = 1_000
MAX_WORKFLOW_NAME: Final = 128 + len(SUFFIX)
MAX_ID_BYTES: Final = 255
LEDGER_KEEPS: Final = timedelta(days=400)
"""How long the start ledger remembers: over a year, so that a yearly replay of an archive starts nothing twice."""

EVENT_ID_PLACE: Final = "{event_id}"
"""Stands for an event's id where there is no event."""

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.]+", re.ASCII)
_PLAIN_EVENT_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,200}", re.ASCII)

EventIdSource = Literal["detail", "envelope"]


class EventIdentity(NamedTuple):
    """What tells an event from others, and where it was found."""

    event_id: str
    found_in: EventIdSource


class Workflow(NamedTuple):
    """A workflow that workers serve, and on which task queues."""

    name: str
    task_queues: frozenset[str]


Directory: TypeAlias = Mapping[str, Workflow]
"""Which workflows exist, by the type of event that each is for."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What one worker says that it serves.

    Attributes:
        worker: its id; a later offer of a worker replaces its earlier one.
        workflows: names that end in `Workflow`, as `check_workflows` lets them through.
        task_queues: where it takes tasks from.
        until: when the offer ends, unless the worker makes it again.
    """

    worker: str
    workflows: tuple[str, ...]
    task_queues: tuple[str, ...]
    until: datetime


@dataclass(frozen=True, slots=True)
class RoutingRules:
    """Which types go to the task queue for exports (R-306): shell patterns, upper and lower case as they are."""

    export_patterns: tuple[str, ...] = EXPORT_PATTERNS

    def task_queue(self, event_type: str) -> str:
        """Give the task queue of a type."""
        return EXPORTS if any(fnmatchcase(event_type, pattern) for pattern in self.export_patterns) else EVENTS


@dataclass(frozen=True, slots=True)
class _Decision:
    """Where an event goes.

    Attributes:
        workflow: the name of the workflow type.
        workflow_id: the id that makes its copies meet.
        task_queue: where it runs.
        why: the reason, for people.
    """

    workflow: str
    workflow_id: str
    task_queue: str
    why: str


@dataclass(frozen=True, slots=True)
class Start(_Decision):
    """Start the workflow that is for the event's type."""

    outcome: ClassVar[Literal["start"]] = "start"


@dataclass(frozen=True, slots=True)
class CatchAll(_Decision):
    """Start the catch-all workflow, which records the event (R-303)."""

    outcome: ClassVar[Literal["catch_all"]] = "catch_all"


@dataclass(frozen=True, slots=True)
class Skip(_Decision):
    """Start nothing (R-307). Workflow, id and queue are what would have been."""

    outcome: ClassVar[Literal["skip"]] = "skip"


RouteDecision: TypeAlias = Start | CatchAll | Skip


@dataclass(frozen=True, slots=True)
class StartRequest:
    """A workflow to be started.

    Attributes:
        workflow: the name of the workflow type.
        workflow_id: at most one run of it is taken up, unless the last one failed (R-304).
        task_queue: where it runs.
        envelope: its one argument.
        event_id: for the memo.
        start_id: another for each start that is asked for, and the same when it is asked for again: by it a start whose
            answer was lost is recognised.
        why: the reason of the decision, for the memo of the catch-all.
    """

    workflow: str
    workflow_id: str
    task_queue: str
    envelope: Envelope
    event_id: str
    start_id: str
    why: str


class Started(NamedTuple):
    """What became of a start.

    Attributes:
        run_id: of the run that is there now; empty where the server does not say.
        is_new: False where the id was taken: another delivery of the event has started it.
    """

    run_id: str
    is_new: bool


class Handled(NamedTuple):
    """An event whose workflow has completed; it needs no further start, however long ago that was (R-304)."""

    workflow_id: str
    run_id: str
    completed_at: datetime


@dataclass(frozen=True, slots=True)
class Caught:
    """An event that the catch-all recorded.

    Attributes:
        workflow_id: of the catch-all's run.
        caught_at: when that started.
        envelope: the event.
        why: why there was no workflow for it.
        replayed_at: when a workflow of its own was started for it, None while there is none.
    """

    workflow_id: str
    caught_at: datetime
    envelope: Envelope
    why: str
    replayed_at: datetime | None = field(default=None)


def event_identity(envelope: Envelope) -> EventIdentity:
    """Give the id by which copies of an event meet (FC-14): `detail.event_id`, else the envelope's."""
    found = _text(envelope, "event_id")
    return EventIdentity(envelope.id, "envelope") if found is None else EventIdentity(found, "detail")


def report_id(envelope: Envelope) -> str | None:
    """Give the report that an event is about (R-307): `detail.report_id` where that is a non-empty string."""
    return _text(envelope, "report_id")


def check_workflows(names: Sequence[str]) -> tuple[str, ...]:
    """Check the names of workflows that a worker serves, and give those that are for types of events, sorted.

    Left out are names that no type asks for: those that do not end in `Workflow`, and the catch-all's own.

    Raises:
        Invalid: a name is too long, or there are too many.
    """
    routable = sorted({name for name in names if name.endswith(SUFFIX) and name not in {SUFFIX, CATCH_ALL}})
    for name in routable:
        if len(name) > MAX_WORKFLOW_NAME:
            raise Invalid("workflows", f"{name[:40]!r}… has {len(name)} characters; the limit is {MAX_WORKFLOW_NAME}")
    if len(routable) > MAX_WORKFLOWS:
        raise Invalid("workflows", f"are {len(routable)}; one worker may serve {MAX_WORKFLOWS}")
    return tuple(routable)


def directory(offers: Iterable[Offer], now: datetime) -> Directory:
    """Put together what workers serve now. An offer that has ended counts no more: that worker is gone."""
    queues: dict[str, set[str]] = {}
    for offer in offers:
        if offer.until > now:
            for name in check_workflows(offer.workflows):
                queues.setdefault(name, set()).update(offer.task_queues)
    return {name.removesuffix(SUFFIX): Workflow(name, frozenset(where)) for name, where in queues.items()}


def workflow_id(workflow: str, event_id: str | None) -> str:
    """Give the id of a workflow for an event; with `{event_id}` at its end where there is no event yet."""
    return _identifier(_part("workflow", workflow, _PLAIN_NAME), event_id)


def catch_all_id(event_type: str, event_id: str | None) -> str:
    """Give the id of the catch-all for an event; with `{event_id}` at its end where there is no event yet."""
    return _identifier(f"{CATCH_ALL}-{_part('type', event_type, _PLAIN_NAME)}", event_id)


def decide(
    event_type: str, event_id: str | None, served: Directory, rules: RoutingRules, skip_reason: str | None = None
) -> RouteDecision:
    """Say where an event goes, by the table above.

    Args:
        event_type: the envelope's type.
        event_id: from `event_identity`; None where only the way is asked for.
        served: which workflows exist.
        rules: which types are exports.
        skip_reason: why the event's report is on the skip list; None where it is not.
    """
    queue = rules.task_queue(event_type)
    found = served.get(event_type)
    if found is not None and queue in found.task_queues:
        why = f"a worker serves {found.name} on the task queue {queue}"
        decision: RouteDecision = Start(found.name, workflow_id(found.name, event_id), queue, why)
    else:
        if found is None:
            why = "no worker serves a workflow for this type of event"
        else:
            why = f"{found.name} is served on {', '.join(sorted(found.task_queues))}, but this type goes to {queue}"
        decision = CatchAll(CATCH_ALL, catch_all_id(event_type, event_id), queue, why)
    if skip_reason is not None:
        return Skip(
            decision.workflow, decision.workflow_id, queue, f"on the skip list: {skip_reason or 'no reason given'}"
        )
    return decision


def _text(envelope: Envelope, name: str) -> str | None:
    data: JsonValue = envelope.data
    value = data.get(name) if isinstance(data, dict) else None
    return value if isinstance(value, str) and value else None


def _identifier(start: str, event_id: str | None) -> str:
    if event_id is None:
        return f"{start}-{EVENT_ID_PLACE}"
    found = f"{start}-{_part('event', event_id, _PLAIN_EVENT_ID)}"
    return found if len(found) <= MAX_ID_BYTES else f"{start}-{_digest('event', event_id)}"


def _part(kind: str, text: str, plain: re.Pattern[str]) -> str:
    return text if plain.fullmatch(text) else _digest(kind, text)


def _digest(kind: str, text: str) -> str:
    return f"~{framed_digest('routing', kind, text)}"
