"""The program as a runtime launches it: three variables, descriptor 3, nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nri_numamem.nri import runtime_objects as objects
from nri_numamem.nri.runtime import EmbeddedRuntime
from nri_numamem.nri.runtime_plugin import PluginGone
from nri_numamem.nri.runtime_version import RuntimeVersion

PROGRAM = Path(sys.executable).with_name("nri-numamem")
MI = 1 << 20

OLD = RuntimeVersion("containerd", "v1.7.6", (0, 3, 0))
MIDDLE = RuntimeVersion("containerd", "v1.7.25", (0, 6, 1))
NEW = RuntimeVersion("containerd", "v2.3.4", (0, 12, 0))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log" / "plugin.log"


def records(log: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.parametrize("version", [OLD, MIDDLE, NEW], ids=lambda v: v.nri_version_text)
def test_serves_its_connection_and_ends_with_it(log: Path, version: RuntimeVersion) -> None:
    config = f"logFile: {log}\nlogFormat: json\nstateFile: {log.with_name('state')}\n"
    with EmbeddedRuntime(version) as runtime:
        plugin = runtime.launch(PROGRAM, "10-nri-numamem", config)
        runtime.synchronize()
        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=MI))
        container = objects.container(pod, "server", memory_limit_bytes=MI)
        created = runtime.create_container(pod, container)
        assert created.linux.resources.cpu.mems != ""
        assert plugin.why_closed == ""
        assert plugin.process is not None
        stdio = {str(Path(f"/proc/{plugin.process.pid}/fd/{fd}").readlink()) for fd in range(3)}
        assert stdio == {"/dev/null"}
        plugin.wire.close()
        assert plugin.process.wait(10) == 0
    events = [record["event"] for record in records(log)]
    assert events[0] == "machine"
    assert "admitted" in events
    assert events[-1] == "ended"


def test_a_broken_configuration_is_refused_where_the_runtime_survives_it() -> None:
    with EmbeddedRuntime(NEW) as runtime, pytest.raises(PluginGone, match="logLevle"):
        runtime.launch(PROGRAM, "10-nri-numamem", "logLevle: debug\n")


def test_a_broken_configuration_does_not_end_an_old_runtime() -> None:
    with EmbeddedRuntime(MIDDLE) as runtime:
        plugin = runtime.launch(PROGRAM, "10-nri-numamem", "logLevle: debug\n")
        runtime.synchronize()
        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=MI))
        container = objects.container(pod, "server", memory_limit_bytes=MI)
        assert runtime.create_container(pod, container).linux.resources.cpu.mems == ""
        assert plugin.why_closed == ""


@pytest.mark.parametrize(
    "environment",
    [
        {"NRI_PLUGIN_SOCKET": "three", "NRI_PLUGIN_NAME": "x"},
        {"NRI_PLUGIN_SOCKET": "3"},
        {"NRI_PLUGIN_SOCKET": "3", "NRI_PLUGIN_NAME": "x", "NRI_PLUGIN_IDX": "10"},
    ],
    ids=["no number", "no name", "no socket"],
)
def test_a_broken_environment_is_told_and_ends_it(environment: dict[str, str]) -> None:
    done = subprocess.run([PROGRAM], env=environment, capture_output=True, timeout=30, check=False)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


def test_a_second_instance_is_refused_where_the_runtime_survives_it(log: Path) -> None:
    config = f"logFile: {log}\nlogFormat: json\nstateFile: {log.with_name('state')}\n"
    with EmbeddedRuntime(NEW) as first, EmbeddedRuntime(NEW) as second:
        pid = launched_pid(first, config)
        with pytest.raises(PluginGone, match=rf"pid {pid}, .*launched by the runtime"):
            second.launch(PROGRAM, "20-nri-numamem", config)


def test_a_second_instance_does_not_end_an_old_runtime(log: Path) -> None:
    config = f"logFile: {log}\nlogFormat: json\nstateFile: {log.with_name('state')}\n"
    with EmbeddedRuntime(NEW) as first, EmbeddedRuntime(MIDDLE) as second:
        pid = launched_pid(first, config)
        second.launch(PROGRAM, "20-nri-numamem", config)
        pod = second.run_pod_sandbox(objects.pod("db", memory_limit_bytes=MI))
        container = objects.container(pod, "server", memory_limit_bytes=MI)
        assert second.create_container(pod, container).linux.resources.cpu.mems == ""
    (record,) = [r for r in records(log) if str(r["event"]).startswith("not configured")]
    assert f"pid {pid}, " in str(record["error"])


def launched_pid(runtime: EmbeddedRuntime, config: str) -> int:
    plugin = runtime.launch(PROGRAM, "10-nri-numamem", config)
    assert plugin.process is not None
    return plugin.process.pid
