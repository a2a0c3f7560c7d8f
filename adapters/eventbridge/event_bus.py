"""The event bus on EventBridge (ports/event_bus.py; FC-21)."""

import asyncio
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from adapters.aws.clients import Aws, together
from adapters.aws.errors import is_transient
from domain.envelope import Envelope
from domain.errors import InterlockError, Invalid, Misconfigured, Unavailable
from domain.eventbridge import BusEntry, refusal, requests, to_entry
from domain.retry import RetryRule

if TYPE_CHECKING:
    from mypy_boto3_events.type_defs import PutEventsRequestEntryTypeDef

_RIGHTS: Final = frozenset(
    {"AccessDeniedException", "NotAuthorizedForDetailTypeException", "NotAuthorizedForSourceException"}
)


class EventBridgeBus:
    """A bus.

    PutEvents answers 200 although it refused some entries. Those are told apart:

    | code of the entry | answer |
    |---|---|
    | none | taken |
    | throttled, a fault of the service | sent again alone, a few times; then `Unavailable` |
    | no right to publish this source or type | `Misconfigured` |
    | all else: the sender's fault | `Invalid`, at once |

    A request without an answer is not sent again here, beyond boto3's own attempts: EventBridge may have taken it.

    Args:
        aws: the clients.
        name: or ARN of the bus.
        retry: how often and how fast refused entries are sent again.
    """

    def __init__(self, aws: Aws, name: str, *, retry: RetryRule | None = None) -> None:
        self._events = aws.events
        self._name = name
        self._retry = retry or RetryRule()

    async def publish(self, events: Sequence[Envelope], /) -> list[InterlockError | None]:
        """Publish events, ten or a megabyte a request and the requests side by side; see the port."""
        answers = [refusal(event) for event in events]
        entries = [to_entry(event) for event in events]
        waiting = [index for index, answer in enumerate(answers) if answer is None]
        attempt = 0
        while waiting:
            batches = [[waiting[place] for place in batch] for batch in requests([entries[at] for at in waiting])]
            told = await together([self._send([entries[index] for index in batch]) for batch in batches])
            waiting = []
            for batch, answer in zip(batches, told, strict=True):
                for index, outcome in zip(batch, answer, strict=True):
                    answers[index] = outcome
                    if isinstance(outcome, _Refused):
                        waiting.append(index)
            attempt += 1
            seconds = self._retry.wait(attempt, random.random())  # noqa: S311 - spreads the senders, guards nothing
            if seconds is None or not waiting:
                break
            await asyncio.sleep(seconds)
        return answers

    async def _send(self, entries: Sequence[BusEntry]) -> list[InterlockError | None]:
        wanted = [self._entry(entry) for entry in entries]
        try:
            answer = await self._events.call(lambda events: events.put_events(Entries=wanted))
        except InterlockError as error:
            return [error] * len(entries)
        told = answer["Entries"]
        if len(told) != len(entries):
            return [Unavailable("EventBridge", "not every entry of a request was answered")] * len(entries)
        return [_outcome(entry.get("ErrorCode")) for entry in told]

    def _entry(self, entry: BusEntry) -> "PutEventsRequestEntryTypeDef":
        wanted: PutEventsRequestEntryTypeDef = {
            "EventBusName": self._name,
            "Source": entry.source,
            "DetailType": entry.detail_type,
            "Detail": entry.detail,
            "Resources": list(entry.resources),
        }
        if entry.time is not None:
            wanted["Time"] = entry.time
        return wanted


class _Refused(Unavailable):
    """EventBridge answered that it did not take an entry, and may take it later."""


def _outcome(code: str | None) -> InterlockError | None:
    if not code:
        return None
    if is_transient(code):
        return _Refused("EventBridge", f"one entry of a request was answered {code}")
    if code in _RIGHTS:
        return Misconfigured("EventBridge", f"one entry of a request was refused: {code}")
    return Invalid("event", f"EventBridge refused it: {code}")
