import sys
from types import ModuleType

import pytest

from nri_numamem.cli import single_file
from nri_numamem.cli.main import main


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process be the single file."""
    contents = ModuleType("single_file_contents")
    contents.LICENSES = "all of them"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, contents.__name__, contents)
    monkeypatch.setattr(sys, "frozen", True, raising=False)


def test_an_installed_program_is_a_module_of_its_interpreter() -> None:
    assert not single_file.is_single_file()
    assert single_file.program() == (sys.executable, "-m", "nri_numamem")


@pytest.mark.usefixtures("inside")
def test_the_single_file_is_its_own_interpreter() -> None:
    assert single_file.program() == (sys.executable,)


@pytest.mark.usefixtures("inside")
def test_the_single_file_prints_its_licences(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--licenses"]) == 0
    assert capsys.readouterr().out == "all of them\n"
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "--licenses" in capsys.readouterr().out


def test_an_installed_program_has_no_such_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--licenses"])
    assert caught.value.code == 2
    assert "required: COMMAND" in capsys.readouterr().err
