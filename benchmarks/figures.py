"""How every benchmark measures and prints: rounds in turn, medians, a ratio inside one run."""

import gc
import statistics
import time
from collections.abc import Callable


def per_call(work: Callable[[], object], calls: int) -> float:
    """Give the seconds that one call takes, over `calls` calls with the collector off."""
    gc.disable()
    try:
        start = time.perf_counter()
        for _ in range(calls):
            work()
        return (time.perf_counter() - start) / calls
    finally:
        gc.enable()


def in_turn(first: Callable[[], float], second: Callable[[], float], rounds: int = 5) -> tuple[float, float, float]:
    """Measure two things in turn, so that both meet the same noise.

    Returns:
        The medians of both, and the median of their ratios round by round.
    """
    first()
    second()
    pairs = [(first(), second()) for _ in range(rounds)]
    return (
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(a / b for a, b in pairs),
    )


def show(goal: str, what: str, ours: str, peer: str, ratio: float | None, wanted: str) -> None:
    """Print one figure: ours, the peer's or the limit's, the ratio and the goal."""
    shown = "-" if ratio is None else f"{ratio:.2f}x"
    print(f"{goal:5} {what:52} ours {ours:>14}   beside {peer:>28}   ratio {shown:>8}   goal {wanted}", flush=True)


def micro(seconds: float) -> str:
    """Write seconds as microseconds."""
    return f"{seconds * 1e6:.2f} us"


def rate(per_second: float) -> str:
    """Write a rate."""
    return f"{per_second:,.0f}/s"
