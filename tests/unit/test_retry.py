from itertools import pairwise

import pytest

from domain.errors import Misconfigured
from domain.retry import RetryRule


def test_waits_double_up_to_the_ceiling_and_then_end() -> None:
    rule = RetryRule(attempts=6, base=0.5, ceiling=3)
    assert [rule.wait(attempt, 1.0) for attempt in range(1, 8)] == [0.5, 1.0, 2.0, 3.0, 3.0, None, None]


def test_the_spread_takes_all_of_a_wait_or_none_of_it() -> None:
    rule = RetryRule(attempts=3, base=0.5, ceiling=3)
    assert [rule.wait(2, spread) for spread in (0.0, 0.25, 1.0)] == [0.0, 0.25, 1.0]


def test_one_attempt_is_no_retry() -> None:
    assert RetryRule(attempts=1).wait(1, 1.0) is None


def test_no_wait_overflows_or_shrinks() -> None:
    rule = RetryRule(attempts=10**6, base=1e-9, ceiling=60)
    waits = [rule.wait(attempt, 1.0) or 0.0 for attempt in (1, 10, 64, 100, 5000, 999_999)]
    assert all(earlier <= later for earlier, later in pairwise(waits))
    assert waits[-1] == 60


@pytest.mark.parametrize(
    ("attempts", "base", "ceiling", "setting"),
    [
        (0, 0.1, 1, "attempts"),
        (-1, 0.1, 1, "attempts"),
        (1, -0.1, 1, "base"),
        (1, 2, 1, "base"),
        (1, float("nan"), 1, "base"),
    ],
)
def test_rules_that_cannot_work_are_refused_when_made(attempts: int, base: float, ceiling: float, setting: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        RetryRule(attempts, base, ceiling)
    assert caught.value.setting == setting
