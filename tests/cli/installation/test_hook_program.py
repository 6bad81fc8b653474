"""The hook program that the single executable file contains."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation import hook_program

PROGRAM = b"\x7fELF the hook"


@pytest.fixture
def _inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process be the single file."""
    module = ModuleType("single_file_claim_hook")
    module.PROGRAM = PROGRAM  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(sys, "frozen", True, raising=False)


def test_a_python_package_contains_none(tmp_path: Path) -> None:
    assert hook_program.carried() is None
    assert hook_program.missing(Host(tmp_path)) is None


@pytest.mark.usefixtures("_inside")
def test_a_file_that_is_missing_differs_or_is_not_executable(tmp_path: Path) -> None:
    assert hook_program.carried() == PROGRAM
    host = Host(tmp_path)
    assert hook_program.missing(host) == PROGRAM
    file = host.path(hook_program.PATH)
    file.parent.mkdir(parents=True)
    file.write_bytes(PROGRAM)
    assert hook_program.missing(host) == PROGRAM
    file.chmod(0o755)
    assert hook_program.missing(host) is None
    assert hook_program.missing(host, "/other") == PROGRAM
    file.write_bytes(b"older")
    assert hook_program.missing(host) == PROGRAM
    file.rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_bytes(PROGRAM)
    file.symlink_to("/elsewhere")
    assert hook_program.missing(host) == PROGRAM


def test_a_read_only_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Status:
        f_flag = 1  # ST_RDONLY, statvfs(3)

    def statvfs(path: Path) -> Status:
        asked.append(path)
        return Status()

    assert not hook_program.is_read_only(Host(tmp_path))
    monkeypatch.setattr("os.statvfs", statvfs)
    (tmp_path / "usr").mkdir()
    assert hook_program.is_read_only(Host(tmp_path))
    assert asked == [tmp_path / "usr"]
