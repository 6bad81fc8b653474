import pytest

from nri_numamem.cli.render.times import format_time, time_text


def test_a_time_in_utc() -> None:
    assert format_time(1_790_000_000.9) == "2026-09-21T14:13:20Z"
    assert time_text(1_790_000_000.9) == "2026-09-21 14:13:20 UTC"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "1970-01-01T00:00:00Z"),
        (10**18, "9999-12-31T23:59:59Z"),
        (10**400, "9999-12-31T23:59:59Z"),
        (float("inf"), "9999-12-31T23:59:59Z"),
    ],
)
def test_a_time_that_is_no_date(seconds: float, text: str) -> None:
    assert format_time(seconds) == text
