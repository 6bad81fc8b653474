"""cgroups, NUMA nodes and the configuration for them: one fault each."""

import pytest

from nri_numamem.cli.doctor import examine
from nri_numamem.cli.doctor.findings import Verdict
from nri_numamem.cli.host_files import Host
from tests.cli.doctor.host_files import CONFIG, Change, HostFiles, expect_fault


def reserve_too_much(files: HostFiles) -> None:
    files.write(CONFIG, "reservedMemory: [{numaNode: 0, limits: {memory: 9Gi}}]\n")


def set_a_key_without_effect(files: HostFiles) -> None:
    files.write(CONFIG, "topologyManagerPolicyOptions: {max-allowable-numa-nodes: 9}\n")


def mount_cgroup_v1(files: HostFiles) -> None:
    files.path("sys/fs/cgroup/cgroup.controllers").unlink()


def remove_cpuset(files: HostFiles) -> None:
    files.write("sys/fs/cgroup/cgroup.controllers", "memory hugetlb\n")


def remove_hugetlb(files: HostFiles) -> None:
    files.write("sys/fs/cgroup/cgroup.controllers", "cpuset memory\n")


def hide_the_nodes(files: HostFiles) -> None:
    for node in (0, 1):
        directory = files.path(f"sys/devices/system/node/node{node}")
        (directory / "meminfo").unlink()
        directory.rmdir()


def leave_one_node(files: HostFiles) -> None:
    hide_the_nodes(files)
    files.write("proc/self/status", "Mems_allowed_list:\t0\n")


def damage_sysfs(files: HostFiles) -> None:
    files.write("sys/devices/system/node/node1/meminfo", "nonsense")


def test_a_configuration_that_names_the_kubelets_file_of_the_host(good_host: HostFiles) -> None:
    good_host.write("etc/kubernetes/kubelet.conf", "kind: KubeletConfiguration\n")
    good_host.write(CONFIG, "kubeletConfigFile: /etc/kubernetes/kubelet.conf\n")
    found = {finding.check: finding for finding in examine(Host(good_host.root))}
    assert found["configuration"].verdict is Verdict.OK
    assert found["kubelet_memory_manager"].verdict is Verdict.OK


@pytest.mark.parametrize(
    ("change", "check", "verdict", "text"),
    [
        (reserve_too_much, "configuration", Verdict.FAIL, ".conf:1: reservedMemory[0].limits"),
        (set_a_key_without_effect, "configuration", Verdict.WARN, "has no effect"),
        (mount_cgroup_v1, "cgroups", Verdict.WARN, "no cgroup v2"),
        (remove_cpuset, "cgroups", Verdict.FAIL, "cgroup.controllers lacks cpuset"),
        (remove_hugetlb, "cgroups", Verdict.WARN, "cgroup.controllers lacks hugetlb"),
        (hide_the_nodes, "numa", Verdict.FAIL, "the kernel allows memory of nodes 0-1"),
        (leave_one_node, "numa", Verdict.WARN, "one NUMA node with 16Gi"),
        (damage_sysfs, "numa", Verdict.FAIL, "node1/meminfo: "),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_host_with_one_fault(
    good_host: HostFiles, change: Change, check: str, verdict: Verdict, text: str
) -> None:
    expect_fault(good_host, change, check, verdict, text)
