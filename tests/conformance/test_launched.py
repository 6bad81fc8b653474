"""The installed program, launched by a runtime from its plugin directory."""

import contextlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.bench import BUSY_S, MI, mems_of
from tests.conformance.go_runtime import GoError, GoRuntime
from tests.conformance.installed import (
    INSTALLED,
    install_plugin,
    install_plugin_with_slow_start,
    install_plugin_with_state,
)
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.simulated_host import wait_for


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "plugin.log"


def _config(log: Path) -> str:
    return f"logFile: {log}\nlogFormat: json\nstateFile: {log.with_name('state')}\n"


@contextmanager
def _runtime(version: str, root: Path, request_timeout: str = "2s") -> Iterator[GoRuntime]:
    """Return a runtime that launches the plugin; a busy machine may need 5 s and more for that."""
    options = {
        "plugins": root / "plugins",
        "configs": root / "configs",
        "registration-timeout": "30s",
        "request-timeout": request_timeout,
    }
    with GoRuntime(version, options) as runtime:
        runtime.set_content([], [])
        yield runtime


def _records(log: Path) -> list[dict[str, Any]]:
    if not log.exists():
        return []
    lines = log.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def _events(log: Path) -> list[str]:
    return [record["event"] for record in _records(log)]


def _synchronized(log: Path) -> bool:
    """Return whether the plugin was synchronized before it created a container."""
    wait_for(lambda: "admitted" in _events(log), "a record of the container", BUSY_S)
    return "synchronized" in _events(log)


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    found = [int(word) for word in text.split()]
    for thread in Path(f"/proc/{pid}/task").iterdir():
        found += [int(word) for word in (thread / "children").read_text().split()]
    return sorted(set(found))


def _create(runtime: GoRuntime) -> api.CreateContainerResponse:
    pod = objects.pod("db", memory_limit_bytes=MI)
    runtime.call("RunPodSandbox", pod=pod)
    container = objects.container(pod, "server", memory_limit_bytes=MI)
    result = runtime.call("CreateContainer", pod=pod, container=container)
    return api.CreateContainerResponse.FromString(result)


@pytest.mark.scenario(17, 18, 19, 20, 21, 29)
def test_serves_and_ends_with_the_runtime(version: str, tmp_path: Path, log: Path) -> None:
    """Versions before 0.4 pass the index in the name, versions before 0.6 leak a descriptor."""
    install_plugin(tmp_path, f"{_config(log)}logLevel: debug\n")
    with _runtime(version, tmp_path) as runtime:
        runtime.call("start")
        (pid,) = _children(runtime.pid)
        created = _create(runtime)
        assert mems_of(created) != ""
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        names = {entry.partition(b"=")[0] for entry in environment if entry}
        assert names == {b"NRI_PLUGIN_NAME", b"NRI_PLUGIN_IDX", b"NRI_PLUGIN_SOCKET"}
        full = b"NRI_PLUGIN_NAME=10-nri-numamem" in environment
        assert full is (runtime.nri_version < (0, 4))
        files = _files(pid)
        assert [files[fd] for fd in range(3)] == ["/dev/null"] * 3
        ours = files[3]
        assert [fd for fd, link in files.items() if link == ours] == [3]
        assert _synchronized(log) is (runtime.nri_version >= (0, 7))
        runtime.kill()
        wait_for(lambda: "plugin_exited" in _events(log), "the plugin's end", BUSY_S)
        wait_for(lambda: not Path(f"/proc/{pid}").exists(), "the process's end")
    assert "admitted" in _events(log)


def _files(pid: int) -> dict[int, str]:
    found = {}
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the state file's writer opens and closes
            found[int(fd.name)] = str(fd.readlink())
    return found


@pytest.mark.scenario(18)
def test_no_configuration_is_the_default(version: str, tmp_path: Path) -> None:
    install_plugin_with_state(tmp_path, tmp_path / "state")
    with _runtime(version, tmp_path) as runtime:
        runtime.call("start")
        assert mems_of(_create(runtime)) != ""


@pytest.mark.scenario(18)
def test_a_broken_configuration(version: str, tmp_path: Path) -> None:
    """The plugin refuses it if the runtime survives that; else it manages no container."""
    install_plugin(tmp_path, "logLevle: debug\n")
    with _runtime(version, tmp_path) as runtime:
        runtime.call("start")
        assert mems_of(_create(runtime)) == ""
        survives = runtime.nri_version >= (0, 7)
        assert bool(runtime.logged("logLevle")) is survives


@pytest.mark.scenario(16, 18)
def test_a_configuration_that_takes_too_long(version: str, tmp_path: Path, log: Path) -> None:
    """The reply is in time; the configuration is applied before the next call.

    The plugin replies after 60 % of the timeout. The rest must do for a reply on a busy machine.
    """
    install_plugin_with_slow_start(tmp_path, _config(log))
    pod = objects.pod("was there", memory_limit_bytes=MI)
    container = objects.container(pod, "server", memory_limit_bytes=MI)
    container.state = api.CONTAINER_RUNNING
    with _runtime(version, tmp_path, request_timeout="6s") as runtime:
        runtime.set_content([pod], [container])
        runtime.call("start")
        assert mems_of(_create(runtime)) != ""
        assert not any(event.error for event in runtime.synchronizations())
        assert _synchronized(log) is (runtime.nri_version >= (0, 7))
    late = [r for r in _records(log) if r["event"] == "request_timed_out"]
    assert [record["method"] for record in late] == ["ConfigureRequest"]


def test_the_harness_reports_a_failed_start(version: str, tmp_path: Path) -> None:
    """The other tests need an error here: an invalid file name fails the start."""
    install_plugin(tmp_path, "")
    (tmp_path / "plugins" / "not-numbered").symlink_to(INSTALLED)
    with (
        _runtime(version, tmp_path) as runtime,
        pytest.raises(GoError, match="invalid plugin index"),
    ):
        runtime.call("start")


@pytest.mark.scenario(61)
def test_a_second_instance_manages_no_container(version: str, tmp_path: Path, log: Path) -> None:
    """The plugin refuses to start if the runtime survives that; else it stays idle."""
    install_plugin(tmp_path, _config(log))
    install_plugin(tmp_path, _config(log), "20-nri-numamem")
    with _runtime(version, tmp_path) as runtime:
        runtime.call("start")
        assert mems_of(_create(runtime)) != ""
        assert bool(runtime.logged("another instance holds")) is (runtime.nri_version >= (0, 7))
