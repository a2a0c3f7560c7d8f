"""What every publisher and queue promise together (ports/publisher.py, ports/message_queue.py).

Subclass and provide the `topic` fixture. Engines with a clock of their own let time pass for real.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar

import pytest

from domain.errors import Retryable, TooLarge
from domain.messages import Outgoing, Received
from ports.message_queue import MessageQueue
from ports.publisher import Publisher

pytestmark = pytest.mark.anyio


@dataclass
class Topic:
    """A topic with a queue that subscribes to it, and the queue's dead-letter queue.

    Attributes:
        visibility_seconds: after which an undeleted message is handed out again.
        max_receives: how often a message is handed out at most.
        let_pass: lets so many seconds pass on the engine's clock.
    """

    publisher: Publisher
    queue: MessageQueue
    dead_letters: MessageQueue
    visibility_seconds: float
    max_receives: int
    let_pass: Callable[[float], Awaitable[None]]


def message(group: str, name: str, body: str = "{}") -> Outgoing:
    return Outgoing(group, f"{group}-{name}", body if body != "{}" else f'{{"name":"{name}"}}')


def names(received: list[Received]) -> list[str]:
    return [one.body.partition('":"')[2].partition('"')[0] for one in received]


async def drain(queue: MessageQueue, wait: float = 0) -> list[Received]:
    """Take and delete everything that can be had."""
    found: list[Received] = []
    while batch := await queue.receive(10, wait):
        assert await queue.delete(batch) == []
        found += batch
    return found


class TopicContract:
    """One class of tests an engine.

    Attributes:
        after_timeout: the receive count of a message that comes again because its consumer said nothing.
    """

    adapters: ClassVar[tuple[str, ...]]
    wait: ClassVar[float] = 0
    after_timeout: ClassVar[int] = 1

    async def test_r106_messages_arrive_once_with_their_group(self, topic: Topic) -> None:
        sent = [message("A", "1"), message("B", "1"), message("A", "2")]
        assert await topic.publisher.publish(sent) == [None, None, None]
        found = await drain(topic.queue, self.wait)
        assert sorted((one.group_id, one.body) for one in found) == sorted((one.group_id, one.body) for one in sent)
        assert len({one.message_id for one in found}) == 3
        assert {one.receive_count for one in found} == {1}
        assert await topic.queue.receive(10, 0) == []

    async def test_r107_a_group_comes_in_order(self, topic: Topic) -> None:
        sent = [message(group, str(number)) for number in range(25) for group in "ABC"]
        assert set(await topic.publisher.publish(sent)) == {None}
        found = await drain(topic.queue, self.wait)
        for group in "ABC":
            assert names([one for one in found if one.group_id == group]) == [str(number) for number in range(25)]

    async def test_r107_while_a_group_is_in_flight_only_others_are_handed_out(self, topic: Topic) -> None:
        await topic.publisher.publish([message("A", "1"), message("A", "2"), message("A", "3")])
        held = await topic.queue.receive(1, self.wait)
        assert names(held) == ["1"]
        assert await topic.queue.receive(10, 0) == []
        await topic.publisher.publish([message("B", "1")])
        others = await topic.queue.receive(10, self.wait)
        assert [one.group_id for one in others] == ["B"]
        assert await topic.queue.delete(held) == []
        assert names(await topic.queue.receive(10, self.wait)) == ["2", "3"]

    async def test_r106_a_deduplication_id_is_delivered_once_also_after_its_message_is_deleted(
        self, topic: Topic
    ) -> None:
        assert await topic.publisher.publish([message("A", "1"), message("A", "1")]) == [None, None]
        assert names(await drain(topic.queue, self.wait)) == ["1"]
        assert await topic.publisher.publish([message("A", "1"), message("A", "2")]) == [None, None]
        assert names(await drain(topic.queue, self.wait)) == ["2"]

    async def test_released_messages_come_again_in_order(self, topic: Topic) -> None:
        await topic.publisher.publish([message("A", str(number)) for number in range(4)])
        held = await topic.queue.receive(10, self.wait)
        assert names(held) == ["0", "1", "2", "3"]
        assert await topic.queue.delete(held[:1]) == []
        await topic.queue.release(held[1:])
        again = await topic.queue.receive(10, self.wait)
        assert names(again) == ["1", "2", "3"]
        assert {one.receive_count for one in again} == {2}

    async def test_a_message_comes_again_when_its_time_is_over_and_its_old_receipt_is_stale(self, topic: Topic) -> None:
        await topic.publisher.publish([message("A", "1")])
        held = await topic.queue.receive(1, self.wait)
        await topic.let_pass(topic.visibility_seconds + 0.1)
        again = await topic.queue.receive(1, max(self.wait, 1))
        assert names(again) == ["1"]
        assert again[0].receive_count == self.after_timeout
        assert await topic.queue.delete(again) == []
        assert await topic.queue.delete(held) in ([], held)
        assert await topic.queue.receive(1, 0) == []

    async def test_fc48_after_its_last_receive_a_message_goes_to_the_dead_letters_and_its_group_goes_on(
        self, topic: Topic
    ) -> None:
        await topic.publisher.publish([message("A", "poison"), message("A", "next"), message("B", "1")])
        taken: list[str] = []
        for _ in range(topic.max_receives):
            held = [one for one in await topic.queue.receive(10, self.wait) if one.group_id == "A"]
            taken += names(held)[:1]
            await topic.queue.release(held)
        assert taken == ["poison"] * topic.max_receives
        rest = [one for one in await topic.queue.receive(10, self.wait) if one.group_id == "A"]
        dead = await topic.dead_letters.receive(10, max(self.wait, 1))
        assert "poison" not in names(rest)
        assert "poison" in names(dead)
        assert sorted(names(rest) + names(dead)) == ["next", "poison"]
        assert {one.group_id for one in dead} == {"A"}

    async def test_bodies_come_back_as_they_were(self, topic: Topic) -> None:
        bodies = [
            '{"note":"salt & pepper","q":"a=1&b","p":"1+1","u":"日本😀","nl":"a\\nb"}',
            '{"x":"' + "é" * 5000 + '"}',
        ]
        await topic.publisher.publish([Outgoing("A", str(number), body) for number, body in enumerate(bodies)])
        assert [one.body for one in await drain(topic.queue, self.wait)] == bodies

    async def test_fc33_a_body_over_the_limit_is_refused_and_holds_back_its_group_only(self, topic: Topic) -> None:
        huge = '{"x":"' + "x" * topic.publisher.max_bytes + '"}'
        answers = await topic.publisher.publish(
            [message("A", "1"), message("A", "2", huge), message("A", "3"), message("B", "1")]
        )
        assert [answer is None for answer in answers] == [True, False, False, True]
        assert isinstance(answers[1], TooLarge)
        assert isinstance(answers[2], Retryable)
        assert sorted(names(await drain(topic.queue, self.wait))) == ["1", "1"]

    async def test_nothing_waiting_is_an_empty_answer(self, topic: Topic) -> None:
        assert await topic.queue.receive(10, 0) == []
        assert await topic.queue.delete([]) == []
        await topic.queue.release([])
        assert await topic.publisher.publish([]) == []


class EmbeddedTopicContract(TopicContract):
    """What our own engines promise beyond: a consumer that dies says nothing about its messages."""

    max_handouts: ClassVar[int] = 100

    async def test_a_consumer_that_dies_over_and_over_buries_nothing_that_never_failed(self, topic: Topic) -> None:
        await topic.publisher.publish([message("A", str(number)) for number in range(5)] + [message("B", "0")])
        for _ in range(topic.max_receives * 4):
            held = await topic.queue.receive(10, 0)
            assert (len(held), {one.receive_count for one in held}) == (6, {1})
            await topic.let_pass(topic.visibility_seconds + 1)
        assert await topic.dead_letters.receive(10, 0) == []
        assert names(await drain(topic.queue)) in (["0", "1", "2", "3", "4", "0"], ["0", "0", "1", "2", "3", "4"])

    async def test_a_message_that_kills_its_consumers_is_buried_in_the_end(self, topic: Topic) -> None:
        await topic.publisher.publish([message("A", "killer"), message("A", "next")])
        for _ in range(self.max_handouts):
            assert names(await topic.queue.receive(1, 0)) == ["killer"]
            await topic.let_pass(topic.visibility_seconds + 1)
        assert names(await topic.queue.receive(1, 0)) == ["next"]
        assert names(await topic.dead_letters.receive(10, 0)) == ["killer"]

    async def test_failures_count_whatever_dies_in_between(self, topic: Topic) -> None:
        await topic.publisher.publish([message("A", "poison")])
        for number in range(topic.max_receives):
            held = await topic.queue.receive(1, 0)
            assert held[0].receive_count == number + 1
            await topic.let_pass(topic.visibility_seconds + 1)
            again = await topic.queue.receive(1, 0)
            assert again[0].receive_count == number + 1
            await topic.queue.release(again)
        assert await topic.queue.receive(1, 0) == []
        assert names(await topic.dead_letters.receive(1, 0)) == ["poison"]
