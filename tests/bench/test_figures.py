import pytest

from tests.bench.figures import exponent, quantile, summary


def test_a_quantile_is_one_of_the_values() -> None:
    values = [float(n) for n in range(100, 0, -1)]
    assert [quantile(values, share) for share in (0.0, 0.5, 0.99, 1.0)] == [1, 50, 99, 100]
    assert quantile([7.0], 0.99) == 7


def test_an_empty_sequence_has_no_quantile() -> None:
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)


def test_one_disturbed_round_affects_only_the_maximum() -> None:
    calm = [0.001] * 99 + [0.002]
    found = summary([calm, [0.5] * 100, calm])
    assert (found.p50_s, found.p99_s, found.max_s, found.count) == (0.001, 0.001, 0.5, 300)


def test_a_summary_is_shown_in_microseconds() -> None:
    shown = summary([[0.0001234, 0.0001234]]).as_us()
    assert shown == {"p50_us": 123.4, "p99_us": 123.4, "max_us": 123.4, "count": 2}


def test_growth_is_fitted() -> None:
    assert exponent([(size, 3 * size**2) for size in (2.0, 8.0, 64.0)]) == pytest.approx(2)
    assert exponent([(size, 5.0) for size in (2.0, 8.0, 64.0)]) == pytest.approx(0)
