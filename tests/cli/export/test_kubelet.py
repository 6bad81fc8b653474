"""CPUs and devices from the kubelet's socket, and from its files without it."""

import argparse
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_numamem.cli import export
from nri_numamem.cli.export.collect import Collected, collect
from nri_numamem.cli.export.kubelet import read_kubelet
from nri_numamem.export.amounts import CpuUse
from nri_numamem.export.conditions import Input, Problem
from nri_numamem.export.noderesourcetopology import noderesourcetopology
from nri_numamem.grpc import Code, StatusError
from nri_numamem.kubelet.host_resources import KubeletResources
from nri_numamem.numa import CpuSet
from tests.cli.export.export_host import ExportHost
from tests.cli.export.fake_kubelet import NIC, FakeKubelet, nics

STATIC = {"policyName": "static", "defaultCpuSet": "0,2-15", "checksum": 1}


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Iterator[ExportHost]:
    host = ExportHost(tmp_path)
    host.run_pod("a", millicores=500)
    host.write_kubelet("kind: KubeletConfiguration\nreservedSystemCPUs: '0'\n")
    host.write_cpu_state(STATIC)
    host.save()
    with host.running():
        yield host


@pytest.fixture(name="kubelet")
def _kubelet(host: ExportHost) -> Iterator[FakeKubelet]:
    with FakeKubelet(host.kubelet / "pod-resources/kubelet.sock") as kubelet:
        yield kubelet


def read(host: ExportHost, *arguments: str, reserved: CpuSet | None = None) -> Collected:
    parser = argparse.ArgumentParser()
    export.add_arguments(parser)
    return collect(parser.parse_args([*host.arguments(), *arguments]), "worker-1", reserved)


def cpus(found: Collected) -> CpuUse:
    assert found.host is not None
    return found.host.cpus


def every(host: ExportHost) -> CpuSet:
    found = read(host).host
    assert found is not None
    return CpuSet(cpu for node in found.context.machine.nodes for cpu in node.cpus)


def of_nics(found: Collected) -> list[str | None]:
    """Return what is available of the network devices on each node."""
    assert found.host is not None
    zones = noderesourcetopology(found.host)["zones"]
    assert isinstance(zones, list)
    resources = [{entry["name"]: entry for entry in zone["resources"]} for zone in zones]
    return [of_zone[NIC]["available"] if NIC in of_zone else None for of_zone in resources]


def test_devices_are_in_the_object(host: ExportHost, kubelet: FakeKubelet) -> None:
    kubelet.allocatable.devices.extend([nics(["n0", "n1"], 0), nics(["n2"], 2)])
    kubelet.run_pod("a", nics=nics(["n1"], 0))
    found = read(host)
    assert found.problems == ()
    assert of_nics(found) == ["1", None, "1", None]


def test_the_static_cpu_manager_has_reserved_and_exclusive_cpus(
    host: ExportHost, kubelet: FakeKubelet
) -> None:
    reserved = CpuSet([0, 3])
    kubelet.allocatable.cpu_ids.extend(every(host) - reserved)
    kubelet.run_pod("a", cpus=[1, 2])
    found = cpus(read(host))
    assert (found.reserved, found.exclusive) == (reserved, CpuSet([1, 2]))
    # What the caller says is reserved counts.
    assert cpus(read(host, reserved=CpuSet([5]))).reserved == CpuSet([5])


def test_without_the_static_cpu_manager_reserved_cpus_are_those_of_the_configuration(
    host: ExportHost, kubelet: FakeKubelet
) -> None:
    found = cpus(read(host))
    assert kubelet.calls == ["List", "GetAllocatableResources"]
    assert (found.reserved, found.exclusive) == (CpuSet([0]), None)
    assert cpus(read(host, reserved=CpuSet([5]))).reserved == CpuSet([5])


def test_without_a_socket_the_files_count(host: ExportHost) -> None:
    found = read(host)
    assert found.problems == ()
    assert (cpus(found).reserved, cpus(found).exclusive) == (CpuSet([0]), CpuSet([1]))
    assert found.host is not None
    assert found.host.kubelet == KubeletResources()


@pytest.mark.parametrize("code", [Code.RESOURCE_EXHAUSTED, Code.UNIMPLEMENTED])
def test_with_an_error_of_the_kubelet_the_files_count(
    host: ExportHost, kubelet: FakeKubelet, code: Code
) -> None:
    kubelet.error = StatusError(code, "rejected")
    found = read(host)
    (problem,) = found.problems
    assert problem.input is Input.PODRESOURCES
    assert problem.text == (
        f"no devices, and CPUs only from the kubelet's files: {kubelet.path}: rejected "
        f"({code.name}); start the kubelet, or name its socket with --podresources-socket"
    )
    assert (cpus(found).reserved, cpus(found).exclusive) == (CpuSet([0]), CpuSet([1]))


def test_a_socket_that_no_kubelet_serves_is_a_problem(host: ExportHost) -> None:
    path = host.kubelet / "pod-resources/kubelet.sock"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as former:
        former.bind(str(path))
    (problem,) = read(host).problems
    assert f"{path}: Connection refused (UNAVAILABLE)" in problem.text


def test_a_reply_that_is_not_valid_is_a_problem(host: ExportHost, kubelet: FakeKubelet) -> None:
    kubelet.allocatable.cpu_ids.append(-1)
    (problem,) = read(host).problems
    assert "the kubelet's reply has an invalid number" in problem.text


def test_another_socket_is_named(host: ExportHost, kubelet: FakeKubelet, tmp_path: Path) -> None:
    with FakeKubelet(tmp_path / "other.sock") as other:
        other.allocatable.devices.append(nics(["n0"], 1))
        found = read(host, "--podresources-socket", str(other.path))
    assert of_nics(found) == [None, "1", None, None]
    assert kubelet.calls == []
    (problem,) = read(host, "--podresources-socket", str(other.path)).problems
    assert f"{other.path}: No such file or directory" in problem.text


def test_a_directory_that_cannot_be_read_is_a_problem(
    host: ExportHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: Path, **_options: bool) -> bool:
        raise PermissionError

    parser = argparse.ArgumentParser()
    export.add_arguments(parser)
    args = parser.parse_args([*host.arguments(), "--reserved-cpus", "0"])
    found = read(host)
    assert found.host is not None
    monkeypatch.setattr("pathlib.Path.exists", refuse)
    problems: list[Problem] = []
    config = host.kubelet / "config.yaml"
    read_kubelet(args, config, found.host.context, CpuSet([0]), problems)
    assert [problem.input for problem in problems] == [Input.PODRESOURCES]
