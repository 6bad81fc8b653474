from nri_numamem.cli.render.times import format_time


def test_a_time_in_utc() -> None:
    assert format_time(1_790_000_000.9) == "2026-09-21T14:13:20Z"
