import json
from typing import Any

from adapters.cloudwatch.metrics import CloudWatchMetrics
from adapters.memory.clock import ManualClock
from tests.examples import START


def lines_of(metrics: CloudWatchMetrics, written: list[str]) -> list[dict[str, Any]]:
    metrics.flush()
    lines = [json.loads(line) for line in written]
    written.clear()
    return lines


def test_counts_add_up_to_one_line_for_each_set_of_labels() -> None:
    written: list[str] = []
    metrics = CloudWatchMetrics("Interlock", ManualClock(START), written.append)
    metrics.count("moves_total", outcome="accepted")
    metrics.count("moves_total", 2, outcome="accepted")
    metrics.count("consumed_total", 5, outcome="accepted")
    metrics.count("moves_total", outcome="rejected")
    accepted, rejected = lines_of(metrics, written)
    assert (accepted["moves_total"], accepted["consumed_total"], accepted["outcome"]) == (3, 5, "accepted")
    assert (rejected["moves_total"], rejected["outcome"]) == (1, "rejected")
    assert accepted["_aws"] == {
        "Timestamp": int(START.timestamp() * 1000),
        "CloudWatchMetrics": [
            {
                "Namespace": "Interlock",
                "Dimensions": [["outcome"]],
                "Metrics": [{"Name": "moves_total", "Unit": "Count"}, {"Name": "consumed_total", "Unit": "Count"}],
            }
        ],
    }
    assert lines_of(metrics, written) == []


def test_a_line_holds_a_hundred_values_at_most_and_none_is_lost() -> None:
    written: list[str] = []
    metrics = CloudWatchMetrics("Interlock", ManualClock(START), written.append)
    for number in range(250):
        metrics.observe("request_seconds", number / 1000)
    metrics.observe("batch_messages", 10)
    lines = lines_of(metrics, written)
    seconds = [line["request_seconds"] for line in lines if "request_seconds" in line]
    assert [len(values) for values in seconds] == [100, 100, 50]
    assert [value for values in seconds for value in values] == [number / 1000 for number in range(250)]
    units = {m["Name"]: m["Unit"] for line in lines for m in line["_aws"]["CloudWatchMetrics"][0]["Metrics"]}
    assert units == {"request_seconds": "Seconds", "batch_messages": "None"}
