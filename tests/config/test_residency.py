"""The setting residency: its values, and its errors."""

import pytest

from nri_numamem.config.settings import (
    Settings,
    SettingsError,
    settings_from_mapping,
    settings_to_mapping,
)
from nri_numamem.engine.features.residency.setting import OFF, HeadRoomLimit, Residency

LIMIT = "write an amount such as 2Gi, or a percentage from 1% to 99%"


def read(value: object) -> Residency:
    return settings_from_mapping({"residency": value}).residency


def written(value: Residency) -> object:
    return settings_to_mapping(Settings(residency=value)).get("residency")


@pytest.mark.parametrize("value", [None, {}, {"headRoom": None}, {"intervalSeconds": 0}])
def test_it_is_off_without_an_interval(value: object) -> None:
    assert read(value) == OFF
    assert read(written(OFF)) == OFF


def test_defaults_of_the_other_keys() -> None:
    expected = Residency(5, per_container=False, remote_percent=10, head_room=None)
    assert read({"intervalSeconds": 5}) == expected
    limit = HeadRoomLimit(percent=5)
    assert read({"intervalSeconds": 5, "headRoom": "5%"}).head_room == limit


@pytest.mark.parametrize("limit", [None, "5%", "2Gi", 4096])
def test_the_document_gives_an_equal_value(limit: object) -> None:
    value = {"intervalSeconds": 30, "perContainerMetrics": "true", "remotePercent": 25}
    setting = read({**value, "headRoom": limit})
    assert (setting.interval_s, setting.per_container, setting.remote_percent) == (30, True, 25)
    assert read(written(setting)) == setting


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], "residency: a list instead of a mapping; write KEY: VALUE"),
        (
            {"interval": 1},
            (
                "residency.interval: unknown key; did you mean intervalSeconds? allowed: "
                "intervalSeconds, perContainerMetrics, remotePercent, headRoom"
            ),
        ),
        (
            {"intervalSeconds": 3601},
            "residency.intervalSeconds: 3601 is out of range; write a whole number from 0 to 3600",
        ),
        (
            {"remotePercent": 0},
            "residency.remotePercent: 0 is out of range; write a whole number from 1 to 100",
        ),
        (
            {"perContainerMetrics": "yes"},
            'residency.perContainerMetrics: \'yes\' is not a boolean; write "true" or "false"',
        ),
        (
            {"headRoom": "5%"},
            (
                "residency.headRoom: no effect without intervalSeconds; "
                "set residency.intervalSeconds, such as 60"
            ),
        ),
        (
            {"intervalSeconds": 0, "perContainerMetrics": True},
            (
                "residency.perContainerMetrics: no effect without intervalSeconds; "
                "set residency.intervalSeconds, such as 60"
            ),
        ),
        ({"headRoom": "100%"}, f"residency.headRoom: '100%' is not a limit; {LIMIT}"),
        ({"headRoom": 0}, f"residency.headRoom: 0 is not a limit; {LIMIT}"),
        ({"headRoom": []}, f"residency.headRoom: a list is not a limit; {LIMIT}"),
    ],
)
def test_errors(value: object, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(value)
    assert str(caught.value) == text
