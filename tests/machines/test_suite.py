"""Suites, with functions that stand for image and machine."""

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.machines import drive, image, suite, vm
from tests.machines.image import Image, ImageError
from tests.machines.progress import Progress
from tests.machines.suite import Contents, Suite, run

_PROGRESS = Progress(io.StringIO())


@contextmanager
def contents(_phases: Sequence[str], _progress: Progress) -> Iterator[Contents]:
    yield Contents({}, ("-device", "pxb"))


def a_suite(systems: tuple[str, ...] = ("sid",)) -> Suite:
    guest = drive.ROOT / "tests/features/guest"
    return Suite("example", guest, {"a": ("c",), "b": ("c", "d")}, contents, 1, systems)


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[vm.Machine]:
    """Return the machines that were booted; each one sends a log."""
    booted: list[vm.Machine] = []

    def boot(
        machine: vm.Machine, _deadline_s: float, on_record: Callable[[vm.Record], None]
    ) -> vm.Run:
        booted.append(machine)
        phases = machine.arguments[1].partition("=")[2].split(",")
        records: list[vm.Record] = [
            {"kind": kind, "phase": phase} for phase in phases for kind in ("begin", "end")
        ]
        records.append({"kind": "log", "name": "a-plugin.log", "text": "line"})
        for record in records:
            on_record(record)
        return vm.Run(tuple(records), "", "kvm", 2.0)

    def ensure(name: str, _variant: image.Variant, _progress: Progress) -> Image:
        if name == "missing":
            raise ImageError("mmdebstrap is not installed")
        return Image(name, name, tmp_path)

    monkeypatch.setattr(vm, "boot", boot)
    monkeypatch.setattr(image, "ensure", ensure)
    monkeypatch.setattr(drive, "ROOT", tmp_path)
    monkeypatch.setattr(drive, "write", lambda *_: None)
    return booted


def test_phases_keep_their_order() -> None:
    assert a_suite().ordered(["b", "a", "other"]) == ["a", "b"]
    assert a_suite().ordered([]) == ["a", "b"]
    assert a_suite().names == [("a", "c"), ("b", "c"), ("b", "d")]


def test_each_system_runs_its_phases(
    machines: list[vm.Machine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Suite(
        "example", tmp_path / "tests/x", {"a": (), "b": ()}, contents, 1, ("trixie", "sid")
    )
    reports = run(made, {"trixie": {"b"}, "sid": set()}, _PROGRESS)
    assert set(reports) == {"trixie", "sid"}
    found = {each.name: each for each in machines}
    assert found["trixie"].arguments == ("machines.suite=tests.x.phases", "machines.phases=b")
    assert found["sid"].arguments[1] == "machines.phases=a,b"
    assert found["sid"].devices == ("-device", "pxb")
    assert (tmp_path / "build/example/sid-a-plugin.log").read_text() == "line"
    assert reports["sid"].summary[0].startswith("image: built from sid, ready after ")


def test_without_an_image_no_machine_boots(machines: list[vm.Machine], tmp_path: Path) -> None:
    made = Suite("example", tmp_path / "tests/x", {"a": ()}, contents, 1, ("missing",))
    (report,) = run(made, {"missing": {"a"}}, _PROGRESS).values()
    assert report.error == "mmdebstrap is not installed"
    assert not machines


def test_checks_are_those_of_the_phases_mode() -> None:
    from tests.e2e.guest import phases

    checks = suite.checks_of(phases.PHASES)
    assert "runtime_restart_keeps_the_accounting" in checks["external-default"]
    assert "runtime_restart_keeps_the_accounting" not in checks["launched-default"]
