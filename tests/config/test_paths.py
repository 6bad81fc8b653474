"""Paths must be absolute; an empty state file disables the state."""

import pytest

from nri_numamem.config.paths import read_path, read_state_file, read_textfile
from nri_numamem.config.values import SettingsError


def test_unset_paths_are_none() -> None:
    assert read_path("logFile", {}, "/a") is None
    assert read_state_file({}) is None
    assert read_textfile({}) is None


def test_absolute_paths_are_returned() -> None:
    longest = "/" + "x" * 4094
    assert read_path("logFile", {"logFile": longest}, "/a") == longest
    assert read_state_file({"stateFile": "/a/state"}) == "/a/state"
    assert read_textfile({"metricsTextfile": "/a/b.prom"}) == "/a/b.prom"


def test_an_empty_state_file_is_none_at_all() -> None:
    assert read_state_file({"stateFile": ""}) == ""


@pytest.mark.parametrize("value", ["", "a/b", 1, "/a\0b", "/" + "x" * 4095])
def test_other_values_are_refused(value: object) -> None:
    problem = "^logFile: .* is not an absolute path; write a path such as /a$"
    with pytest.raises(SettingsError, match=problem):
        read_path("logFile", {"logFile": value}, "/a")


def test_the_text_file_has_the_name_that_node_exporter_reads() -> None:
    with pytest.raises(SettingsError, match=r"'/a/b\.txt' does not end in \.prom; write"):
        read_textfile({"metricsTextfile": "/a/b.txt"})
