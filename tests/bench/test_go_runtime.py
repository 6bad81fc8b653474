"""The runtime is a script that records its commands and replies from a list."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench.go_runtime import GoRuntime, Registration, RuntimeSideError
from tests.bench.workload import workload

RuntimeFactory = Callable[..., GoRuntime]


@pytest.fixture
def runtime_with_replies(tmp_path: Path) -> RuntimeFactory:
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


def test_every_method_sends_its_command(
    runtime_with_replies: RuntimeFactory, tmp_path: Path
) -> None:
    arrival = {"registered_ns": 1_500_000_000, "ready_ns": 2_000_000_000, "took_ns": [250_000_000]}
    with runtime_with_replies({}, {}, {}, arrival, {}, {"took_ns": [1000, 3000]}, {}) as runtime:
        made = workload(1 << 30)
        runtime.set_workload(made, "placed")
        runtime.set_content(5000, 8)
        runtime.start()
        assert runtime.wait() == Registration(1.5, 2.0, 0.25)
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


def test_an_error_has_the_runtimes_text(runtime_with_replies: RuntimeFactory) -> None:
    with (
        runtime_with_replies({"error": "refused"}) as runtime,
        pytest.raises(RuntimeSideError, match=r"^fill: refused$"),
    ):
        runtime.fill(1)


def test_a_runtime_that_ended_is_an_error(runtime_with_replies: RuntimeFactory) -> None:
    with runtime_with_replies({}) as runtime:
        runtime.start()
        with pytest.raises(RuntimeSideError, match="ended at 'measure'"):
            runtime.measure(1, 0)
