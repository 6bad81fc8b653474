"""The setting networkHints: its words, as a user writes them in YAML."""

import pytest

from nri_numamem.config.load import load_text
from nri_numamem.config.network_hints import NETWORK_HINTS_CHOICES, OFF
from nri_numamem.config.settings import SettingsError, settings_from_mapping


@pytest.mark.parametrize("word", NETWORK_HINTS_CHOICES)
def test_words_need_no_quotes(word: str) -> None:
    for text in (word, f'"{word}"'):
        assert load_text(f"networkHints: {text}\n", "x").network_hints == word


def test_off_is_the_default() -> None:
    assert load_text("networkHints:\n", "x").network_hints == OFF
    assert settings_from_mapping(None).network_hints == OFF


@pytest.mark.parametrize("value", [True, 0, "primary", ["all"]])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(SettingsError, match=r"^networkHints: unknown value .*secondary"):
        settings_from_mapping({"networkHints": value})
