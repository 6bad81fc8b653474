"""The limits of the setting `residency`."""

from nri_numamem.engine.features.residency.setting import HeadRoomLimit


def test_a_limit_is_an_amount_or_a_percentage() -> None:
    assert HeadRoomLimit(percent=5).warn_below(1000) == 50
    assert HeadRoomLimit(size_bytes=80).warn_below(1000) == 80
    assert HeadRoomLimit(size_bytes=80).clear_above(1000) == 100
    assert HeadRoomLimit(percent=1).clear_above(1000) == 20
