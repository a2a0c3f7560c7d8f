"""Questions that come close together are answered as one, each with its own answer; few never wait for many."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from application.gathering import HOLD, MOST, PROBE, WORTH, Gathering
from tests.virtual_time import run


class Asked:
    """Answers with the group and the question, after a time, and keeps what was asked together."""

    def __init__(self, seconds: float = 0.001) -> None:
        self.seconds = seconds
        self.rounds: list[tuple[str, list[Any]]] = []
        self.ended = 0
        self.gathering = Gathering(self.answer)

    async def answer(self, group: str, questions: list[Any]) -> list[tuple[str, Any]]:
        self.rounds.append((group, questions))
        try:
            await asyncio.sleep(self.seconds)
            if "mistake" in questions:
                raise LookupError("a fault of ours")
            return [(group, question) for question in questions]
        finally:
            self.ended += 1

    async def ask_all(self, *questions: Any, group: str = "g") -> float:
        """Ask all at once, and give how long it took."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        answers = await asyncio.gather(*(self.gathering.ask(group, question) for question in questions))
        assert answers == [(group, question) for question in questions]
        return loop.time() - start


@given(
    st.lists(
        st.tuples(st.floats(0, 0.02), st.sampled_from("xyz"), st.floats(0, 0.01) | st.none()), min_size=1, max_size=60
    ),
    st.floats(0, 0.005),
)
def test_everybody_gets_the_answer_to_his_own_question(
    asks: list[tuple[float, str, float | None]], seconds: float
) -> None:
    """At any times, some of them cancelled on the way: nothing is answered twice, late, or to another."""
    asked = Asked(seconds)

    async def ask(number: int, wait: float, group: str, patience: float | None) -> None:
        await asyncio.sleep(wait)
        start = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(patience):
                assert await asked.gathering.ask(group, number) == (group, number)
        except TimeoutError:
            assert patience is not None
        assert asyncio.get_running_loop().time() - start <= HOLD + seconds + 1e-9

    async def work() -> None:
        await asyncio.gather(*(ask(number, *one) for number, one in enumerate(asks)))

    run(work())
    told = [number for _, questions in asked.rounds for number in questions]
    assert len(told) == len(set(told)), "a question is asked once"
    assert {number for number, (_, _, patience) in enumerate(asks) if patience is None} <= set(told)
    assert asked.ended == len(asked.rounds)


def test_who_asks_alone_waits_for_nobody_but_once_in_a_while() -> None:
    asked = Asked()

    async def work() -> list[float]:
        return [await asked.ask_all(number) for number in range(3 * PROBE)]

    took, _ = run(work())
    waited = [number for number, seconds in enumerate(took, 1) if seconds > asked.seconds + 1e-9]
    assert waited == [PROBE, 2 * PROBE, 3 * PROBE]
    assert max(took) == pytest.approx(HOLD + asked.seconds)


def test_those_who_come_together_are_asked_together() -> None:
    asked = Asked()

    async def work() -> None:
        await asked.ask_all(*range(20))

    run(work())
    assert asked.rounds == [("g", list(range(20)))]


async def _trickle(asked: Asked, number: int, pause: float) -> float:
    """Ask one after the other without waiting for answers."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    tasks = []
    for question in range(number):
        tasks.append(asyncio.create_task(asked.gathering.ask("g", question)))
        await asyncio.sleep(pause)
    await asyncio.gather(*tasks)
    return loop.time() - start


def test_many_that_come_one_by_one_are_found_and_then_gathered() -> None:
    asked = Asked()
    run(_trickle(asked, 3000, HOLD / 10))
    sizes = [len(questions) for _, questions in asked.rounds]
    assert set(sizes[: PROBE - 1]) == {1}, "nobody knew"
    assert min(sizes[PROBE : 2 * PROBE]) >= WORTH


def test_few_that_come_one_by_one_are_not_held() -> None:
    asked = Asked()
    run(_trickle(asked, 10 * PROBE, HOLD / (WORTH - 1)))
    sizes = [len(questions) for _, questions in asked.rounds]
    assert sizes.count(1) >= 0.9 * len(sizes)


def test_a_round_is_over_when_as_many_have_come_as_last_time() -> None:
    asked = Asked()

    async def work() -> list[float]:
        return [await asked.ask_all(*range(WORTH)) for _ in range(PROBE)]

    took, _ = run(work())
    assert took[:-1] == pytest.approx([asked.seconds] * (PROBE - 1))
    assert took[-1] == pytest.approx(HOLD + asked.seconds), "unless it is time to look whether there are more"


def test_a_round_has_a_bound() -> None:
    asked = Asked()

    async def work() -> None:
        for _ in range(PROBE - 1):
            await asked.ask_all(0)
        questions = [asyncio.create_task(asked.gathering.ask("g", number)) for number in range(MOST)]
        await asyncio.sleep(asked.seconds + HOLD / 10)
        assert all(question.done() for question in questions), "it did not wait any longer"

    run(work())


def test_no_round_is_larger_than_its_bound_however_many_come_at_once() -> None:
    asked = Asked()

    async def work() -> None:
        await asked.ask_all(*range(3 * MOST + 1))

    run(work())
    assert [len(questions) for _, questions in asked.rounds] == [MOST, MOST, MOST, 1]
    assert [number for _, questions in asked.rounds for number in questions] == list(range(3 * MOST + 1))


def test_groups_are_asked_apart() -> None:
    asked = Asked()

    async def work() -> None:
        await asyncio.gather(asked.ask_all(1, 2, group="x"), asked.ask_all(3, group="y"))

    run(work())
    assert asked.rounds == [("x", [1, 2]), ("y", [3])]


def test_those_who_share_no_group_are_not_held() -> None:
    asked = Asked()

    async def work() -> list[float]:
        tasks = []
        for question in range(3000):
            tasks.append(asyncio.create_task(asked.ask_all(question, group=str(question))))
            await asyncio.sleep(HOLD / 10)
        return await asyncio.gather(*tasks)

    took, _ = run(work())
    assert sum(seconds > asked.seconds + 1e-9 for seconds in took) <= 0.2 * len(took)


def test_who_is_alone_in_his_group_ends_his_question_as_he_goes() -> None:
    asked = Asked(seconds=1)

    async def work() -> None:
        tasks = [asyncio.create_task(asked.gathering.ask(str(number), number)) for number in range(3)]
        await asyncio.sleep(0.1)
        tasks[0].cancel()
        await asyncio.wait([tasks[0]])
        assert asked.ended == 1
        assert await asyncio.gather(*tasks[1:]) == [("1", 1), ("2", 2)]

    run(work())


def test_a_failure_is_raised_where_it_was_asked_and_ends_there() -> None:
    asked = Asked()

    async def work() -> list[Any]:
        both = (asked.gathering.ask("g", question) for question in ("mistake", "other"))
        told = await asyncio.gather(*both, asked.gathering.ask("h", 1), return_exceptions=True)
        return [*told, await asked.gathering.ask("g", 2)]

    told, _ = run(work())
    assert [type(one) for one in told[:2]] == [LookupError, LookupError]
    assert told[2:] == [("h", 1), ("g", 2)]


def test_who_goes_before_he_is_asked_is_not_asked() -> None:
    asked = Asked()

    async def work() -> None:
        for _ in range(PROBE - 1):
            await asked.ask_all(0)
        gone, alone, stays = (asyncio.create_task(asked.gathering.ask(group, 1)) for group in "ghg")
        await asyncio.sleep(0)
        gone.cancel()
        alone.cancel()
        assert await stays == ("g", 1)
        assert gone.cancelled()
        assert alone.cancelled()

    run(work())
    assert asked.rounds[PROBE - 1 :] == [("g", [1])]


@pytest.mark.parametrize("stays", [False, True])
def test_answering_ends_when_all_who_asked_have_gone(stays: bool) -> None:  # noqa: FBT001
    asked = Asked(seconds=1)

    async def work() -> None:
        tasks = [asyncio.create_task(asked.gathering.ask("g", number)) for number in range(3)]
        await asyncio.sleep(0.1)
        for task in tasks[stays:]:
            task.cancel()
        await asyncio.wait(tasks[1:])
        assert asked.ended == (not stays)
        if stays:
            assert await tasks[0] == ("g", 0)

    _, took = run(work())
    assert took == pytest.approx(1 if stays else 0.1)


def test_a_cancellation_from_within_reaches_all_who_asked() -> None:
    async def cancelled(_: str, __: list[int]) -> list[int]:
        raise asyncio.CancelledError

    async def work() -> None:
        gathering: Gathering[str, int, int] = Gathering(cancelled)
        for _ in range(2):
            with pytest.raises(asyncio.CancelledError):
                await gathering.ask("g", 1)

    run(work())


def test_a_round_of_an_earlier_loop_holds_up_nobody() -> None:
    asked = Asked()

    async def leave() -> None:
        for _ in range(PROBE - 1):
            await asked.ask_all(0)
        task = asyncio.create_task(asked.gathering.ask("g", 1))
        await asyncio.sleep(HOLD / 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def come() -> float:
        return await asked.ask_all(2)

    loops: list[Callable[[], Any]] = [leave, come]
    for work in loops:
        run(work())
    assert asked.rounds[-1] == ("g", [2])
