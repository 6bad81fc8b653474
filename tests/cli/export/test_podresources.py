"""The PodResources API of the export: the kubelet's replies with the plugin's memory."""

import argparse
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from nri_numamem.cli import export
from nri_numamem.cli.export.podresources import path_of, serving
from nri_numamem.cli.main import main
from nri_numamem.config.errors import UsageError
from nri_numamem.engine.core.reason import NO_REASONS
from nri_numamem.engine.core.snapshot import snapshot
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.grpc import Code, StatusError, call
from nri_numamem.kubelet import podresources_pb2 as api
from nri_numamem.kubelet.podresources import GET, GET_ALLOCATABLE_RESOURCES, LIST
from tests.cli.export.export_host import ExportHost
from tests.cli.export.exporter_process import ExporterProcess, in_pod
from tests.cli.export.fake_kubelet import FakeKubelet, memory, nics
from tests.cli.live.live_host import GI
from tests.kubernetes_api import KubernetesApi

GENEROUS_S = 60.0
ALL_CPUS = range(4)


@pytest.fixture(name="kubelet")
def _kubelet(host: ExportHost) -> Iterator[FakeKubelet]:
    with FakeKubelet(host.kubelet / "pod-resources/kubelet.sock") as kubelet:
        kubelet.run_pod("a", cpus=[1], nics=nics(["n0"], 0))
        kubelet.run_pod("other")
        kubelet.allocatable.cpu_ids.extend(ALL_CPUS)
        kubelet.allocatable.devices.append(nics(["n0"], 0))
        yield kubelet


class Served:
    """The API as `export` serves it for a host."""

    def __init__(self, host: ExportHost, path: Path) -> None:
        parser = argparse.ArgumentParser()
        export.add_arguments(parser)
        self.args = parser.parse_args(host.arguments())
        self.path = path
        self.records: list[Record] = []

    def call(self, method: str, payload: bytes = b"") -> bytes:
        return call(self.path, method, payload, timeout_s=GENEROUS_S)

    def pods(self) -> api.ListPodResourcesResponse:
        return api.ListPodResourcesResponse.FromString(self.call(LIST))

    def error(self, method: str = LIST) -> StatusError:
        with pytest.raises(StatusError) as found:
            self.call(method)
        return found.value

    def seen(self, event: str) -> list[dict[str, object]]:
        return [dict(fields_of(record)) for record in self.records if record.event is event]


@pytest.fixture(name="api_of_host")
def _api_of_host(host: ExportHost, kubelet: FakeKubelet, tmp_path: Path) -> Iterator[Served]:
    api_of_host = Served(host, tmp_path / "p.sock")
    with serving(api_of_host.path, api_of_host.args, api_of_host.records.append):
        yield api_of_host


def test_list_has_the_memory_of_the_plugin(api_of_host: Served, kubelet: FakeKubelet) -> None:
    expected = api.ListPodResourcesResponse()
    expected.CopyFrom(kubelet.pods)
    expected.pod_resources[0].containers[0].memory.append(memory("memory", 10 * GI, 0))
    assert api_of_host.pods() == expected


def test_each_request_calls_the_kubelet_and_reads_the_state_anew(
    api_of_host: Served, kubelet: FakeKubelet, host: ExportHost
) -> None:
    api_of_host.pods()
    kubelet.run_pod("b")
    host.run_pod("b", 20 * GI)
    host.save()
    found = api_of_host.pods().pod_resources[-1]
    assert [entry.size for entry in found.containers[0].memory] == [20 * GI]
    assert kubelet.calls == ["List", "List"]


def test_get_has_the_memory_of_one_pod(api_of_host: Served, kubelet: FakeKubelet) -> None:
    request = api.GetPodResourcesRequest(pod_name="a-x", pod_namespace="shop")
    reply = api_of_host.call(GET, request.SerializeToString())
    found = api.GetPodResourcesResponse.FromString(reply).pod_resources
    assert found == api_of_host.pods().pod_resources[0]


def test_allocatable_resources_have_memory_and_hugepages_of_each_node(
    api_of_host: Served, kubelet: FakeKubelet, host: ExportHost
) -> None:
    reply = api_of_host.call(GET_ALLOCATABLE_RESOURCES)
    found = api.AllocatableResourcesResponse.FromString(reply)
    assert found.devices == kubelet.allocatable.devices
    assert found.cpu_ids == list(ALL_CPUS)
    listed = {(one.memory_type, one.topology.nodes[0].ID): one.size for one in found.memory}
    assert listed == {
        (resource, node): state.table(resource).allocatable
        for node, state in host.engine.state.accounting.machine_state.items()
        for resource in ("memory", "hugepages-1Gi")
    }
    assert api_of_host.seen("podresources_incomplete") == []


def test_a_kubelet_without_the_static_cpu_manager_is_recorded_once(
    api_of_host: Served, kubelet: FakeKubelet
) -> None:
    del kubelet.allocatable.cpu_ids[:]
    for _ in range(2):
        api_of_host.call(GET_ALLOCATABLE_RESOURCES)
    (fields,) = api_of_host.seen("podresources_incomplete")
    assert fields["input"] == "cpus"
    assert "every Guaranteed pod becomes unschedulable" in str(fields["cause"])


def test_errors_of_the_kubelet_reach_the_client_unchanged(
    api_of_host: Served, kubelet: FakeKubelet
) -> None:
    kubelet.error = StatusError(Code.RESOURCE_EXHAUSTED, "rejected by rate limit")
    error = api_of_host.error()
    assert (error.code, error.message) == (Code.RESOURCE_EXHAUSTED, "rejected by rate limit")
    assert api_of_host.error(GET).message == "pod  not found"
    assert api_of_host.seen("podresources_failed") == []


def test_a_kubelet_that_has_gone_is_an_error_and_recorded_once(
    host: ExportHost, tmp_path: Path
) -> None:
    one = Served(host, tmp_path / "p.sock")
    with serving(one.path, one.args, one.records.append):
        error = one.error()
        one.error()
        path = host.kubelet / "pod-resources/kubelet.sock"
        assert error.code is Code.UNAVAILABLE
        assert error.message == f"kubelet: {path}: No such file or directory"
        (fields,) = one.seen("podresources_failed")
        assert fields == {"method": LIST, "cause": str(error)}
        with FakeKubelet(path):
            one.pods()
            one.pods()
    assert one.seen("podresources_restored") == [{"method": LIST}]


def test_a_reply_that_is_not_valid_is_an_error(api_of_host: Served, kubelet: FakeKubelet) -> None:
    kubelet.allocatable.cpu_ids.append(-1)
    error = api_of_host.error(GET_ALLOCATABLE_RESOURCES)
    assert error.code is Code.INTERNAL
    assert error.message.startswith(f"{kubelet.path}: the kubelet's reply has an invalid number")
    assert len(api_of_host.seen("podresources_failed")) == 1


def test_without_the_plugins_state_a_request_fails(api_of_host: Served, host: ExportHost) -> None:
    host.state_file.write_text("x")
    assert f"{host.state_file}: not JSON" in api_of_host.error().message
    host.state_file.unlink()
    error = api_of_host.error()
    assert error.code is Code.UNAVAILABLE
    assert error.message == f"{host.state_file} does not exist; start the plugin"


def test_without_a_machine_a_request_fails(host: ExportHost, tmp_path: Path) -> None:
    with FakeKubelet(host.kubelet / "pod-resources/kubelet.sock"):
        one = Served(host, tmp_path / "p.sock")
        one.args.sysfs_root = tmp_path / "missing"
        with serving(one.path, one.args, one.records.append):
            assert one.error().code is Code.UNAVAILABLE
            assert str(tmp_path / "missing") in one.error().message


def test_a_configuration_that_cannot_be_used_fails_a_request(
    host: ExportHost, tmp_path: Path
) -> None:
    with FakeKubelet(host.kubelet / "pod-resources/kubelet.sock"):
        one = Served(host, tmp_path / "p.sock")
        one.args.config = tmp_path / "missing.yaml"
        with serving(one.path, one.args, one.records.append):
            assert "missing.yaml" in one.error().message


def test_a_plugin_that_places_nothing_changes_nothing(tmp_path: Path) -> None:
    host = ExportHost(tmp_path, config="memoryManagerPolicy: None\n")
    host.save()
    with FakeKubelet(host.kubelet / "pod-resources/kubelet.sock") as kubelet:
        kubelet.run_pod("a")
        kubelet.pods.pod_resources[0].containers[0].memory.append(memory("memory", 1, 0))
        one = Served(host, tmp_path / "p.sock")
        with serving(one.path, one.args, one.records.append):
            assert one.pods() == kubelet.pods


def test_pods_whose_names_are_unknown_are_recorded(api_of_host: Served, host: ExportHost) -> None:
    host.state_file.write_bytes(snapshot(host.engine.state.with_reasons(NO_REASONS)))
    api_of_host.pods()  # the directory of its logs has its name
    assert api_of_host.seen("podresources_incomplete") == []
    (host.pod_logs / "shop_a-x_a").rmdir()
    assert not api_of_host.pods().pod_resources[0].containers[0].memory
    (fields,) = api_of_host.seen("podresources_incomplete")
    assert fields["input"] == "pod_names"
    assert str(fields["cause"]).startswith("memory of 1 pods is missing, such as a: ")


def test_without_a_directory_of_logs_the_names_are_those_of_the_state(
    api_of_host: Served, tmp_path: Path
) -> None:
    expected = api_of_host.pods()
    api_of_host.args.pod_logs = tmp_path / "file"
    api_of_host.args.pod_logs.write_text("")
    assert api_of_host.pods() == expected


def test_many_clients_get_the_same_replies(api_of_host: Served) -> None:
    expected = api_of_host.pods()
    found: list[api.ListPodResourcesResponse] = []
    threads = [threading.Thread(target=lambda: found.append(api_of_host.pods())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8


def test_grpcio_reads_the_replies(api_of_host: Served) -> None:
    with grpc.insecure_channel(f"unix://{api_of_host.path}") as channel:
        reply = channel.unary_unary(LIST)(b"", timeout=GENEROUS_S)
    assert api.ListPodResourcesResponse.FromString(reply) == api_of_host.pods()


@pytest.mark.parametrize("address", ["", "/run/x.sock", "unix://x.sock", "tcp://127.0.0.1:1"])
def test_an_address_that_is_not_valid_is_refused(address: str) -> None:
    with pytest.raises(
        UsageError, match=r"--podresources: .* is not an address such as unix:///run/"
    ):
        path_of(address)


def test_an_address_is_a_socket_file() -> None:
    assert path_of("unix:///run/x.sock") == Path("/run/x.sock")


def test_the_socket_of_the_kubelet_is_refused(
    host: ExportHost, kubelet: FakeKubelet, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match="--podresources: another process serves"):
        serving(kubelet.path, Served(host, kubelet.path).args, print).__enter__()


def test_no_write_needs_an_address(host: ExportHost, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "--no-write", *host.arguments()]) == 2
    assert "--no-write leaves nothing to do; add --podresources" in capsys.readouterr().err


@pytest.mark.slow
def test_the_process_only_serves(host: ExportHost, kubelet: FakeKubelet, tmp_path: Path) -> None:
    path = tmp_path / "p.sock"
    with socket.socket(socket.AF_UNIX) as former:  # of a process that was killed
        former.bind(str(path))
    options = ["--no-write", "--podresources", f"unix://{path}"]
    with ExporterProcess(tmp_path, host, *options) as exporter:
        exporter.wait_event("podresources_started")
        reply = call(path, LIST, timeout_s=GENEROUS_S)
        (entry,) = (
            api.ListPodResourcesResponse.FromString(reply).pod_resources[0].containers[0].memory
        )
        assert entry == memory("memory", 10 * GI, 0)
        assert exporter.stop() == 0
    assert exporter.events() == ["export_started", "podresources_started", "export_stopped"]
    assert "server" not in exporter.records()[0]
    assert not path.exists()


@pytest.mark.slow
def test_the_process_writes_and_serves(
    host: ExportHost, kubelet: FakeKubelet, tmp_path: Path
) -> None:
    path = tmp_path / "p.sock"
    with KubernetesApi() as server:
        environment, options = in_pod(server, tmp_path)
        options += ["--podresources", f"unix://{path}"]
        with ExporterProcess(tmp_path, host, *options, environment=environment) as exporter:
            exporter.wait_event("topology_written")
            assert call(path, LIST, timeout_s=GENEROUS_S)
            assert exporter.stop() == 0
        resources = server.objects["worker-1"]["zones"][0]["resources"]
    assert "vendor.com/nic" in {entry["name"] for entry in resources}


def test_a_bug_of_a_handler_is_recorded_with_its_traceback(
    api_of_host: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_reply: bytes, _memory: object) -> bytes:
        raise KeyError("a bug")

    monkeypatch.setattr("nri_numamem.kubelet.podresources.with_memory_of_list", fail)
    assert api_of_host.error().code is Code.UNKNOWN
    (fields,) = api_of_host.seen("podresources_failed")
    assert (fields["method"], fields["cause"]) == (LIST, "KeyError('a bug')")
    assert str(fields["exception"]).startswith("Traceback (most recent call last):")
    assert str(fields["exception"]).endswith("KeyError: 'a bug'")
