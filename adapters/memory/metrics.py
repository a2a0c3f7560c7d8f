"""Figures kept in the process."""

from collections import Counter, defaultdict

Series = tuple[str, tuple[tuple[str, str], ...]]


class MemoryMetrics:
    """Counters and measurements by name and labels."""

    def __init__(self) -> None:
        """Start empty."""
        self.counters: Counter[Series] = Counter()
        self.measurements: defaultdict[Series, list[float]] = defaultdict(list)

    def count(self, name: str, amount: int = 1, /, **labels: str) -> None:
        """Add to a counter."""
        self.counters[name, tuple(sorted(labels.items()))] += amount

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        """Keep a measurement."""
        self.measurements[name, tuple(sorted(labels.items()))].append(value)

    def total(self, name: str, **labels: str) -> int:
        """Give the sum of all counters of a name that carry these labels."""
        wanted = labels.items()
        return sum(n for (series, have), n in self.counters.items() if series == name and wanted <= dict(have).items())
