"""Keeping a batch of the front door's messages: as objects, each message whole (R-502, R-504; FC-39, FC-40, FC-43).

A message ends in one of three ways: in an object of good ones, in an object of the quarantine, or back in the queue.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from domain.errors import Invalid, Retryable, Unavailable
from domain.intake import (
    Kind,
    RawMessage,
    Rejection,
    decode,
    join_lines,
    object_name,
    write_line,
    write_quarantine_line,
)
from domain.messages import Received
from ports.clock import Clock
from ports.metrics import Metrics
from ports.object_store import ObjectStore

TURN: Final = 200_000
"""Characters of messages that are checked before others on the event loop have a turn."""


@dataclass(frozen=True, slots=True)
class Intake:
    """The ports of the front door's processor."""

    objects: ObjectStore
    clock: Clock
    metrics: Metrics


class IntakeReport(NamedTuple):
    """What became of a batch: received = stored + quarantined + returned, always.

    Attributes:
        received: how many different messages there were.
        stored: how many are in an object of good ones.
        quarantined: how many are in an object of the quarantine.
        returned: ids of those that go back to the queue, in the order of the batch.
        failures: why they go back, by id; those for which no time was left are not in it.
        rejections: what is wrong with messages that were kept, by id: all of it, or some of its events.
    """

    received: int
    stored: int
    quarantined: int
    returned: Sequence[str]
    failures: Mapping[str, Exception]
    rejections: Mapping[str, Sequence[Rejection]]


class _Line(NamedTuple):
    message: RawMessage
    text: bytes


async def store_batch(intake: Intake, batch: Sequence[Received], *, deadline: datetime | None = None) -> IntakeReport:
    """Check a batch of messages and keep them.

    Good and rejected messages go to an object each. An object that the store refuses is tried again in halves, so that
    one message that it does not take costs its neighbours nothing.

    Args:
        intake: the ports.
        batch: messages as they were received; of two with one id the first counts.
        deadline: when to answer. No message is begun in the second half of the time until then; what is left then is
            returned, and so is what the store did not take by then.

    Returns:
        The report. Failures are in it, never raised.
    """
    lines: dict[Kind, list[_Line]] = {"raw": [], "quarantine": []}
    failures: dict[str, Exception] = {}
    rejections: dict[str, Sequence[Rejection]] = {}
    now = intake.clock.now()
    last_start = None if deadline is None else now + (deadline - now) / 2
    messages = {received.message_id: received for received in reversed(batch)}
    ids = list(dict.fromkeys(received.message_id for received in batch))
    checked = 0
    for message_id in ids:
        if last_start is not None and intake.clock.now() >= last_start:
            break
        try:
            kind, line, rejected = _check(messages[message_id], now)
        except Exception as error:  # noqa: BLE001 - one message's failure, even by a bug, must not stop the others
            failures[message_id] = error
            continue
        lines[kind].append(line)
        if rejected:
            rejections[message_id] = rejected
        checked += len(messages[message_id].body)
        if checked >= TURN:
            checked = 0
            await asyncio.sleep(0)
    async with asyncio.TaskGroup() as tasks:
        putting = [tasks.create_task(_put(intake, kind, lines[kind], deadline)) for kind in lines]
    for task in putting:
        failures |= task.result()
    return _report(intake, ids, lines, failures, rejections)


def _check(received: Received, now: datetime) -> tuple[Kind, _Line, Sequence[Rejection]]:
    """Give what is kept of a message, in which kind of object, and what is wrong with it."""
    message = RawMessage(received.message_id, received.sent_at or now, received.receive_count, received.body)
    decoded = decode(message.body, message.arrived_at)
    if decoded.events:
        return "raw", _Line(message, write_line(message)), decoded.rejections
    return "quarantine", _Line(message, write_quarantine_line(message, decoded.rejections)), decoded.rejections


async def _put(
    intake: Intake, kind: Kind, lines: Sequence[_Line], deadline: datetime | None
) -> Mapping[str, Exception]:
    """Put lines into one object, or where the store refuses that, into several.

    | what the store says | what happens |
    |---|---|
    | it is kept, or was before | done |
    | `Retryable` or `Invalid` of several lines | both halves are tried |
    | `Retryable` of both halves | the store is away: the lines of both go back |
    | the same of a single line, or too late | it goes back |
    | anything else, such as `Misconfigured` | all go back |

    Returns:
        Why messages were not kept, by id.
    """
    error = await _put_once(intake, kind, lines, deadline)
    if error is None:
        return {}
    return await _put_in_halves(intake, kind, lines, deadline, error)


async def _put_in_halves(
    intake: Intake, kind: Kind, lines: Sequence[_Line], deadline: datetime | None, error: Exception
) -> Mapping[str, Exception]:
    """Put lines that were refused together."""
    if len(lines) == 1 or not isinstance(error, Retryable | Invalid):
        return {line.message.message_id: error for line in lines}
    middle = len(lines) // 2
    halves = [(half, await _put_once(intake, kind, half, deadline)) for half in (lines[:middle], lines[middle:])]
    is_away = all(isinstance(refusal, Retryable) for _, refusal in halves)
    failures: dict[str, Exception] = {}
    for half, refusal in halves:
        if refusal is None:
            continue
        if is_away:
            failures |= {line.message.message_id: refusal for line in half}
        else:
            failures |= await _put_in_halves(intake, kind, half, deadline, refusal)
    return failures


async def _put_once(intake: Intake, kind: Kind, lines: Sequence[_Line], deadline: datetime | None) -> Exception | None:
    """Put lines into one object, before the deadline; give what went wrong."""
    if not lines:
        return None
    left = None if deadline is None else (deadline - intake.clock.now()).total_seconds()
    if left is not None and left <= 0:
        return Unavailable("object store", "no time was left to ask it")
    name = object_name(kind, [line.message for line in lines])
    try:
        async with asyncio.timeout(left):
            await intake.objects.put(name, join_lines([line.text for line in lines]))
    except TimeoutError:
        return Unavailable("object store", "it did not answer in time")
    except Exception as error:  # noqa: BLE001 - whatever it is, these messages go back and the others are kept
        return error
    return None


def _report(
    intake: Intake,
    ids: Sequence[str],
    lines: Mapping[Kind, Sequence[_Line]],
    failures: Mapping[str, Exception],
    rejections: Mapping[str, Sequence[Rejection]],
) -> IntakeReport:
    kept = {kind: {line.message.message_id for line in of_kind} - failures.keys() for kind, of_kind in lines.items()}
    returned = [message_id for message_id in ids if not any(message_id in of_kind for of_kind in kept.values())]
    stored, quarantined = len(kept["raw"]), len(kept["quarantine"])
    for outcome, number in (("stored", stored), ("quarantined", quarantined), ("returned", len(returned))):
        intake.metrics.count("intake_processed_messages_total", number, outcome=outcome)
    rejected = {message_id: reasons for message_id, reasons in rejections.items() if message_id not in failures}
    intake.metrics.count("intake_rejections_total", sum(len(reasons) for reasons in rejected.values()))
    return IntakeReport(len(ids), stored, quarantined, returned, failures, rejected)
