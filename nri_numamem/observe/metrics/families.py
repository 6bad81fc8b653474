"""Metric families with the plugin's prefix."""

from collections.abc import Mapping
from typing import TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

PREFIX = "nri_numamem_"

Values: TypeAlias = (
    float | Mapping[str, float] | Mapping[tuple[str, str], float] | Mapping[tuple[str, ...], float]
)
"""A value without labels, or values by that of the label, or by those of several labels."""


def counter(name: str, text: str, values: Values, *labels: str) -> Metric:
    """Return a counter; without its suffix "_total" in the name."""
    return _filled(CounterMetricFamily(f"{PREFIX}{name}", text, labels=labels), values)


def gauge(name: str, text: str, values: Values, *labels: str) -> Metric:
    """Return a gauge."""
    return _filled(GaugeMetricFamily(f"{PREFIX}{name}", text, labels=labels), values)


def _filled(metric: CounterMetricFamily | GaugeMetricFamily, values: Values) -> Metric:
    for key, value in values.items() if isinstance(values, Mapping) else (((), values),):
        metric.add_metric([key] if isinstance(key, str) else key, value)
    return metric
