"""Statistics of measured times: quantiles, medians over rounds, fitted growth.

Pure: numbers in, numbers out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import linear_regression, median


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that this share of all values does not exceed (nearest rank).

    Raises ValueError for an empty sequence.
    """
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values, no quantile")
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass(frozen=True, slots=True)
class Summary:
    """Several rounds of one kind of call: medians over the rounds and the overall maximum."""

    p50_s: float
    p99_s: float
    max_s: float
    count: int

    def as_us(self) -> dict[str, float]:
        """Return the figures in microseconds, for a table or a file."""
        return {
            "p50_us": round(self.p50_s * 1e6, 1),
            "p99_us": round(self.p99_s * 1e6, 1),
            "max_us": round(self.max_s * 1e6, 1),
            "count": self.count,
        }


def summary(rounds: Sequence[Sequence[float]]) -> Summary:
    """Return the summary of rounds of times in seconds.

    Each quantile is the median of that quantile over the rounds, so one disturbed round has no
    effect on it.
    """
    return Summary(
        p50_s=median(quantile(times, 0.5) for times in rounds),
        p99_s=median(quantile(times, 0.99) for times in rounds),
        max_s=max(max(times) for times in rounds),
        count=sum(len(times) for times in rounds),
    )


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Return b of the best fit value = a * size ** b through points of size and value."""
    logs = [(math.log(size), math.log(value)) for size, value in points]
    return linear_regression(*zip(*logs, strict=True)).slope
