"""Which file is the program, and whether it is linked or copied."""

import sys
from pathlib import Path

import pytest

from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation.program import (
    Program,
    find_program,
    is_elf,
    is_program,
    running_program,
    writable_parts,
)
from nri_numamem.config.errors import UsageError

SCRIPT = b"#!/usr/bin/python3\nfrom nri_numamem.cli.main import main\n"
ELF = b"\x7fELF rest"


def write(path: Path, data: bytes = SCRIPT, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)
    return path


def test_a_named_program_is_on_the_host(tmp_path: Path) -> None:
    file = write(tmp_path / "usr/bin/nri-numamem", ELF)
    found = find_program("/usr/bin/nri-numamem", Host(tmp_path))
    assert found == Program("/usr/bin/nri-numamem", file, is_single_file=True)
    assert found.is_permanent


@pytest.mark.parametrize(
    ("path", "is_single", "expected"),
    [
        ("/usr/bin/p", True, True),
        ("/opt/p", True, True),
        ("/root/p", True, False),
        ("/root/venv/bin/p", False, True),
        ("", True, False),
    ],
)
def test_only_a_single_file_outside_of_usr_and_opt_is_copied(
    path: str, *, is_single: bool, expected: bool
) -> None:
    assert Program(path, Path(), is_single).is_permanent is expected


def test_a_named_program_must_exist_and_be_executable(tmp_path: Path) -> None:
    write(tmp_path / "text", mode=0o644)
    for name, problem in {"/none": "no such program", "/text": "not executable"}.items():
        with pytest.raises(UsageError, match=f"{name}: {problem}; .*--program"):
            find_program(name, Host(tmp_path))


def test_the_running_entry_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link in the plugin directory, through which it was started, must not refer to itself."""
    script = write(tmp_path / "venv/bin/nri-numamem")
    link = tmp_path / "10-nri-numamem"
    link.symlink_to(script)
    monkeypatch.setattr(sys, "argv", [str(link)])
    assert find_program(None, Host()) == Program(str(script), script, is_single_file=False)


def test_a_module_is_started_by_the_entry_script_beside_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "nri_numamem/__main__.py")])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    with pytest.raises(UsageError, match=r"bin/nri-numamem: no such program; .*--program$"):
        running_program()
    script = write(tmp_path / "bin/nri-numamem")
    assert running_program() == script


def test_the_running_single_file_is_copied_to_another_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "download", ELF)
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", str(file))
    root = tmp_path / "image"
    root.mkdir()
    assert find_program(None, Host(root)) == Program("", file, is_single_file=True)
    assert find_program(None, Host()) == Program(str(file), file, is_single_file=True)


def test_an_entry_script_must_be_in_the_other_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(write(tmp_path / "bin/nri-numamem"))])
    with pytest.raises(UsageError, match="no such program"):
        find_program(None, Host(tmp_path / "image"))


def test_kinds_of_files(tmp_path: Path) -> None:
    elf, script = write(tmp_path / "elf", ELF), write(tmp_path / "script")
    other = write(tmp_path / "other", b"#!/bin/sh\n")
    assert [is_elf(path) for path in (elf, script, other)] == [True, False, False]
    assert [is_program(path) for path in (elf, script, other)] == [True, True, False]
    assert not is_program(tmp_path)
    assert not is_program(tmp_path / "none")


def test_parts_that_others_can_change(tmp_path: Path) -> None:
    write(tmp_path / "bin/p")
    (tmp_path / "bin").chmod(0o777)
    host = Host(tmp_path)
    shared = set(writable_parts("/bin/p", host)) - set(writable_parts("/", host))
    assert "/bin" in shared
    (tmp_path / "bin").chmod(0o1777)
    own = (tmp_path / "bin").stat().st_uid == 0
    assert ("/bin" in writable_parts("/bin/none", host)) is not own
