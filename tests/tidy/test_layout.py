"""Each module has a test file of its name, and each room a required coverage."""

import ast
from pathlib import Path

import pytest

from tests.room_coverage import REQUIRED_PERCENT, result_of, table, unit_summary
from tests.tidy.source import PACKAGE, ROOT, name_of, source_files


def modules_with_code() -> list[Path]:
    """Return the files that need a test file: all that define functions or methods.

    A package tests its modules that are only data, such as tables and classes of fields.
    """
    return [
        path
        for path in source_files(PACKAGE)
        if any(isinstance(node, ast.FunctionDef) for node in ast.walk(ast.parse(path.read_text())))
    ]


def test_file_of(path: Path) -> Path:
    """Return where the tests of a module are; a package's tests stand beside its folder."""
    inside = path.relative_to(ROOT / PACKAGE)
    if inside.name == "__init__.py":
        inside = inside.parent.with_suffix(".py")
    return ROOT / "tests" / inside.parent / f"test_{inside.name.strip('_')}"


test_file_of.__test__ = False  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", modules_with_code(), ids=name_of)
def test_every_module_has_a_test_file(path: Path) -> None:
    assert test_file_of(path).is_file()


def test_every_room_has_a_required_coverage() -> None:
    rooms = {path.parent.name for path in (ROOT / PACKAGE).glob("*/__init__.py")}
    assert rooms == set(REQUIRED_PERCENT)


def test_a_room_below_its_percentage_fails_and_shows_its_gaps() -> None:
    file = {"missing_lines": [7], "missing_branches": [[3, 7]]}
    measured = {"totals": {"percent_covered": 99.999}, "files": {"numa/machine.py": file}}
    result = result_of("numa", 0, measured, 1.0)
    assert result.failure == "below 100 %"
    text = table([result])
    assert " 99.99 %" in text
    assert "numa/machine.py: 7, 3->7" in text


def test_a_room_that_is_covered_passes() -> None:
    measured = {"totals": {"percent_covered": 100.0}, "files": {}}
    assert result_of("numa", 0, measured, 1.0).failure == ""
    assert result_of("host", 0, {"totals": {"percent_covered": 95.0}}, 1.0).failure == ""


def test_a_room_fails_with_its_tests_or_without_a_measurement() -> None:
    measured = {"totals": {"percent_covered": 100.0}}
    assert result_of("numa", 1, measured, 1.0).failure == "tests failed"
    assert result_of("host", 0, {}, 1.0).failure == "below 95 %"


def test_the_fast_tests_print_their_time_and_the_rooms_that_fail() -> None:
    text = unit_summary({"numa": (0, 4.0), "cli": (1, 30.2)}, 31.0)
    assert text == (
        "seconds by room: cli 30, numa 4\n"
        "took 31 s; on an idle machine with two processors at most 60 s\n"
        "failed: cli"
    )
