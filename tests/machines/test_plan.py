"""What a run prints before it begins."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.machines import artefact_builds, image
from tests.machines.plan import lines, main
from tests.machines.progress import Build
from tests.machines.suite import Contents, Suite


@pytest.fixture(autouse=True)
def caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the single file be ready, and no image."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(artefact_builds, "SINGLE_FILE", Build("single file", 12, lambda: True))
    monkeypatch.setattr(image, "_MINUTES", 3)


def a_suite(name: str, *builds: Build) -> Suite:
    contents = nullcontext(Contents({}))
    checks = {"a": ("c",), "b": ("c",)}
    return Suite(name, Path(), checks, lambda _p, _q: contents, 10, ("sid",), builds=builds)


def test_what_is_missing_counts() -> None:
    suites = [a_suite("one", Build("kubelet", 7, lambda: False)), a_suite("two")]
    assert list(lines(suites, {"one": 2, "two": 1})) == [
        "single file: ready",
        "image of Debian sid: to build, about 3 min",
        "kubelet: to build, about 7 min",
        "one: 2 phases on machines of sid, about 10 min",
        "two: 1 phases on machines of sid, about 5 min",
        "in all about 25 min on two idle processors",
    ]


def test_the_command_prints_the_plan_of_modules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tests.e2e.machine"]) == 0
    printed = capsys.readouterr().out
    assert "image of Debian trixie: to build" in printed
    assert "e2e: 5 phases on machines of trixie and sid" in printed
