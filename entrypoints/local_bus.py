"""What EventBridge does on AWS, on one machine: every event that is ingested becomes activity too (R-401)."""

from collections.abc import Sequence
from typing import Final

from application.activity import ActivityFeed, record
from domain.errors import InterlockError
from domain.messages import EventIngested, Outgoing, read_message
from ports.publisher import Publisher

LOCAL_ACCOUNT: Final = "000000000000"
"""Whose events are that name no account. On AWS, EventBridge says which AWS account published them."""


class LocalBus:
    """A topic before which the activity store stands.

    Activity is recorded first: where that fails nothing is published, and the event is sent again as a whole. Both
    know a copy when they see one.
    """

    def __init__(self, publisher: Publisher, feed: ActivityFeed) -> None:
        """Stand before a topic."""
        self._publisher = publisher
        self._feed = feed

    @property
    def max_bytes(self) -> int:
        """What the topic takes."""
        return self._publisher.max_bytes

    async def publish(self, messages: Sequence[Outgoing], /) -> list[InterlockError | None]:
        """Record the events among messages, then publish all.

        Raises:
            Unavailable: a store did not answer; nothing was published.
        """
        read = [read_message(message.body) for message in messages]
        events = [message.event for message in read if isinstance(message, EventIngested)]
        await record(self._feed, events, account=LOCAL_ACCOUNT)
        return await self._publisher.publish(messages)
