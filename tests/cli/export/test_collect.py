"""What the export reads, and a line for each input that it lacks."""

import argparse
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from nri_numamem.cli import export
from nri_numamem.cli.export.collect import Collected, HostInputs, collect
from nri_numamem.config.errors import UsageError
from nri_numamem.export.conditions import Input, Problem
from nri_numamem.numa import CpuSet, Machine, NumaNode
from nri_numamem.observe.plugin_file import plugin_file_of
from tests.cli.export.export_host import ExportHost
from tests.cli.live.live_host import GI


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Iterator[ExportHost]:
    host = ExportHost(tmp_path)
    host.run_pod("a", millicores=500)
    host.run_other_pod("b")
    host.run_other_pod("c", "besteffort")
    host.save()
    with host.running():
        yield host


def read(host: ExportHost, *arguments: str, reserved: CpuSet | None = None) -> Collected:
    parser = argparse.ArgumentParser()
    export.add_arguments(parser)
    return collect(parser.parse_args([*host.arguments(), *arguments]), "worker-1", reserved)


def only_line(found: Collected) -> str:
    assert found.host is not None
    (problem,) = found.problems
    return problem.text


def test_nothing_is_missing(host: ExportHost) -> None:
    found = read(host)
    assert found.problems == ()
    assert found.host is not None
    assert found.host.node_name == "worker-1"
    (container_id,) = found.host.cpus.requests
    assert found.host.cpus.requests == {container_id: 500}
    assert found.host.cpus.exclusive is None
    assert found.host.pods == frozenset(("shop", f"{uid}-x") for uid in "abc")
    assert found.host.pool_use is not None
    assert found.host.state.accounting.assignments["a"]["main"][0].size == 10 * GI


def test_a_plugin_that_does_not_run(tmp_path: Path) -> None:
    host = ExportHost(tmp_path)
    host.save()
    host.run_other_pod("b")
    assert only_line(read(host)) == (
        "no plugin runs: the object shows its state of 2026-09-21T14:13:20Z; start the plugin"
    )


def test_no_state(host: ExportHost) -> None:
    host.state_file.unlink()
    remedy = "start the plugin, or name its state file with --state-file"
    found = read(host)
    assert found.host is None
    problem = Problem(Input.OBJECT, f"{host.state_file} does not exist; {remedy}")
    assert found.problems == (problem,)
    host.state_file.write_text("x")
    found = read(host)
    assert found.host is None
    assert found.problems[0].text.startswith(f"{host.state_file}: not JSON")


def test_no_policy(tmp_path: Path) -> None:
    host = ExportHost(tmp_path, config="memoryManagerPolicy: None\n")
    host.save()
    with host.running():
        found = read(host)
    assert found.host is None
    assert found.problems[0].text.startswith("memoryManagerPolicy is None: the plugin places no")


def test_no_machine(host: ExportHost) -> None:
    found = read(host, "--sysfs-root", str(host.root / "nothing"))
    assert found.host is None
    assert "nothing" in found.problems[0].text


def test_a_machine_without_cpus(tmp_path: Path) -> None:
    host = ExportHost(tmp_path, Machine((NumaNode(0, 64 * GI),)))
    host.save()
    with host.running():
        found = read(host)
    assert found.host is None
    assert found.problems[0].text.startswith(
        "no NUMA node that the plugin uses shows CPUs, and zones"
    )


def test_nodes_without_a_zone(tmp_path: Path) -> None:
    nodes = (
        NumaNode(0, 64 * GI, {}, CpuSet([0])),
        NumaNode(1, 64 * GI),
        NumaNode(64, 64 * GI, {}, CpuSet([1])),
    )
    config = "memoryNodes: {withoutCpus: use}\n"
    host = ExportHost(tmp_path, Machine(nodes), config)
    host.run_other_pod("b")
    host.save()
    with host.running():
        found = read(host)
    assert found.host is not None
    assert tuple(problem.text for problem in found.problems) == (
        (
            "NUMA nodes 64 have no zone: the scheduler plugin supports node ids below 64; pods are "
            "not scheduled for their memory"
        ),
        "NUMA nodes 1 have no zone: they have no CPUs; pods are not scheduled for their memory",
    )


def test_settings_of_the_plugin_that_cannot_be_used(host: ExportHost) -> None:
    path = plugin_file_of(host.state_file)
    path.write_text("x")
    line = only_line(read(host))
    assert line.startswith(
        f"cannot read the running plugin's settings, using its configuration file: {path}: "
    )


def test_hugepage_pools_that_cannot_be_read(host: ExportHost) -> None:
    pool = host.root / "sys/devices/system/node/node0/hugepages/hugepages-1048576kB"
    (pool / "free_hugepages").write_text("x\n")
    line = only_line(read(host))
    assert line.startswith("hugepages that are used outside of pods count as available: ")


def test_reserved_cpus(host: ExportHost) -> None:
    host.write_kubelet("kind: KubeletConfiguration\nreservedSystemCPUs: 0-1\n")
    found = read(host)
    assert found.host is not None
    assert found.host.cpus.reserved == CpuSet([0, 1])
    other = host.root / "other.yaml"
    other.write_text("kind: KubeletConfiguration\nreservedSystemCPUs: '3'\n")
    host.config.write_text(f"kubeletConfigFile: {other}\n")
    found = read(host)
    assert found.host is not None
    assert found.host.cpus.reserved == CpuSet([3])
    found = read(host, reserved=CpuSet([2]))
    assert found.host is not None
    assert found.host.cpus.reserved == CpuSet([2])


def test_no_configuration_of_the_kubelet(host: ExportHost) -> None:
    (host.kubelet / "config.yaml").unlink()
    assert only_line(read(host)) == (
        f"no reserved CPUs: {host.kubelet}/config.yaml does not exist; name the kubelet's "
        "directory with --kubelet-root, or the CPUs with --reserved-cpus"
    )
    assert read(host, reserved=CpuSet([2])).problems == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kind: Pod\n", "no 'kind: KubeletConfiguration' in this document"),
        (
            "kind: KubeletConfiguration\nreservedSystemCPUs: a\n",
            "reservedSystemCPUs: 'a' is not a list of CPUs",
        ),
        ("[", "expected"),
    ],
)
def test_a_wrong_configuration_of_the_kubelet(host: ExportHost, text: str, problem: str) -> None:
    host.write_kubelet(text)
    with pytest.raises(UsageError, match=rf"kubelet/config.yaml:.*{problem}"):
        read(host)


def test_exclusive_cpus(host: ExportHost) -> None:
    host.write_cpu_state({"policyName": "static", "defaultCpuSet": "0,2-3"})
    (host.directory("a", containers_of_a(host)[0]) / "cpu.max").write_text("max 100000\n")
    found = read(host)
    assert found.problems == ()
    assert found.host is not None
    assert found.host.cpus.exclusive == CpuSet([1])


def containers_of_a(host: ExportHost) -> list[str]:
    return [path.name for path in host.directory("a").iterdir() if path.is_dir()]


@pytest.mark.parametrize("text", [None, "x"])
def test_no_state_of_the_cpu_manager(host: ExportHost, text: str | None) -> None:
    path = host.kubelet / "cpu_manager_state"
    path.unlink()
    reason = "No such file or directory"
    if text is not None:
        path.write_text(text)
        reason = (
            "it is not a state file of the CPU manager (Expecting value: line 1 column 1 (char 0))"
        )
    assert only_line(read(host)) == (
        f"exclusive CPUs are unknown and count as available: {path}: {reason}; name the "
        "kubelet's directory with --kubelet-root"
    )


def test_a_container_without_a_cpu_quota(tmp_path: Path) -> None:
    host = ExportHost(tmp_path)
    container_id = host.run_pod("a", millicores=None)
    host.save()
    with host.running():
        found = read(host)
    assert only_line(found) == (
        f"1 running containers count for no CPU, such as {container_id}: their cgroups have no "
        "CPU quota; set cpuCFSQuota: true in the kubelet's configuration"
    )
    assert found.host is not None
    assert found.host.cpus.requests == {}
    assert found.host.pods is not None


def test_a_pod_without_logs(host: ExportHost) -> None:
    (host.pod_logs / "shop_b-x_b").rmdir()
    found = read(host)
    assert found.problems == ()
    assert found.host is not None
    assert found.host.pods == frozenset({("shop", "a-x"), ("shop", "c-x")})
    (host.pod_logs / "shop_a-x_a").rmdir()
    found = read(host)
    assert only_line(found) == (
        f"no fingerprint: {host.pod_logs} has no directory of 1 pods, such as a; mount the "
        "kubelet's podLogsDir, and name it with --pod-logs"
    )
    assert found.host is not None
    assert found.host.pods is None
    assert set(found.host.cpus.requests.values()) == {500}


def test_no_cgroups(host: ExportHost) -> None:
    empty = host.root / "empty"
    empty.mkdir()
    found = read(host, "--cgroup-root", str(empty))
    line = only_line(found)
    assert line.startswith(f"no CPU requests and no fingerprint: {empty} has no cgroup of pods")
    assert found.host is not None
    assert (found.host.cpus.requests, found.host.pods) == ({}, None)


def test_a_host_without_any_pod(tmp_path: Path) -> None:
    host = ExportHost(tmp_path)
    host.save()
    with host.running():
        found = read(host)
    assert only_line(found) == (
        f"no CPU requests and no fingerprint: {host.cgroups} has no cgroup of pods (kubepods); "
        "mount the host's cgroups"
    )


def test_cgroups_that_cannot_be_read(host: ExportHost) -> None:
    (host.directory("a", containers_of_a(host)[0]) / "cpu.max").write_text("x\n")
    found = read(host)
    line = only_line(found)
    assert line.startswith("no CPU requests and no fingerprint: ")
    assert "is not a quota and a period" in line
    assert found.host is not None
    assert (found.host.cpus.requests, found.host.pods) == ({}, None)


@pytest.fixture(name="inputs")
def _inputs(host: ExportHost) -> HostInputs:
    parser = argparse.ArgumentParser()
    export.add_arguments(parser)
    return HostInputs(parser.parse_args(host.arguments()), "worker-1", None, SimpleQueue())


def state(host: ExportHost) -> None:
    host.run_pod("d")
    temporary = host.state_file.with_name("new")
    before = host.state_file
    host.state_file = temporary
    host.save()
    temporary.replace(before)
    host.state_file = before


def plugin(host: ExportHost) -> None:
    host.describe(version="9")


def cpu_state(host: ExportHost) -> None:
    host.write_cpu_state({"policyName": "static", "defaultCpuSet": "0-3", "checksum": 1})


def kubelet(host: ExportHost) -> None:
    host.write_kubelet("kind: KubeletConfiguration\nreservedSystemCPUs: '0'\n")


def pod(host: ExportHost) -> None:
    (host.cgroups / "kubepods/podz").mkdir()


def other_pod(host: ExportHost) -> None:
    (host.cgroups / "kubepods/burstable/podz").mkdir(parents=True)


def name(host: ExportHost) -> None:
    host.name_pod("z")
    os.utime(host.pod_logs, (1, 1))


def hugepages(host: ExportHost) -> None:
    host.use_hugepages(1, 2)


CHANGES: list[Callable[[ExportHost], None]] = [
    state, plugin, cpu_state, kubelet, pod, other_pod, name, hugepages,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_the_stamp_shows_changes(
    host: ExportHost, inputs: HostInputs, change: Callable[[ExportHost], None]
) -> None:
    inputs.read()
    before = inputs.stamp()
    assert inputs.stamp() == before
    hash(before)
    change(host)
    assert inputs.stamp() != before


def test_a_host_that_cannot_be_read_has_a_stamp(host: ExportHost, inputs: HostInputs) -> None:
    inputs.read()
    before = inputs.stamp()
    pool = host.root / "sys/devices/system/node/node0/hugepages/hugepages-1048576kB"
    (pool / "free_hugepages").write_text("x\n")
    assert inputs.stamp() != before
    assert inputs.stamp() == inputs.stamp()


def test_reading(host: ExportHost, inputs: HostInputs) -> None:
    reading = inputs.read()
    assert reading.problems == ()
    assert reading.document is not None
    assert reading.document["kind"] == "NodeResourceTopology"
    host.write_kubelet("kind: Pod\n")
    reading = inputs.read()
    assert reading.document is None
    (problem,) = reading.problems
    assert problem.input is Input.OBJECT
    assert "no 'kind: KubeletConfiguration'" in problem.text
    host.state_file.unlink()
    reading = inputs.read()
    assert reading.document is None
    assert reading.problems[-1].input is Input.OBJECT
