"""Rules of FIFO batches and of the ids that SQS and SNS take (R-106, R-107, FC-48).

Within a group messages are handled strictly in order. When one fails, it and every later message of its group
go back unprocessed; the other groups carry on.
"""

import hashlib
import re
from collections.abc import Collection, Sequence
from typing import Final, Protocol, TypeVar

_SQS_ID: Final = re.compile(r"[A-Za-z0-9!-/:-@\[-`{-~]{1,128}", re.ASCII)
_DIGEST_PREFIX: Final = "sha256:"


class Grouped(Protocol):
    """A message's place in a batch: its id and its group; None is a message that belongs to no group."""

    @property
    def message_id(self) -> str:
        """What names it in an answer."""
        ...

    @property
    def group_id(self) -> str | None:
        """What it is ordered within."""
        ...


M = TypeVar("M", bound=Grouped)


def lanes(batch: Sequence[M]) -> list[list[M]]:
    """Split a batch into lanes: one a group, in order; a message without a group has a lane of its own.

    Lanes may run in parallel; within a lane one message follows the other.
    """
    groups: dict[str | int, list[M]] = {}
    for index, message in enumerate(batch):
        groups.setdefault(index if message.group_id is None else message.group_id, []).append(message)
    return list(groups.values())


def to_return(batch: Sequence[Grouped], failed: Collection[str], spent: Collection[str] = ()) -> list[str]:
    """Say which messages go back: the failed ones, and all later ones of their groups.

    Args:
        batch: the messages as they were received.
        failed: ids of messages whose handling failed.
        spent: those of them that failed for the last time: the queue sends them to its dead-letter queue instead of
            handing them out again, so they hold nothing back.

    Returns:
        Ids in the order of the batch, each once.
    """
    returned: set[str] = set()
    for lane in lanes(batch):
        blocked = False
        for message in lane:
            lost = message.message_id in failed
            blocked = blocked or (lost and message.message_id not in spent)
            if blocked or lost:
                returned.add(message.message_id)
    return [
        message_id for message_id in dict.fromkeys(message.message_id for message in batch) if message_id in returned
    ]


def message_group_id(entity: str) -> str:
    """Give the MessageGroupId of an entity: itself where SQS takes it, else a digest.

    SQS takes 1-128 letters, digits and ASCII punctuation. An entity that looks like one of our digests is
    digested too, so that no two entities share a group.
    """
    if _SQS_ID.fullmatch(entity) and not entity.startswith(_DIGEST_PREFIX):
        return entity
    return _DIGEST_PREFIX + hashlib.sha256(entity.encode()).hexdigest()
