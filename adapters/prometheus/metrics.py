"""Counters and timings in Prometheus's text format (ports/metrics.py)."""

from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.metrics import MetricWrapperBase

PREFIX: Final = "interlock_"
SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

M = TypeVar("M", bound=MetricWrapperBase)
Series = tuple[str, tuple[tuple[str, str], ...]]


class PrometheusMetrics:
    """Metrics of one process. The labels of a name are those of its first use."""

    def __init__(self) -> None:
        """Start empty, with a registry of its own."""
        self._registry = CollectorRegistry()
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        # The library looks a series up by its sorted labels each time, which costs more than counting.
        self._counted: dict[Series, Counter] = {}
        self._observed: dict[Series, Histogram] = {}

    def count(self, name: str, amount: int = 1, /, **labels: str) -> None:
        """Add to a counter.

        Raises:
            ValueError: other labels than the first time.
        """
        key = (name, tuple(labels.items()))
        series = self._counted.get(key)
        if series is None:
            counter = self._counters.get(name)
            if counter is None:
                counter = self._counters[name] = Counter(
                    PREFIX + name, _about(name), sorted(labels), registry=self._registry
                )
            series = self._counted[key] = _series(counter, labels)
        series.inc(amount)

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        """Record one measurement, in buckets that fit durations in seconds.

        Raises:
            ValueError: other labels than the first time.
        """
        key = (name, tuple(labels.items()))
        series = self._observed.get(key)
        if series is None:
            histogram = self._histograms.get(name)
            if histogram is None:
                histogram = self._histograms[name] = Histogram(
                    PREFIX + name, _about(name), sorted(labels), registry=self._registry, buckets=SECONDS
                )
            series = self._observed[key] = _series(histogram, labels)
        series.observe(value)

    def text(self) -> bytes:
        """Write all figures in the text format, version 0.0.4."""
        return generate_latest(self._registry)


def _about(name: str) -> str:
    return name.removesuffix("_total").replace("_", " ").capitalize()


def _series(metric: M, labels: dict[str, str]) -> M:
    return metric.labels(**labels) if labels else metric
