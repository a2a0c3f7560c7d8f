import inspect
import re
from itertools import pairwise

import grpc
import pytest

from domain import retry
from domain.errors import Misconfigured
from domain.retry import RetryRule, classify


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


@pytest.mark.parametrize(("remaining", "wanted"), [(10.0, 0.5), (0.51, 0.5), (0.5, None), (0.1, None), (-1.0, None)])
def test_r305_no_wait_goes_past_the_time_that_is_left(remaining: float, wanted: float | None) -> None:
    rule = RetryRule(attempts=3, base=0.5, ceiling=3)
    assert rule.wait_within(1, 1.0, remaining) == wanted
    assert rule.wait_within(3, 1.0, remaining) is None


# Every code of gRPC, by name; what the SDK and servers said when these were met.
VERDICTS = {
    "OK": "give_up",
    "CANCELLED": "retry",
    "UNKNOWN": "retry",
    "INVALID_ARGUMENT": "give_up",
    "DEADLINE_EXCEEDED": "retry",
    "NOT_FOUND": "give_up",
    "ALREADY_EXISTS": "already_started",
    "PERMISSION_DENIED": "give_up",
    "RESOURCE_EXHAUSTED": "retry",
    "FAILED_PRECONDITION": "give_up",
    "ABORTED": "retry",
    "OUT_OF_RANGE": "give_up",
    "UNIMPLEMENTED": "give_up",
    "INTERNAL": "retry",
    "UNAVAILABLE": "retry",
    "DATA_LOSS": "give_up",
    "UNAUTHENTICATED": "give_up",
}


def test_r305_every_grpc_code_has_a_verdict_and_the_table_says_the_same() -> None:
    assert set(VERDICTS) == {code.name for code in grpc.StatusCode}
    assert {code: classify(code, "") for code in VERDICTS} == VERDICTS
    table = r"(?m)^    ([A-Z_]+) +(retry|give up|already started) "
    drawn = dict(re.findall(table, inspect.getdoc(retry) or ""))
    assert {code: verdict.replace(" ", "_") for code, verdict in drawn.items()} == VERDICTS


def test_a_code_that_nobody_knows_is_tried_again() -> None:
    assert classify("TO_BE_INVENTED", "") == "retry"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ("RESOURCE_EXHAUSTED", "received message larger than max (10248653 vs. 4194304)"),
        ("RESOURCE_EXHAUSTED", "grpc: received message after decompression larger than max 4194304"),
        ("RESOURCE_EXHAUSTED", "Sent message larger than max (5000000 vs. 4194304)"),
        ("INVALID_ARGUMENT", "Blob data size exceeds limit."),
        ("INVALID_ARGUMENT", "Memo size exceeds limit."),
        ("OUT_OF_RANGE", "Error, message length too large: found 5000030 bytes, the limit is: 4194304 bytes"),
    ],
)
def test_fc18_a_message_that_is_too_large_never_fits(status: str, message: str) -> None:
    assert classify(status, message) == "too_large"


@pytest.mark.parametrize(
    ("status", "message", "verdict"),
    [
        ("RESOURCE_EXHAUSTED", "namespace rate limit exceeded", "retry"),
        ("RESOURCE_EXHAUSTED", "namespace rate limit", "retry"),
        ("RESOURCE_EXHAUSTED", "Workflow is busy.", "retry"),
        ("RESOURCE_EXHAUSTED", "Namespace concurrent poller limit exceeded", "retry"),
        ("CANCELLED", "Timeout expired", "retry"),
        ("UNAVAILABLE", "connection too large to name", "retry"),
        ("INVALID_ARGUMENT", "WorkflowId exceeds maximum allowed length (1200/1000)", "give_up"),
        ("INVALID_ARGUMENT", "missing task queue name", "give_up"),
    ],
)
def test_fc18_slowing_down_is_no_size_and_a_time_limit_no_cancel(status: str, message: str, verdict: str) -> None:
    assert classify(status, message) == verdict
