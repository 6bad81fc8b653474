import socket
import sys
from pathlib import Path

import pytest

from nri_numamem.ttrpc import CallFailed, StatusError
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.plugin import PluginUnavailable
from tests.laboratory.runtime import FakeRuntime, ProtocolViolation
from tests.laboratory.table_plugin import TablePlugin
from tests.laboratory.version import RuntimeVersion

_ROOT = Path(__file__).resolve().parents[2]
_PLUGIN = """#!{python}
import socket, sys
sys.path.insert(0, "{root}")
from tests.laboratory.table_plugin import TablePlugin
plugin = TablePlugin(socket.socket(fileno=3))
plugin._thread.join()
"""


def _connect(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(str(path))
    return sock


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "10-table"
    path.write_text(_PLUGIN.format(python=sys.executable, root=_ROOT))
    path.chmod(0o755)
    return path


def _mems_update(container_id: str, mems: str) -> api.ContainerUpdate:
    update = api.ContainerUpdate(container_id=container_id, ignore_failure=True)
    update.linux.resources.cpu.mems = mems
    return update


def test_an_external_plugin_connects(tmp_path: Path) -> None:
    path = tmp_path / "nri.sock"
    path.touch()
    with FakeRuntime() as runtime:
        runtime.listen(path)
        with TablePlugin(_connect(path)):
            plugin = runtime.accept()
            assert (plugin.idx, plugin.name) == ("10", "table")
            assert runtime.synchronize() == []
            assert plugin.connection.recorder.violations == []
    assert not path.exists()


def test_accept_times_out(tmp_path: Path) -> None:
    with FakeRuntime() as runtime:
        with pytest.raises(RuntimeError, match="needs listen"):
            runtime.accept()
        runtime.listen(tmp_path / "nri.sock")
        with pytest.raises(TimeoutError):
            runtime.accept(0.01)
        with pytest.raises(PluginUnavailable, match="there is no plugin"):
            runtime.synchronize()


@pytest.mark.parametrize(
    ("nri_version", "synchronized"), [((0, 6, 1), False), ((0, 7, 0), True), ((0, 12, 0), True)]
)
def test_a_launched_plugin(
    script: Path, nri_version: tuple[int, int, int], *, synchronized: bool
) -> None:
    version = RuntimeVersion("containerd", "v1.7.24", nri_version)
    with FakeRuntime(version, registration_timeout_s=30.0) as runtime:
        plugin = runtime.launch(script, "10-other", "some: text")
        assert (plugin.idx, plugin.name, plugin.launched) == ("10", "other", True)
        runtime.synchronize()
        assert ("Synchronize" in plugin.calls) == synchronized
        assert plugin.process is not None
    assert plugin.process.exit_status == 0


def test_a_closed_launched_plugin_is_killed_since_0_7(script: Path) -> None:
    with FakeRuntime(registration_timeout_s=30.0) as runtime:
        plugin = runtime.launch(script, "10-table")
        assert plugin.process is not None
        plugin.close("for the test")
        assert plugin.process.exit_status == -9
        with pytest.raises(PluginUnavailable, match="for the test"):
            runtime.synchronize()


def test_updates_of_synchronize_reach_the_store(tmp_path: Path) -> None:
    runtime = FakeRuntime()
    pod = runtime.run_pod_sandbox(objects.pod("db"))
    container = runtime.create_container(pod, objects.container(pod, "server"))

    def reply(_payload: bytes) -> bytes:
        return api.SynchronizeResponse(
            update=[_mems_update(container.id, "1"), _mems_update("gone", "1")]
        ).SerializeToString()

    ours, theirs = socket.socketpair()
    with runtime, TablePlugin(theirs, {"Synchronize": reply}):
        runtime.attach(ours)
        assert len(runtime.synchronize()) == 2
    assert runtime.store.containers[container.id].linux.resources.cpu.mems == "1"


def test_unsolicited_updates_are_applied() -> None:
    runtime = FakeRuntime()
    pod = runtime.run_pod_sandbox(objects.pod("db"))
    container = runtime.create_container(pod, objects.container(pod, "server"))
    ours, theirs = socket.socketpair()
    with runtime, TablePlugin(theirs) as table_plugin:
        plugin = runtime.attach(ours)
        assert not runtime.serve(0.01)
        request = api.UpdateContainersRequest(update=[_mems_update(container.id, "1")])
        table_plugin.call("UpdateContainers", request.SerializeToString())
        assert runtime.serve(5.0)
        assert plugin.connection.requests_received == ["RegisterPlugin", "UpdateContainers"]
        assert container.linux.resources.cpu.mems == "1"
        request.update.add(container_id="")
        table_plugin.call("UpdateContainers", request.SerializeToString())
        with pytest.raises(ProtocolViolation):
            runtime.serve(5.0)
        plugin.call("Shutdown", api.Empty(), api.Empty)
        assert len(table_plugin.outcomes) == 2


def test_unknown_services_and_methods_are_unimplemented() -> None:
    ours, theirs = socket.socketpair()
    with FakeRuntime() as runtime, TablePlugin(theirs) as table_plugin:
        plugin = runtime.attach(ours)
        table_plugin.call("Other", b"")
        table_plugin.call("UpdateContainers", b"", service="no.such.Service")
        assert runtime.serve(5.0)
        assert runtime.serve(5.0)
        plugin.call("Shutdown", api.Empty(), api.Empty)
        texts = []
        for outcome in table_plugin.outcomes[1:]:
            assert isinstance(outcome, CallFailed)
            assert isinstance(outcome.error, StatusError)
            texts.append((outcome.error.code, outcome.error.message))
        assert texts == [(12, "method Other"), (12, "service no.such.Service")]
