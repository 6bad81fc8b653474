"""Scenario of hugepages: placed with the memory, and limited to the requested amount.

Each NUMA node has 16 pages of 2 MiB. By default containerd does not set hugepage limits of
containers (`disable_hugetlb_controller`), so in half of the phases only the plugin sets them.
"""

from tests.e2e.guest.scenarios_placement import MIB, NEAR_PAIRS, SMALL
from tests.machines.guest import cgroups
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.host import Host
from tests.machines.guest.kubelet import ContainerSpec, Pod, PodSpec

_LIMIT_FILES = ("hugetlb.2MB.max", "hugetlb.2MB.rsvd.max")


def _run(host: Host, name: str, size_bytes: int) -> Pod:
    container = ContainerSpec("main", SMALL, hugepages_bytes={"2MB": size_bytes})
    return host.kubelet.run(PodSpec(name, (container,)))


def _expect_limits(host: Host, name: str, size_bytes: int) -> str:
    pod = host.kubelet.pod(name)
    limits = {
        file: cgroups.read(pod.parent, pod.container_ids["main"], file) for file in _LIMIT_FILES
    }
    wrong = [file for file in host.runtime.hugepage_limit_files if limits[file] != str(size_bytes)]
    expect(not wrong, f"not {size_bytes}: {limits}")
    return f"{limits}"


def _few_pages_are_on_one_node(host: Host) -> str:
    pod = _run(host, "few", 4 * MIB)
    nodes = host.nodes(pod)
    expect(len(nodes) == 1, f"cpuset.mems is {sorted(nodes)}, not one node")
    blocks = host.plugin.accounting()["entries"][pod.uid]["main"]
    sizes = {block["type"]: block["size"] for block in blocks}
    expected = {"memory": SMALL, "hugepages-2Mi": 4 * MIB}
    expect(sizes == expected, f"the plugin's state has {sizes}, not {expected}")
    return f"node {sorted(nodes)}"


def _few_pages_are_limited(host: Host) -> str:
    return _expect_limits(host, "few", 4 * MIB)


def _many_pages_are_on_a_near_pair(host: Host) -> str:
    # A node with assignments of one node cannot join a pair.
    host.kubelet.remove(host.kubelet.pod("few"))
    nodes = host.nodes(_run(host, "many", 48 * MIB))
    expect(nodes in NEAR_PAIRS, f"24 pages are on {sorted(nodes)}, not on a near pair")
    return f"nodes {sorted(nodes)}"


def _many_pages_are_limited(host: Host) -> str:
    return _expect_limits(host, "many", 48 * MIB)


HUGEPAGES = (
    Check("few_pages_are_on_one_node", _few_pages_are_on_one_node),
    Check("few_pages_are_limited", _few_pages_are_limited),
    Check("many_pages_are_on_a_near_pair", _many_pages_are_on_a_near_pair),
    Check("many_pages_are_limited", _many_pages_are_limited),
)
