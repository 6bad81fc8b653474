"""The reference describes exactly the settings that exist."""

import pytest
import yaml

from nri_numamem.cli import run
from nri_numamem.config.reference import LOG_FILE, SETTINGS, reference_text
from nri_numamem.config.setting import Setting
from nri_numamem.config.settings import (
    KEYS,
    STATE_FILE,
    Settings,
    SettingsError,
    settings_from_mapping,
)
from nri_numamem.kubelet import config_file as kubelet
from nri_numamem.observe.log import loggers


def document_of(setting: Setting, value: object) -> dict[str, object]:
    top, _, option = setting.key.partition(".")
    return {top: {option: value} if option else value}


def test_every_key_has_an_entry() -> None:
    tops = dict.fromkeys(setting.key.partition(".")[0] for setting in SETTINGS)
    assert sorted(tops) == sorted(KEYS)
    options = [s.key.partition(".")[2] for s in SETTINGS if "." in s.key and s.kubelet_key]
    assert tuple(options) == kubelet.OPTIONS
    assert [s.key for s in SETTINGS if s.key.startswith("memoryNodes.")] == [
        "memoryNodes.withoutCpus",
        "memoryNodes.override",
    ]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.key)
def test_the_default_is_the_value_of_an_unset_key(setting: Setting) -> None:
    value = yaml.safe_load(setting.default) if setting.default else None
    expected = Settings(state_file=STATE_FILE) if setting.key == "stateFile" else Settings()
    assert settings_from_mapping(document_of(setting, value)) == expected


@pytest.mark.parametrize(
    "setting", [s for s in SETTINGS if s.type.startswith("`")], ids=lambda setting: setting.key
)
def test_all_listed_values_are_accepted_and_no_other(setting: Setting) -> None:
    for word in setting.type.split(", "):
        settings_from_mapping(document_of(setting, yaml.safe_load(word.strip("`"))))
    with pytest.raises(SettingsError):
        settings_from_mapping(document_of(setting, "another"))


def test_kubelet_keys_are_marked() -> None:
    marked = {setting.kubelet_key.partition(".")[0] for setting in SETTINGS} - {""}
    assert marked == {kubelet.POLICY_KEY, *kubelet.KEYS}


def test_flags_exist() -> None:
    import argparse

    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    flags = {flag for action in parser._actions for flag in action.option_strings}
    assert {setting.flag for setting in SETTINGS if setting.flag} <= flags


def test_the_log_file_without_a_journal_is_the_loggers() -> None:
    assert str(loggers.LOG_FILE) == LOG_FILE


def test_the_text_has_a_section_per_setting() -> None:
    text = reference_text()
    assert [s.key for s in SETTINGS if f"\n## {s.key}\n" not in text] == []
    assert "- Default: unset\n" in text
    assert "- Default: `Static`\n- Kubelet: `memoryManagerPolicy`\n" in text
    assert "- Flag: `--log-level`\n\nThe lowest level that is logged.\n" in text
