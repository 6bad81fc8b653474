"""The table has every field of the settings, and describes what is read."""

import argparse
from dataclasses import fields

import pytest
import yaml

from nri_numamem.cli import run
from nri_numamem.config.setting import Group, Setting
from nri_numamem.config.settings import (
    STATE_FILE,
    Settings,
    SettingsError,
    described_settings,
    settings_from_mapping,
)
from nri_numamem.config.table import LOG_FILE, TABLE
from nri_numamem.kubelet import config_file as kubelet
from nri_numamem.observe.log import loggers

DESCRIBED = [pytest.param(*found, id=found[0]) for found in described_settings()]


def document_of(key: str, value: object) -> dict[str, object]:
    top, _, option = key.partition(".")
    return {top: {option: value} if option else value}


def test_every_field_has_a_row() -> None:
    rows = [row for row in TABLE if row.field]
    members = [m for row in TABLE if isinstance(row, Group) and not row.field for m in row.members]
    elsewhere = {"kubelet_memory_manager_policy", "kubelet_cpu_manager_policy"}
    elsewhere |= {"kubelet_reserved_cpus", "origins"}
    found = [row.field for row in (*rows, *members)]
    assert sorted(found) == sorted({field.name for field in fields(Settings)} - elsewhere)


@pytest.mark.parametrize(
    "group", [row for row in TABLE if isinstance(row, Group) and row.field], ids=lambda row: row.key
)
def test_every_field_of_a_group_has_a_row(group: Group) -> None:
    names = [field.name for field in fields(group.make())]
    assert sorted(member.field for member in group.members) == sorted(names)


def test_keys_of_the_kubelet_have_its_names() -> None:
    keys = [row.key for row in TABLE]
    assert sorted(keys[: len(kubelet.KEYS) + 1]) == sorted((kubelet.POLICY_KEY, *kubelet.KEYS))
    options = next(row for row in TABLE if row.key == "topologyManagerPolicyOptions")
    assert isinstance(options, Group)
    assert tuple(member.key for member in options.members) == kubelet.OPTIONS


@pytest.mark.parametrize(("key", "default", "row"), DESCRIBED)
def test_the_default_is_the_value_of_an_unset_key(key: str, default: str, row: Setting) -> None:
    value = yaml.safe_load(default) if default else None
    expected = Settings(state_file=STATE_FILE) if row.field == "state_file" else Settings()
    assert settings_from_mapping(document_of(key, value)) == expected


@pytest.mark.parametrize(
    ("key", "words"),
    [(key, row.kind.type) for key, _, row in described_settings() if row.kind.type[0] == "`"],
)
def test_all_listed_values_are_accepted_and_no_other(key: str, words: str) -> None:
    for word in words.split(", "):
        settings_from_mapping(document_of(key, yaml.safe_load(word.strip("`"))))
    with pytest.raises(SettingsError):
        settings_from_mapping(document_of(key, "another"))


def test_flags_exist() -> None:
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    flags = {flag for action in parser._actions for flag in action.option_strings}
    assert {row.flag for _, _, row in described_settings() if row.flag} <= flags


def test_the_log_file_without_a_journal_is_the_loggers() -> None:
    assert str(loggers.LOG_FILE) == LOG_FILE
