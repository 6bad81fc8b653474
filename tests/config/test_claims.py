"""The setting `claims`."""

import pytest

from nri_numamem.config.claims import CDI_DIRECTORY, HOOK_PROGRAM, ClaimSettings
from nri_numamem.config.settings import (
    Settings,
    SettingsError,
    settings_from_mapping,
    settings_to_mapping,
)


@pytest.mark.parametrize(
    ("document", "claims"),
    [
        ({}, ClaimSettings()),
        ({"enabled": True}, ClaimSettings(enabled=True)),
        ({"hookProgram": "/opt/hook"}, ClaimSettings(hook_program="/opt/hook")),
        ({"cdiDirectory": "/etc/cdi"}, ClaimSettings(cdi_directory="/etc/cdi")),
        ({"sharePercent": 30}, ClaimSettings(share_percent=30)),
    ],
)
def test_values_are_the_same_after_a_round_trip(
    document: dict[str, object], claims: ClaimSettings
) -> None:
    found = settings_from_mapping({"claims": document})
    assert found.claims == claims
    assert settings_from_mapping(settings_to_mapping(found)) == found


def test_paths_are_shown_if_they_count() -> None:
    assert settings_to_mapping(Settings())["claims"] == {"enabled": False}
    enabled = Settings(claims=ClaimSettings(enabled=True))
    assert settings_to_mapping(enabled)["claims"] == {
        "enabled": True,
        "hookProgram": HOOK_PROGRAM,
        "cdiDirectory": CDI_DIRECTORY,
        "sharePercent": 0,
    }


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"enabled": "maybe"}, "claims.enabled"),
        ({"hookProgram": "bin/hook"}, "claims.hookProgram"),
        ({"sharePercent": 91}, "claims.sharePercent"),
        ({"cdiDirectory": 1}, "claims.cdiDirectory"),
        ({"hook": "/x"}, "claims.hook"),
    ],
)
def test_other_values_are_errors_with_their_place(document: dict[str, object], text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        settings_from_mapping({"claims": document})
