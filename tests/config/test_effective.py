"""The effective settings with their origins."""

from nri_numamem.config.effective import effective_settings
from nri_numamem.config.load import load_text
from nri_numamem.config.settings import KEYS, STATE_FILE


def test_every_key_has_value_and_origin() -> None:
    found = effective_settings(load_text("\nlogLevel: debug\nstateFile: ''\n", "FILE"))
    assert tuple(found) == KEYS
    assert found["logLevel"] == ("debug", "FILE:2")
    assert found["stateFile"] == ("", "FILE:3")
    assert found["logFormat"] == ("auto", "default")
    assert found["logFile"] == (None, "default")
    assert effective_settings(load_text("", "FILE"))["stateFile"] == (STATE_FILE, "default")
