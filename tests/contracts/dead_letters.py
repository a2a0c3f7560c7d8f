"""What every dead-letter queue promises (ports/dead_letters.py); subclass and provide the `graveyard` fixture."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

import pytest

from adapters.memory.clock import ManualClock
from adapters.system.clock import SystemClock
from domain.dead_letters import DeadLetter
from domain.errors import StaleReceipt
from domain.messages import Outgoing, Received
from ports.dead_letters import DeadLetters
from ports.message_queue import MessageQueue
from tests.examples import START

pytestmark = pytest.mark.anyio


@dataclass
class Graveyard:
    """A queue with dead letters.

    Attributes:
        bury: puts messages straight among the dead letters.
        another: a second look at the same letters, as from another process.
    """

    letters: DeadLetters
    another: DeadLetters
    queue: MessageQueue
    dead: MessageQueue
    bury: Callable[[Sequence[Outgoing]], Awaitable[None]]


def one(group: str, name: str) -> Outgoing:
    return Outgoing(group, f"{group}-{name}", f'{{"id":"{name}"}}')


async def seen(letters: DeadLetters) -> list[DeadLetter]:
    async with aclosing(letters.pages()) as pages:
        return [letter async for page in pages for letter in page]


def bodies(messages: Sequence[DeadLetter | Received]) -> list[str]:
    return [message.body for message in messages]


class DeadLettersContract:
    """One class of tests an engine."""

    adapter: ClassVar[str]

    async def test_r503_looking_changes_nothing(self, graveyard: Graveyard) -> None:
        buried = [one(group, str(number)) for number in range(3) for group in "AB"]
        await graveyard.bury(buried)
        assert await graveyard.letters.waiting() == 6
        found: list[DeadLetter] = []
        for _ in range(2):
            found = await seen(graveyard.letters)
            assert sorted(bodies(found)) == sorted(message.body for message in buried)
            for group in "AB":
                assert [one.body for one in found if one.group_id == group] == [f'{{"id":"{n}"}}' for n in range(3)]
        assert len({letter.message_id for letter in found}) == 6
        assert await graveyard.queue.receive(10, 0) == []

    async def test_r503_a_letter_says_when_it_was_sent(self, graveyard: Graveyard) -> None:
        await graveyard.bury([one("A", "1")])
        (letter,) = await seen(graveyard.letters)
        assert letter.sent_at is not None
        clock = SystemClock() if self.adapter.startswith("adapters.sqs") else ManualClock(START)
        assert abs(clock.now() - letter.sent_at) < timedelta(minutes=1)

    async def test_r503_looking_can_end_at_any_page_and_hides_nothing_after_it(self, graveyard: Graveyard) -> None:
        await graveyard.bury([one(f"G{number}", str(number)) for number in range(12)])
        async with aclosing(graveyard.letters.pages()) as pages:
            assert await anext(pages)
        assert len(await seen(graveyard.another)) == 12

    async def test_r503_letters_go_back_in_order_with_their_groups_and_bodies(self, graveyard: Graveyard) -> None:
        note = '{"note":"salt & pepper","q":"a=1&b","p":"1+1","u":"日本😀","nl":"a\\nb"}'
        buried = [one("A", "1"), Outgoing("A", "A-2", note), one("A", "3"), one("B", "1")]
        await graveyard.bury(buried)
        async with aclosing(graveyard.letters.pages()) as pages:
            async for page in pages:
                assert await graveyard.letters.redrive(page) == [None] * len(page)
        assert await graveyard.letters.waiting() == 0
        received: list[Received] = []
        while batch := await graveyard.queue.receive(10, 1):
            received += batch
            assert await graveyard.queue.delete(batch) == []
        for group in "AB":
            assert [m.body for m in received if m.group_id == group] == [m.body for m in buried if m.group_id == group]
        assert {message.receive_count for message in received} == {1}

    async def test_r503_what_is_not_chosen_stays(self, graveyard: Graveyard) -> None:
        await graveyard.bury([one("A", "1"), one("B", "1"), one("C", "1")])
        async with aclosing(graveyard.letters.pages()) as pages:
            async for page in pages:
                await graveyard.letters.redrive([letter for letter in page if letter.group_id == "B"])
        assert [letter.group_id for letter in await graveyard.queue.receive(10, 1)] == ["B"]
        assert sorted(letter.group_id or "" for letter in await seen(graveyard.another)) == ["A", "C"]

    async def test_r503_a_letter_that_somebody_else_took_is_not_called_redriven(self, graveyard: Graveyard) -> None:
        await graveyard.bury([one("A", "1")])
        async with aclosing(graveyard.letters.pages()) as pages:
            (letter,) = await anext(pages)
            assert await graveyard.letters.redrive([letter]) == [None]
            (error,) = await graveyard.letters.redrive([letter])
        assert isinstance(error, StaleReceipt)
        assert len(await graveyard.queue.receive(10, 1)) == 1, "the second time it must not come again"

    async def test_nothing_there_is_an_empty_answer(self, graveyard: Graveyard) -> None:
        assert await graveyard.letters.waiting() == 0
        assert await seen(graveyard.letters) == []
        assert await graveyard.letters.redrive([]) == []
