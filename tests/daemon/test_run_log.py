"""The log of a running plugin: a file system that stands still, signals, and other programs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.laboratory import objects
from tests.laboratory.runtime import FakeRuntime
from tests.simulated_host import WAIT_S, SimulatedHost, wait_for

GI = 1 << 30
PROGRAM = Path(__file__).parent / "programs" / "frozen_log.py"


@pytest.fixture
def frozen(simulated_host: SimulatedHost) -> Path:
    return simulated_host.root / "frozen"


def start(host: SimulatedHost, runtime: FakeRuntime, frozen: Path) -> subprocess.Popen[str]:
    """Return a plugin that serves the runtime."""
    runtime.listen(host.socket)
    process = host.start(command=(sys.executable, str(PROGRAM), str(frozen)))
    runtime.accept(30)
    runtime.synchronize()
    host.wait_record("synchronized")
    return process


def create(runtime: FakeRuntime, name: str) -> str:
    pod = runtime.run_pod_sandbox(objects.pod(name, memory_limit_bytes=GI))
    container = objects.container(pod, name, memory_limit_bytes=GI)
    return runtime.create_container(pod, container).linux.resources.cpu.mems


def test_containers_are_pinned_while_the_log_cannot_be_written(
    simulated_host: SimulatedHost, frozen: Path
) -> None:
    with FakeRuntime() as runtime:
        process = start(simulated_host, runtime, frozen)
        frozen.touch()
        assert "" not in [create(runtime, name) for name in ("a", "b", "c")]
        assert simulated_host.records("admitted") == []
        frozen.unlink()
        wait_for(lambda: len(simulated_host.records("admitted")) == 3)
        assert create(runtime, "d") != ""
        assert simulated_host.stop(process) == 0
    assert simulated_host.records("stopped")


def test_a_plugin_that_stops_writes_to_stderr_what_the_log_does_not_take(
    simulated_host: SimulatedHost, frozen: Path
) -> None:
    with FakeRuntime() as runtime:
        process = start(simulated_host, runtime, frozen)
        frozen.touch()
        create(runtime, "a")
        create(runtime, "b")
        process.terminate()
        output, _ = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0
    assert '"event":"stopped"' in output
    assert simulated_host.records("stopped") == []
