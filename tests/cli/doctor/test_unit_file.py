"""Lines of the unit and its drop-in files, in systemd's order."""

from pathlib import Path

import pytest

from nri_numamem.cli.doctor.unit_file import UnitFile
from nri_numamem.cli.host_files import Host

UNIT = "etc/systemd/system/nri-numamem.service"


def unit_file(root: Path, **files: str) -> UnitFile:
    """Return the unit with drop-in files by name; `unit` is its own text."""
    for name, text in files.items():
        path = root / (UNIT if name == "unit" else f"{UNIT}.d/{name}.conf")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return UnitFile(Host(root))


def test_drop_in_files_follow_the_unit_by_name(tmp_path: Path) -> None:
    found = unit_file(tmp_path, b="X = 3\n", unit="[Service]\nX=1\n# X=9\n", a="X=2\nY=8\n")
    assert found.values("X") == ["1", "2", "3"]
    assert found.values("Z") == []


def test_an_empty_line_clears_a_list(tmp_path: Path) -> None:
    found = unit_file(tmp_path, unit="X=1 2\nX=\nX=3\n", a="X=4\n")
    assert found.words("X") == ["3", "4"]


def test_a_file_hides_those_of_later_directories(tmp_path: Path) -> None:
    for folder in ("etc", "usr/lib"):
        path = tmp_path / folder / "systemd/system/nri-numamem.service"
        path.parent.mkdir(parents=True)
        path.write_text(f"X={folder}\n")
    assert UnitFile(Host(tmp_path)).values("X") == ["etc"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("CapabilityBoundingSet=\n", False),
        ("CapabilityBoundingSet=CAP_A CAP_B\n", True),
        ("CapabilityBoundingSet=CAP_B\n", False),
        ("CapabilityBoundingSet=~CAP_A\n", False),
        ("CapabilityBoundingSet=~CAP_B\n", True),
        ("CapabilityBoundingSet=\nCapabilityBoundingSet=CAP_A\n", True),
    ],
)
def test_capabilities(tmp_path: Path, text: str, expected: bool) -> None:
    assert unit_file(tmp_path, unit=text).allows_capability("CAP_A") is expected
