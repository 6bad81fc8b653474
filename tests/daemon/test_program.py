"""How the program starts itself again."""

import sys

import pytest

from nri_numamem.daemon.program import is_single_file, program


def test_an_installed_program_is_a_module_of_its_interpreter() -> None:
    assert not is_single_file()
    assert program() == (sys.executable, "-m", "nri_numamem")


def test_the_single_file_is_its_own_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert program() == (sys.executable,)
