"""The runtime is a script here that writes down its commands and answers from a list."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench.go_runtime import Arrival, GoRuntime, RuntimeSideError
from tests.bench.workload import workload

Answering = Callable[..., GoRuntime]


@pytest.fixture
def answering(tmp_path: Path) -> Answering:
    def start(*answers: dict[str, object]) -> GoRuntime:
        script = "".join(
            f"read -r line; printf '%s\\n' \"$line\" >> {tmp_path}/commands; echo '{text}'\n"
            for text in map(json.dumps, answers)
        )
        program = tmp_path / "runtime"
        program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/options\n{script}')
        program.chmod(0o755)
        return GoRuntime(tmp_path, tmp_path / "nri.sock", tmp_path / "plugins")

    return start


def commands(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "commands").read_text().splitlines()]


def test_what_is_asked_becomes_commands(answering: Answering, tmp_path: Path) -> None:
    arrival = {"registered_ns": 1_500_000_000, "ready_ns": 2_000_000_000, "took_ns": [250_000_000]}
    with answering({}, {}, {}, arrival, {}, {"took_ns": [1000, 3000]}, {}) as runtime:
        made = workload(1 << 30)
        runtime.use(made, "placed")
        runtime.tell(5000, 8)
        runtime.start()
        assert runtime.wait() == Arrival(1.5, 2.0, 0.25)
        runtime.fill(110)
        assert runtime.measure(2, 300) == [1e-6, 3e-6]
        assert runtime.measure(0, 0) == []
    given = commands(tmp_path)
    assert [command["op"] for command in given] == [
        *("workload", "content", "start", "wait", "fill", "measure", "measure")
    ]
    assert given[0]["expect"] == "placed"
    assert (given[1]["count"], given[1]["nodes"]) == (5000, 8)
    assert (given[5]["count"], given[5]["gap_us"]) == (2, 300)
    options = (tmp_path / "options").read_text().split()
    plugins = str(tmp_path / "plugins")
    assert options == ["-socket", f"{tmp_path}/nri.sock", "-plugins", plugins, "-configs", plugins]


def test_an_error_is_the_runtimes_own(answering: Answering) -> None:
    with (
        answering({"error": "the plugin said no"}) as runtime,
        pytest.raises(RuntimeSideError, match=r"^fill: the plugin said no$"),
    ):
        runtime.fill(1)


def test_a_runtime_that_ended_is_told(answering: Answering) -> None:
    with answering({}) as runtime:
        runtime.start()
        with pytest.raises(RuntimeSideError, match="ended at 'measure'"):
            runtime.measure(1, 0)
