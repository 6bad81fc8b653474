import sys
from types import ModuleType

import pytest

from nri_numamem.cli.main import main


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process be the single file."""
    contents = ModuleType("single_file_contents")
    contents.LICENSES = "all of them"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, contents.__name__, contents)
    monkeypatch.setattr(sys, "frozen", True, raising=False)


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
