import os
from pathlib import Path

import pytest

from tests.bench import machine


def test_the_description_names_processor_interpreter_and_load() -> None:
    found = machine.describe()
    assert {
        "processor",
        "CPUs",
        "Python",
        "Python build",
        "load average at the start",
    } <= found.keys()
    assert found["CPUs"] == os.cpu_count()
    assert "PGO" in str(found["Python build"])
    assert "LTO" in str(found["Python build"])


def test_every_processor_model_is_named_once(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("model name\t: B\nflags: x\nmodel name\t: A\nmodel name\t: B\n")
    assert machine.processor(cpuinfo) == "A, B"


def test_without_a_model_name_the_architecture_is_named(tmp_path: Path) -> None:
    assert machine.processor(tmp_path / "absent") == os.uname().machine


@pytest.mark.parametrize(
    ("variables", "build"),
    [
        ({"CONFIG_ARGS": "'--enable-optimizations' '--with-lto'"}, "PGO yes, LTO yes"),
        ({"CONFIG_ARGS": "'--enable-shared'"}, "PGO no, LTO no"),
        ({"CONFIG_ARGS": "", "PY_CFLAGS": "-O2 -flto=auto"}, "PGO no, LTO yes"),
        ({}, "PGO unknown, LTO unknown"),
        ({"CFLAGS": "-fprofile-use"}, "PGO yes, LTO unknown"),
        ({"CONFIG_ARGS": "", "Py_DEBUG": 1}, "PGO no, LTO no, debug"),
    ],
)
def test_the_build_is_read_from_what_the_interpreter_recorded(
    variables: dict[str, object], build: str
) -> None:
    assert machine.interpreter_build(variables.get) == build


def test_a_system_without_load_averages_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable() -> tuple[float, float, float]:
        raise OSError

    monkeypatch.setattr(os, "getloadavg", unavailable)
    assert machine.load_average() == machine.UNKNOWN


def test_without_root_the_priority_stays_normal(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", denied)
    assert machine.raise_priority().startswith("normal")
    priorities: list[tuple[int, ...]] = []
    monkeypatch.setattr(os, "setpriority", lambda *given: priorities.append(given))
    assert machine.raise_priority() == f"nice {machine.NICENESS}"
    assert priorities == [(os.PRIO_PROCESS, 0, machine.NICENESS)]
