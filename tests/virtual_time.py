"""An event loop whose time passes only while everybody waits, and then at once: deadlines are exact."""

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop with a clock of its own, for code that waits for nothing outside."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual_now = 0.0
        self.complaints: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _, context: self.complaints.append(context))
        selector: Any = self._selector  # type: ignore[attr-defined]
        wait = selector.select

        def select(timeout: float | None = None) -> Any:
            if timeout is None:
                raise RuntimeError("everybody waits for ever")
            self._virtual_now += timeout
            return wait(0)

        selector.select = select

    def time(self) -> float:
        """Give the virtual time, in seconds since the start."""
        return self._virtual_now

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end, and hold that no task is left and no failure went unseen."""
        try:
            return self.run_until_complete(work)
        finally:
            left = asyncio.all_tasks(self)
            gc.collect(1)  # a future whose exception nobody looked at complains when it is collected
            assert not left, left
            assert not self.complaints, self.complaints


def run(work: Coroutine[Any, Any, T]) -> tuple[T, float]:
    """Run on a loop of its own; give the answer, and how long it took."""
    loop = VirtualLoop()
    try:
        return loop.run(work), loop.time()
    finally:
        loop.close()
