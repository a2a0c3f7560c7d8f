"""Figures of a Lambda function, as lines in CloudWatch's embedded metric format (EMF, version 1).

CloudWatch makes metrics of such lines by itself: no call is made while a request waits. Figures are added up in the
process and written by `flush`, one line for each set of labels, so a batch of a thousand messages costs a few lines.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, Final

from ports.clock import Clock

MAX_VALUES: Final = 100

Labels = tuple[tuple[str, str], ...]


class CloudWatchMetrics:
    """Counters and measurements, held until `flush`.

    Args:
        namespace: of the metrics in CloudWatch.
        clock: what lines are dated by.
        write: is given each line, without its end.
    """

    def __init__(self, namespace: str, clock: Clock, write: Callable[[str], None]) -> None:
        self._namespace = namespace
        self._clock = clock
        self._write = write
        self._counts: defaultdict[Labels, Counter[str]] = defaultdict(Counter)
        self._values: defaultdict[Labels, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def count(self, name: str, amount: int = 1, /, **labels: str) -> None:
        """Add to a counter."""
        self._counts[_sorted(labels)][name] += amount

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        """Keep a measurement."""
        self._values[_sorted(labels)][name].append(value)

    def flush(self) -> None:
        """Write what came in since the last time."""
        counts, self._counts = self._counts, defaultdict(Counter)
        values, self._values = self._values, defaultdict(lambda: defaultdict(list))
        for labels, counted in counts.items():
            self._write(self._line(labels, dict(counted), "Count"))
        for labels, measured in values.items():
            for name, all_values in measured.items():
                unit = "Seconds" if name.endswith("_seconds") else "None"
                for start in range(0, len(all_values), MAX_VALUES):
                    self._write(self._line(labels, {name: all_values[start : start + MAX_VALUES]}, unit))

    def _line(self, labels: Labels, figures: dict[str, Any], unit: str) -> str:
        directive = {
            "Namespace": self._namespace,
            "Dimensions": [[name for name, _ in labels]],
            "Metrics": [{"Name": name, "Unit": unit} for name in figures],
        }
        about = {"Timestamp": int(self._clock.now().timestamp() * 1000), "CloudWatchMetrics": [directive]}
        return json.dumps({"_aws": about, **dict(labels), **figures}, separators=(",", ":"))


def _sorted(labels: dict[str, str]) -> Labels:
    return tuple(sorted(labels.items()))
