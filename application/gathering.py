"""Questions that come close together, answered as one: most of what a question to a store costs is the way there.

| questions that the last round saved, that is all but one of each group | the next round is answered |
|---|---|
| fewer than `WORTH` | at the end of this turn of the loop |
| more | once as many have come, or after `HOLD` |

Who is the only one of his group in a round asks for himself: no task is made for him.

Every `PROBE`th round takes all of `HOLD`, so that it is noticed when more come than did. Who asks alone, and again when
he has his answer, so waits in vain once in `PROBE` times, and few callers never wait for many.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

G = TypeVar("G", bound=Hashable)
Q = TypeVar("Q")
A = TypeVar("A")

HOLD: Final = 0.002
"""Seconds that a question waits for others. Timers of uvloop are as exact as a millisecond."""

WORTH: Final = 3
"""Questions that must be saved for the next to be held."""

MOST: Final = 256
"""Questions of one round: whatever comes after them in the same turn of the loop belongs to the next one."""

PROBE: Final = 64


class Gathering(Generic[G, Q, A]):
    """The questions of one loop. Those of one group are answered together.

    Args:
        answer: gives the answers to the questions of a group, in order.
    """

    def __init__(self, answer: Callable[[G, list[Q]], Awaitable[list[A]]]) -> None:
        """Nothing is asked yet."""
        self._answer = answer
        self._loop: asyncio.AbstractEventLoop | None = None
        self._round: dict[G, _Asked[Q, A]] = {}
        self._number = 0
        self._size = self._last_size = self._saved = 0
        self._wanted = MOST
        self._end: asyncio.Handle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, group: G, question: Q) -> A:
        """Give the answer to a question. What answering raises, all who asked together get.

        A question whose caller has gone before it is asked is not asked. When all callers of a group have gone,
        answering them ends, and the last of them waits for its end.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # what was to end a round of an earlier loop never comes (FC-22)
            self._loop, self._round, self._size, self._end = loop, {}, 0, None
        if self._end is None:
            self._begin(loop)
        asked = self._round.get(group)
        if asked is None:
            asked = self._round[group] = _Asked()
        answer: asyncio.Future[A | _Alone] = loop.create_future()
        asked.questions.append(question)
        asked.answers.append(answer)
        self._count(loop)
        try:
            told = await answer
        except asyncio.CancelledError:
            if asked.task is not None and all(other.done() for other in asked.answers):
                asked.task.cancel()
                await asyncio.wait([asked.task])
            raise
        if isinstance(told, _Alone):
            (told,) = await self._answer(group, [question])
        return told

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._number += 1
        is_probe = self._number % PROBE == 0
        if is_probe or self._saved >= WORTH:
            self._wanted = MOST if is_probe else self._last_size
            self._end = loop.call_later(HOLD, self._finish, loop)
        else:
            self._wanted = MOST
            self._end = loop.call_soon(self._finish, loop)

    def _count(self, loop: asyncio.AbstractEventLoop) -> None:
        """Count a question; the round is over at once where it is full, and with this turn where as many have come."""
        self._size += 1
        if self._end is None or self._size not in {self._wanted, MOST}:
            return
        self._end.cancel()
        if self._size == MOST:
            self._finish(loop)
        else:
            self._end = loop.call_soon(self._finish, loop)

    def _finish(self, loop: asyncio.AbstractEventLoop) -> None:
        asked_in_all, self._round = self._round, {}
        self._saved = self._size - len(asked_in_all)
        self._last_size, self._size, self._end = self._size, 0, None
        for group, asked in asked_in_all.items():
            if len(asked.answers) == 1:
                if not asked.answers[0].done():
                    asked.answers[0].set_result(_ALONE)
                continue
            asked.task = loop.create_task(self._give(group, asked))
            self._tasks.add(asked.task)
            asked.task.add_done_callback(self._tasks.discard)

    async def _give(self, group: G, asked: "_Asked[Q, A]") -> None:
        pairs = zip(asked.questions, asked.answers, strict=True)
        waiting = [(question, answer) for question, answer in pairs if not answer.done()]
        if not waiting:
            return
        try:
            given = await self._answer(group, [question for question, _ in waiting])
        except asyncio.CancelledError:
            for _, answer in waiting:
                answer.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - it is raised where it was asked
            for _, answer in waiting:
                if not answer.done():
                    answer.set_exception(error)
            return
        for (_, answer), one in zip(waiting, given, strict=True):
            if not answer.done():
                answer.set_result(one)


class _Alone:
    """In place of an answer: nobody else asked, so ask for yourself."""


_ALONE: Final = _Alone()


class _Asked(Generic[Q, A]):
    """What was asked in one round of one group, and the task that answers it once the round is over."""

    def __init__(self) -> None:
        self.questions: list[Q] = []
        self.answers: list[asyncio.Future[A | _Alone]] = []
        self.task: asyncio.Task[None] | None = None
