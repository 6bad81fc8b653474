"""The form of the program."""

import sys

import pytest

from nri_numamem.version import is_single_file


def test_only_the_frozen_program_is_a_single_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_single_file()
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert is_single_file()
