"""Metric families with the plugin's prefix."""

from collections.abc import Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from nri_numamem.engine.core.plan import RecordValue

PREFIX = "nri_numamem_"


def counter(name: str, text: str, value: int) -> Metric:
    """Return a counter without labels."""
    return CounterMetricFamily(f"{PREFIX}{name}", text, value)


def counters(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    """Return a counter with one label: value of the label -> count."""
    return _filled(CounterMetricFamily(f"{PREFIX}{name}", text, labels=[label]), values)


def gauge(name: str, text: str, value: float) -> Metric:
    """Return a gauge without labels."""
    return GaugeMetricFamily(f"{PREFIX}{name}", text, value)


def gauges(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    """Return a gauge with one label: value of the label -> value."""
    return _filled(GaugeMetricFamily(f"{PREFIX}{name}", text, labels=[label]), values)


def _filled(metric: CounterMetricFamily | GaugeMetricFamily, values: Mapping[str, int]) -> Metric:
    for word, value in values.items():
        metric.add_metric([word], value)
    return metric


def number(value: RecordValue) -> int:
    """Return a field of a record as a number; 0 for anything else."""
    return value if isinstance(value, int) else 0
