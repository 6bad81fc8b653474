import pytest

from nri_numamem.cli.render.duration import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (7199, "1 h"), (86_400 * 3.5, "3 d")],
)
def test_the_largest_whole_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text
