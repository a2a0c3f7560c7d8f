"""Clocks, sources of ids and places for figures keep their contracts."""

import json
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from adapters.cloudwatch.metrics import CloudWatchMetrics
from adapters.memory.clock import ManualClock
from adapters.memory.id_source import CountingIds
from adapters.memory.metrics import MemoryMetrics
from adapters.prometheus.metrics import PREFIX, PrometheusMetrics
from adapters.system.clock import SystemClock
from adapters.system.id_source import RandomIds
from tests.contracts.clock import ClockContract
from tests.contracts.id_source import IdSourceContract
from tests.contracts.metrics import Figures, MetricsContract
from tests.examples import START

pytestmark = pytest.mark.anyio


class TestManualClock(ClockContract):
    adapter = "adapters.memory.clock"

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock(START)

    def test_it_stands_still_until_it_is_told(self, clock: ManualClock) -> None:
        assert clock.now() == clock.now() == START
        clock.advance(-1.5)
        assert (START - clock.now()).total_seconds() == 1.5


class TestSystemClock(ClockContract):
    adapter = "adapters.system.clock"

    @pytest.fixture
    def clock(self) -> SystemClock:
        return SystemClock()


class TestCountingIds(IdSourceContract):
    adapter = "adapters.memory.id_source"

    @pytest.fixture
    def ids(self) -> CountingIds:
        return CountingIds()


class TestRandomIds(IdSourceContract):
    adapter = "adapters.system.id_source"

    @pytest.fixture
    def ids(self) -> RandomIds:
        return RandomIds()

    def test_two_sources_do_not_meet(self, ids: RandomIds) -> None:
        other = RandomIds()
        assert not {ids.new_id() for _ in range(1000)} & {other.new_id() for _ in range(1000)}


class MemoryFigures(Figures):
    def __init__(self) -> None:
        self.metrics = self.memory = MemoryMetrics()

    def counted(self, name: str, **labels: str) -> float:
        return self.memory.counters[name, tuple(sorted(labels.items()))]

    def observed(self, name: str, **labels: str) -> tuple[int, float]:
        values = self.memory.measurements[name, tuple(sorted(labels.items()))]
        return len(values), sum(values)


class TestMemoryMetrics(MetricsContract):
    adapter = "adapters.memory.metrics"

    @pytest.fixture
    def figures(self) -> MemoryFigures:
        return MemoryFigures()

    def test_a_total_sums_all_series_that_carry_the_labels(self) -> None:
        metrics = MemoryMetrics()
        metrics.count("moves_total", 1, outcome="accepted", worker="a")
        metrics.count("moves_total", 2, outcome="accepted", worker="b")
        metrics.count("moves_total", 4, outcome="rejected", worker="a")
        metrics.count("other_total", 8)
        assert metrics.total("moves_total") == 7
        assert metrics.total("moves_total", outcome="accepted") == 3
        assert metrics.total("moves_total", outcome="accepted", worker="b") == 2
        assert metrics.total("moves_total", outcome="lost") == 0


class PrometheusFigures(Figures):
    def __init__(self) -> None:
        self.metrics = self.prometheus = PrometheusMetrics()

    def counted(self, name: str, **labels: str) -> float:
        return self.sample(name, labels)

    def observed(self, name: str, **labels: str) -> tuple[int, float]:
        return int(self.sample(f"{name}_count", labels)), self.sample(f"{name}_sum", labels)

    def sample(self, name: str, labels: dict[str, str]) -> float:
        """Read a sample as a collector does, from the text."""
        for family in text_string_to_metric_families(self.prometheus.text().decode()):
            for sample in family.samples:
                if sample.name == PREFIX + name and sample.labels == labels:
                    return float(sample.value)
        return 0


class TestPrometheusMetrics(MetricsContract):
    adapter = "adapters.prometheus.metrics"

    @pytest.fixture
    def figures(self) -> PrometheusFigures:
        return PrometheusFigures()


class CloudWatchFigures(Figures):
    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.metrics = self.cloudwatch = CloudWatchMetrics(
            "Interlock", ManualClock(START), lambda line: self.lines.append(json.loads(line))
        )

    def counted(self, name: str, **labels: str) -> float:
        return sum(self.figures(name, labels))

    def observed(self, name: str, **labels: str) -> tuple[int, float]:
        values = self.figures(name, labels)
        return len(values), sum(values)

    def figures(self, name: str, labels: dict[str, str]) -> list[float]:
        """Read a figure as CloudWatch does: the members that the directive names."""
        self.cloudwatch.flush()
        found: list[float] = []
        for line in self.lines:
            [directive] = line["_aws"]["CloudWatchMetrics"]
            [dimensions] = directive["Dimensions"]
            if {label: line[label] for label in dimensions} == labels and name in {
                metric["Name"] for metric in directive["Metrics"]
            }:
                found += line[name] if isinstance(line[name], list) else [line[name]]
        return found


class TestCloudWatchMetrics(MetricsContract):
    adapter = "adapters.cloudwatch.metrics"

    @pytest.fixture
    def figures(self) -> CloudWatchFigures:
        return CloudWatchFigures()
