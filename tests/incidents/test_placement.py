"""Containers that are refused or run unpinned: the first command names cause and remedy."""

import pytest

from tests.incidents.conftest import Incident

_POLICIES = {
    "none": "UnexpectedAdmissionError",
    "best-effort": "UnexpectedAdmissionError",
    "restricted": "TopologyAffinityError",
    "single-numa-node": "TopologyAffinityError",
}


def fill(incident: Incident) -> None:
    """Use 3 GiB of node 0 and 2 GiB of node 1, each for pods of one node."""
    incident.pod("db", 3)
    incident.pod("web", 2)


@pytest.mark.parametrize("policy", _POLICIES)
def test_refused_although_memory_is_free(incident: Incident, policy: str) -> None:
    incident.start(f"topologyManagerPolicy: {policy}\n")
    fill(incident)
    refusal = incident.pod("big", 2.5)
    text = incident.eventually("remedy end default/web or make room", "explain", "big")
    assert "default/big, container main: refused" in text
    assert f"policy topologyManagerPolicy {policy}; {_POLICIES[policy]}" in text
    assert "0 846Mi 1.68Gi short 1 1.82Gi 690Mi short" in text
    assert "holds default/db/main has 3Gi memory on node 0" in text
    assert "remedy end default/web or make room on NUMA node 1: 690Mi or request at most" in text
    # What kubectl describe pod shows has the same facts.
    assert "NUMA node 1: 1.82Gi free of 3.82Gi allocatable" in str(refusal)
    assert "remedy: make room on NUMA node 1: 690Mi, or request at most 1870Mi" in str(refusal)
    status = incident.shown("status")
    assert "Refused now" in status
    assert "default/big main 1" in status


def test_guaranteed_and_unpinned(incident: Incident) -> None:
    incident.start("whenUnsatisfiable: RunUnpinned\n")
    fill(incident)
    incident.pod("big", 2.5)
    text = incident.eventually("default/big/main: runs unpinned since", "status")
    assert "nothing fitted when it was created (RunUnpinned)" in text
    text = incident.shown("explain", "big")
    assert "because whenUnsatisfiable is RunUnpinned, and nothing fits" in text
    assert "remedy end default/web or make room on NUMA node 1: 690Mi" in text


def test_reserved_memory_is_what_a_pod_lacks(incident: Incident) -> None:
    incident.start("reservedMemory: [{numaNode: 0, limits: {memory: 3Gi}}]\n")
    incident.pod("web", 3)
    refusal = incident.pod("db", 2)
    cause = "NUMA node 0: 896Mi free of 896Mi allocatable (4Gi less 3Gi reservedMemory"
    assert cause in str(refusal)
    text = incident.eventually("remedy end default/web", "explain", "db")
    assert "0 896Mi 1.13Gi short, even if empty" in text
    assert (
        "reserved node 0: 3Gi of 4Gi are reserved (reservedMemory); without that it would" in text
    )


def test_reserved_memory_on_a_node_that_does_not_exist(incident: Incident) -> None:
    config = incident.write(
        "etc/nri-numamem/config.yaml",
        "reservedMemory:\n- {numaNode: 7, limits: {memory: 1Gi}}\n",
    )
    process = incident.host.start("--config", str(config))
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 2
    cause = "references a NUMA node 7 that does not exist on this machine; its NUMA nodes are 0-1"
    assert cause in output
    text = incident.shown("doctor")
    assert cause in text
    assert "config.yaml:2: reservedMemory[0]: " in text
    assert "the plugin does not start with it; correct it, then: nri-numamem config check" in text


def test_a_program_outside_of_pods_has_the_hugepages(incident: Incident) -> None:
    incident.start()
    for node in (0, 1):
        pool = f"sys/devices/system/node/node{node}/hugepages/hugepages-2048kB"
        incident.write(f"{pool}/free_hugepages", "4\n")
    status = f"Name:\tdpdk-testpmd\nHugetlbPages:\t{120 * 2048:8} kB\n"
    incident.write("proc/881/status", status)
    incident.write("proc/881/cgroup", "0::/system.slice/dpdk.service\n")
    pages = "7efc40000000 default file=/x huge dirty=1 N0=60 N1=60 kernelpagesize_kB=2048\n"
    incident.write("proc/881/numa_maps", pages)
    incident.pod("db", 1, pages=20)
    user = "dpdk-testpmd (pid 881, 60 2Mi pages)"
    text = incident.eventually("remedy free 60 2Mi pages", "explain", "db")
    assert f"outside node 0: 60 of 64 2Mi pages are used outside of pods: {user}" in text
    assert f"remedy free 60 2Mi pages on node 0, used outside of pods by {user}; the" in text
    text = incident.shown("doctor")
    assert f"warn node 0: 60 of 64 2Mi pages are used outside of pods: {user}" in text
    assert "or add 120Mi of hugepages-2Mi on node 0 to reservedMemory" in text


def test_a_node_without_cpus_is_left_out(incident: Incident) -> None:
    incident.add_node_without_cpus()
    incident.start()
    incident.pod("db", 9)
    left_out = "node 2: no container is placed there, because memoryNodes.withoutCpus is exclude"
    # The history has the refusal; the state file, which the plan needs, is written later.
    text = incident.eventually(f"left out {left_out}", "explain", "db")
    assert "remedy request at most 7836Mi or set memoryNodes.withoutCpus lastResort" in text
    for command in ("status", "doctor"):
        assert left_out in incident.shown(command)
