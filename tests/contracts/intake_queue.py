"""What every intake queue promises (ports/intake_queue.py). Subclass it and provide the `front` fixture."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pytest

from domain.errors import Invalid, TooLarge
from domain.intake import MAX_MESSAGE_BYTES
from domain.messages import Received
from ports.intake_queue import IntakeQueue

pytestmark = pytest.mark.anyio

FC35 = (
    '{"note":"salt & pepper","q":"a=1&DelaySeconds=900","p":"1+1","pct":"100%41",'
    '"u":"日本😀","nl":"a\\nb","vtl":"$util.x #set($y=1)"}'
)


@dataclass
class Front:
    """A queue and its dead letters.

    Attributes:
        visibility_seconds: after which an undeleted message is handed out again.
        max_receives: how often a message is handed out at most.
        let_pass: lets so many seconds pass on the engine's clock.
        now: what the engine's clock says.
    """

    queue: IntakeQueue
    dead_letters: IntakeQueue
    visibility_seconds: float
    max_receives: int
    let_pass: Callable[[float], Awaitable[None]]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


async def take(queue: IntakeQueue, number: int, limit: int = 1000) -> list[Received]:
    """Take messages until so many are in hand: a standard queue may give fewer than there are at a time."""
    found: list[Received] = []
    for _ in range(100):
        found += await queue.receive(limit, 0)
        if len(found) >= number:
            break
    return found


class IntakeQueueContract:
    """One class of tests an adapter.

    Attributes:
        adapter: the module under test.
        after_timeout: the receive count of a message that comes again because its consumer said nothing.
        many: messages that the engine gives out before the first is visible again.
    """

    adapter: ClassVar[str]
    after_timeout: ClassVar[int] = 1
    many: ClassVar[int] = 1000

    async def test_r501_ids_are_given_for_messages_that_are_then_in_the_queue(self, front: Front) -> None:
        before = front.now()
        bodies = [f'{{"number":{number}}}' for number in range(25)]
        ids = await front.queue.send(bodies)
        assert len(set(ids)) == 25
        found = await take(front.queue, 25)
        assert {one.message_id: one.body for one in found} == dict(zip(ids, bodies, strict=True))
        assert {one.receive_count for one in found} == {1}
        for one in found:
            assert one.sent_at is not None
            assert before - timedelta(seconds=2) <= one.sent_at <= front.now() + timedelta(seconds=2)
        assert await front.queue.delete(found) == []
        assert await front.queue.receive(10, 0) == []

    async def test_equal_texts_are_messages_of_their_own(self, front: Front) -> None:
        ids = await front.queue.send(["{}", "{}", "{}"])
        assert sorted(one.message_id for one in await take(front.queue, 3)) == sorted(ids)

    async def test_fc35_texts_come_back_as_they_were(self, front: Front) -> None:
        bodies = [FC35, '{"nl":"a\nb\t"}', " \r\n{}", '{"x":"' + "é" * 5000 + '"}', "H4sIAAAA+/=="]
        ids = await front.queue.send(bodies)
        found = {one.message_id: one.body for one in await take(front.queue, len(bodies))}
        assert [found[message_id] for message_id in ids] == bodies

    async def test_fc34_what_a_queue_does_not_carry_is_refused_before_anything_is_sent(self, front: Front) -> None:
        for bad in ("", "a\x00b", "\ufffe", "\ud800"):
            with pytest.raises(Invalid) as caught:
                await front.queue.send(["{}", bad])
            assert caught.value.steps[0] == 1
        assert await front.queue.receive(10, 0) == []

    async def test_fc33_a_text_over_the_limit_is_refused_with_size_and_limit(self, front: Front) -> None:
        with pytest.raises(TooLarge) as caught:
            await front.queue.send(["{}", "é" * (MAX_MESSAGE_BYTES // 2) + "x"])
        assert (caught.value.size, caught.value.limit) == (MAX_MESSAGE_BYTES + 1, MAX_MESSAGE_BYTES)
        assert await front.queue.receive(10, 0) == []

    async def test_the_largest_text_goes_through_beside_others(self, front: Front) -> None:
        bodies = ["x" * MAX_MESSAGE_BYTES, "{}", "y" * (MAX_MESSAGE_BYTES // 2)]
        ids = await front.queue.send(bodies)
        found = {one.message_id: one.body for one in await take(front.queue, 3)}
        assert [found[message_id] for message_id in ids] == bodies

    async def test_released_messages_come_again_and_are_counted(self, front: Front) -> None:
        await front.queue.send(["{}", "[]"])
        held = await take(front.queue, 2)
        assert await front.queue.receive(10, 0) == []
        kept = [one for one in held if one.body == "[]"]
        assert await front.queue.delete(kept) == []
        await front.queue.release([one for one in held if one not in kept])
        (again,) = await take(front.queue, 1)
        assert (again.body, again.receive_count) == ("{}", 2)
        assert again.sent_at == next(one.sent_at for one in held if one not in kept)

    async def test_a_message_comes_again_when_its_time_is_over(self, front: Front) -> None:
        (sent,) = await front.queue.send(["{}"])
        await take(front.queue, 1)
        await front.let_pass(front.visibility_seconds + 0.1)
        (again,) = await front.queue.receive(10, 1)
        assert (again.message_id, again.receive_count) == (sent, self.after_timeout)
        assert await front.queue.delete([again]) == []

    async def test_r503_after_its_last_attempt_a_message_is_a_dead_letter_with_its_text(self, front: Front) -> None:
        (sent,) = await front.queue.send(['{"poison":1}'])
        for number in range(front.max_receives):
            (held,) = await take(front.queue, 1)
            assert (held.message_id, held.receive_count) == (sent, number + 1)
            await front.queue.release([held])
        assert await front.queue.receive(10, 0) == []
        (dead,) = await front.dead_letters.receive(10, 1)
        assert (dead.message_id, dead.body) == (sent, '{"poison":1}')

    async def test_r502_a_whole_batch_is_taken_and_deleted(self, front: Front) -> None:
        ids = await front.queue.send([f"[{number}]" for number in range(self.many)])
        found = await take(front.queue, self.many)
        assert sorted(one.message_id for one in found) == sorted(ids)
        assert await front.queue.delete(found) == []
        assert await front.queue.receive(10, 0) == []

    async def test_no_more_than_asked_for_is_handed_out(self, front: Front) -> None:
        await front.queue.send(["{}"] * 30)
        assert 0 < len(await front.queue.receive(3, 0)) <= 3
        assert 0 < len(await front.queue.receive(17, 0)) <= 17

    async def test_nothing_is_an_empty_answer(self, front: Front) -> None:
        assert await front.queue.send([]) == []
        assert await front.queue.receive(10, 0) == []
        assert await front.queue.delete([]) == []
        await front.queue.release([])
