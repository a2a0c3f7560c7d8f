"""Working through a batch from a queue: in order within a group, groups in parallel (R-107, FC-48)."""

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from application.ingest import Ingested, ingest
from application.move import apply_message, note_dead_letter
from application.platform import Platform
from domain.envelope import Envelope, read_envelope, require_subject
from domain.errors import InterlockError
from domain.fifo import lanes, to_return
from domain.messages import LifecycleMessage, Received, read_message

MAX_PARALLEL: Final = 64


class BatchReport(NamedTuple):
    """What became of a batch, by message id: received = sum of `tally` + returned.

    Attributes:
        tally: how many messages were `done`, `duplicate`, or `rejected` by the lifecycle.
        returned: ids that go back to the queue, in the order of the batch: the failed ones, the later ones of
            their groups, and those for which no time was left.
        failures: why messages failed, by id.
    """

    received: int
    tally: Mapping[str, int]
    returned: Sequence[str]
    failures: Mapping[str, Exception]


async def apply_batch(
    platform: Platform, batch: Sequence[Received], *, max_receives: int, deadline: datetime | None = None
) -> BatchReport:
    """Apply a batch of lifecycle messages.

    A group stops at its first failure; the others carry on. A message that fails for the last time, before the
    queue sends it to its dead-letter queue, is noted beside the history of its event, and its group goes on at once:
    the later messages of the batch were received as often as it was, and would follow it unread (FC-48).

    Args:
        platform: the ports and rules.
        batch: messages in the order in which they were received.
        max_receives: how often the queue hands out a message before it dead-letters it; the queue's own figure.
        deadline: when to start no further message; what is left is returned.

    Returns:
        The report. Failures of single messages are in it, never raised.
    """
    outcomes: dict[str, str] = {}
    failures: dict[str, Exception] = {}
    spent: set[str] = set()
    room = asyncio.Semaphore(MAX_PARALLEL)

    async def run(lane: Sequence[Received]) -> None:
        async with room:
            for received in lane:
                if deadline is not None and platform.clock.now() >= deadline:
                    return
                message: LifecycleMessage | None = None
                try:
                    message = read_message(received.body)
                    outcome = await apply_message(platform, message)
                except Exception as error:  # noqa: BLE001 - one message's failure, even by a bug, must not stop other groups
                    failures[received.message_id] = error
                    if received.receive_count < max_receives:
                        return
                    spent.add(received.message_id)
                    if message is not None:
                        await _note(platform, message, error)
                    continue
                outcomes.setdefault(received.message_id, outcome)

    async with asyncio.TaskGroup() as tasks:
        for lane in lanes(batch):
            tasks.create_task(run(lane))
    return _report(platform, batch, outcomes, failures, spent)


async def ingest_batch(platform: Platform, batch: Sequence[Received]) -> BatchReport:
    """Ingest a batch of messages whose bodies are envelopes: the machine feed.

    A body that is no envelope, and an event that could not be recorded and notified, go back to the queue; on a
    FIFO feed the later messages of their groups go back with them.

    Raises:
        Unavailable: the store did not answer; nothing was accepted and the whole batch may be delivered again.
    """
    now = platform.clock.now()
    envelopes: dict[str, Envelope] = {}
    failures: dict[str, Exception] = {}
    for lane in lanes(batch):
        for received in lane:
            try:
                envelope = read_envelope(received.body.encode(errors="surrogatepass"), now)
                require_subject(envelope)
            except InterlockError as error:
                failures[received.message_id] = error
                break
            envelopes[received.message_id] = envelope
    outcomes: dict[str, str] = {}
    answers = await ingest(platform, list(envelopes.values()))
    for message_id, answer in zip(envelopes, answers, strict=True):
        if isinstance(answer, Ingested):
            outcomes[message_id] = "done" if answer.outcome == "new" else "duplicate"
        else:
            failures[message_id] = answer
    return _report(platform, batch, outcomes, failures)


async def _note(platform: Platform, message: LifecycleMessage, error: Exception) -> None:
    reason = error.code if isinstance(error, InterlockError) else type(error).__name__
    try:
        await note_dead_letter(platform, message, reason)
    except InterlockError as unnoted:
        platform.metrics.count("unnoted_dead_letters_total", code=unnoted.code)


def _report(
    platform: Platform,
    batch: Sequence[Received],
    outcomes: dict[str, str],
    failures: dict[str, Exception],
    spent: Collection[str] = (),
) -> BatchReport:
    ids = dict.fromkeys(message.message_id for message in batch)
    handled = outcomes.keys() - failures.keys()
    returned = to_return(batch, ids.keys() - handled, spent)
    tally = Counter(outcome for message_id, outcome in outcomes.items() if message_id not in set(returned))
    for outcome, number in {**tally, "returned": len(returned)}.items():
        platform.metrics.count("consumed_messages_total", number, outcome=outcome)
    return BatchReport(len(ids), tally, returned, failures)
