"""Reading single files: what is missing, what cannot be read, and what is too much."""

import errno
import os
from pathlib import Path

import pytest

from nri_numamem.host.sysfs import MachineError, read_count, read_optional, read_text, shorten


def test_surrounding_white_space_is_removed(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(" 12 \n\n")
    assert read_text(tmp_path / "x") == "12"
    assert read_count(tmp_path / "x") == 12


def test_missing_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "x", tmp_path / "file" / "x"):
        assert read_optional(path) is None
        with pytest.raises(MachineError, match=f"^{path}: no such file; mount the host's sysfs"):
            read_text(path)


@pytest.mark.parametrize(("code", "is_missing"), [(errno.ENODEV, True), (errno.EACCES, False)])
def test_a_cgroup_that_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, *, is_missing: bool
) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, "error of the kernel")

    path = tmp_path / "x"
    path.write_text("1")
    monkeypatch.setattr(os, "read", fail)
    if is_missing:
        assert read_optional(path) is None
    else:
        with pytest.raises(MachineError, match="error of the kernel; run as root"):
            read_optional(path)


def test_a_file_may_need_several_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    path.write_text("123\n")
    read = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, _size: read(descriptor, 1))
    assert read_optional(path) == "123"


def test_a_file_that_is_too_long(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("1" * 65536)
    assert len(read_optional(path) or "") == 65536
    path.write_text("1" * 65537)
    with pytest.raises(MachineError, match="more than 65536 bytes"):
        read_optional(path)


def test_a_directory_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="Is a directory"):
        read_optional(tmp_path)


def test_counts_fit_into_64_bits(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(str(2**63 - 1))
    assert read_count(path) == 2**63 - 1
    path.write_text(str(2**63))
    with pytest.raises(MachineError, match=f"'{2**63}' is not a count; compare it with"):
        read_count(path)


def test_content_is_shown_on_one_short_line() -> None:
    assert shorten("a\nb") == "'a\\nb'"
    assert len(shorten("x" * 1000)) <= 64


def test_an_unprintable_path_is_shown_on_one_line() -> None:
    assert str(MachineError(Path("/a\u2028b"), "it is odd")).startswith("'/a\\u2028b': it is odd; ")
