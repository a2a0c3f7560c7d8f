import pytest

from adapters.prometheus.metrics import PrometheusMetrics


def test_counters_and_timings_come_out_as_prometheus_text() -> None:
    metrics = PrometheusMetrics()
    metrics.count("moves_total", outcome="accepted")
    metrics.count("moves_total", 2, outcome="accepted")
    metrics.count("sweeps_total")
    metrics.observe("wait_seconds", 0.3, queue="a")
    lines = metrics.text().decode().splitlines()
    for line in (
        "# TYPE interlock_moves_total counter",
        'interlock_moves_total{outcome="accepted"} 3.0',
        "interlock_sweeps_total 1.0",
        "# TYPE interlock_wait_seconds histogram",
        'interlock_wait_seconds_bucket{le="0.25",queue="a"} 0.0',
        'interlock_wait_seconds_bucket{le="0.5",queue="a"} 1.0',
        'interlock_wait_seconds_sum{queue="a"} 0.3',
    ):
        assert line in lines


def test_the_labels_of_a_name_stay() -> None:
    metrics = PrometheusMetrics()
    metrics.count("moves_total", outcome="accepted")
    with pytest.raises(ValueError, match="label"):
        metrics.count("moves_total", result="accepted")


def test_processes_do_not_share_figures_by_accident() -> None:
    metrics = PrometheusMetrics()
    metrics.count("moves_total")
    assert b"moves" not in PrometheusMetrics().text()
