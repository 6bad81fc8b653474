"""Tests of a file that was not built are skipped, and fail in CI."""

import os
from pathlib import Path

import pytest

from tests.packaging.single_file_program import (
    build_problem,
    check_builds,
    needs_program,
    needs_twin,
)


def test_a_file_newer_than_the_sources_is_up_to_date(tmp_path: Path) -> None:
    (tmp_path / "built").write_text("")
    assert build_problem(tmp_path / "built") == ""
    (tmp_path / "old").write_text("")
    os.utime(tmp_path / "old", (0, 0))
    for name in ("old", "missing"):
        problem = f"{tmp_path / name} is missing or older than the sources: make dist"
        assert build_problem(tmp_path / name) == problem


@pytest.mark.parametrize(
    ("ci", "outcome"),
    [(None, pytest.skip.Exception), ("", pytest.skip.Exception), ("true", pytest.fail.Exception)],
)
def test_without_the_file_a_test_is_skipped_and_fails_in_ci(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    ci: str | None,
    outcome: type[BaseException],
) -> None:
    monkeypatch.delenv("CI", raising=False)
    if ci is not None:
        monkeypatch.setenv("CI", ci)
    check_builds(request.node)
    request.node.add_marker(pytest.mark.needs_build(tmp_path / "missing"))
    with pytest.raises(outcome, match="missing or older than the sources: make dist"):
        check_builds(request.node)


def test_the_marks_of_the_program_and_its_twin() -> None:
    assert {needs_program.name, needs_twin.name} == {"needs_build"}
