"""What is made of measured times: quantiles, medians of rounds, fitted growth.

Pure: numbers in, numbers out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import linear_regression, median


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value within which this share of all values lies (nearest rank).

    Raises ValueError when there are none.
    """
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values, no quantile")
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass(frozen=True, slots=True)
class Summary:
    """Rounds of one kind of call: medians over the rounds, in seconds, and the longest of all."""

    p50_s: float
    p99_s: float
    max_s: float
    count: int

    def as_us(self) -> dict[str, float]:
        """Return it for a table or a file, in microseconds."""
        return {
            "p50_us": round(self.p50_s * 1e6, 1),
            "p99_us": round(self.p99_s * 1e6, 1),
            "max_us": round(self.max_s * 1e6, 1),
            "count": self.count,
        }


def summary(rounds: Sequence[Sequence[float]]) -> Summary:
    """Return the summary of rounds of times in seconds.

    A quantile is the median of those of the rounds, so one disturbed round does not decide.
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
