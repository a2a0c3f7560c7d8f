"""What every place for figures promises (ports/metrics.py). Subclass it and provide the `figures` fixture."""

from abc import ABC, abstractmethod
from typing import ClassVar

import pytest

from ports.metrics import Metrics


class Figures(ABC):
    """Metrics, and a way to read back what arrived.

    Attributes:
        metrics: what is tested.
    """

    metrics: Metrics

    @abstractmethod
    def counted(self, name: str, **labels: str) -> float:
        """Give the sum of a counter under exactly these labels; 0 where nothing was counted."""

    @abstractmethod
    def observed(self, name: str, **labels: str) -> tuple[int, float]:
        """Give the number and the sum of the measurements under exactly these labels."""


class MetricsContract:
    """One class of tests an adapter."""

    adapter: ClassVar[str]

    def test_counters_add_up_for_each_set_of_labels(self, figures: Figures) -> None:
        figures.metrics.count("moves_total", outcome="accepted")
        figures.metrics.count("moves_total", 41, outcome="accepted")
        figures.metrics.count("moves_total", 2, outcome="rejected")
        figures.metrics.count("moves_total", 0, outcome="duplicate")
        assert figures.counted("moves_total", outcome="accepted") == 42
        assert figures.counted("moves_total", outcome="rejected") == 2
        assert figures.counted("moves_total", outcome="duplicate") == 0

    def test_the_order_of_labels_does_not_matter(self, figures: Figures) -> None:
        figures.metrics.count("calls_total", 1, route="/", method="GET")
        figures.metrics.count("calls_total", 2, method="GET", route="/")
        assert figures.counted("calls_total", route="/", method="GET") == 3

    def test_measurements_are_all_kept(self, figures: Figures) -> None:
        for number in range(250):
            figures.metrics.observe("batch_seconds", number / 4, worker="a")
        figures.metrics.observe("batch_seconds", 7.5, worker="b")
        assert figures.observed("batch_seconds", worker="a") == (250, sum(range(250)) / 4)
        assert figures.observed("batch_seconds", worker="b") == (1, 7.5)

    def test_labels_are_not_needed(self, figures: Figures) -> None:
        figures.metrics.count("ticks_total", 3)
        figures.metrics.observe("tick_seconds", 0.25)
        assert figures.counted("ticks_total") == 3
        assert figures.observed("tick_seconds") == (1, 0.25)

    @pytest.mark.parametrize("value", ['a"b', "back\\slash", "new\nline", "日本", ""])
    def test_odd_values_of_labels_come_through(self, figures: Figures, value: str) -> None:
        figures.metrics.count("odd_total", label=value)
        assert figures.counted("odd_total", label=value) == 1
