"""Scenario of a NUMA node without CPUs: node 4 of 256 MiB, which the plugin excludes."""

from pathlib import Path

from tests.machines.guest import cgroups
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.cri import CriError
from tests.machines.guest.host import Host
from tests.machines.guest.kubelet import ContainerSpec, PodSpec

MIB = 1 << 20
# One on each node with CPUs leaves less than SMALL there; node 4 could hold SMALL.
MEDIUM = 760 * MIB
SMALL = 200 * MIB

_NODE = "4"
_SYSFS = Path("/sys/devices/system/node")


def _node_is_excluded(host: Host) -> str:
    kernel = {
        name: cgroups.parse_nodes((_SYSFS / name).read_text(encoding="ascii").strip())
        for name in ("has_cpu", "has_memory")
    }
    expect(kernel["has_cpu"] == {0, 1, 2, 3}, f"the kernel shows {kernel}")
    expect(kernel["has_memory"] == {0, 1, 2, 3, 4}, f"the kernel shows {kernel}")
    nodes = host.plugin.records("machine")[-1]["nodes"]
    found = (nodes[_NODE]["class"], nodes[_NODE]["use"])
    expect(found == ("cpuless", "excluded"), f"the plugin classifies {nodes}")
    others = {node["use"] for name, node in nodes.items() if name != _NODE}
    expect(others == {"used"}, f"the plugin classifies {nodes}")
    return f"{nodes[_NODE]}, node 0 has tier {nodes['0'].get('memory_tier')}"


def _excluded_node_is_not_used(host: Host) -> str:
    """Fill the nodes with CPUs: a container that only node 4 could hold is rejected."""
    names = [f"c{node}" for node in range(4)]
    full = host.kubelet.run(PodSpec("full", tuple(ContainerSpec(n, MEDIUM) for n in names)))
    used = [sorted(cgroups.nodes(full.parent, full.container_ids[name])) for name in names]
    expect(sorted(used) == [[0], [1], [2], [3]], f"the containers are on {used}")
    pod = host.kubelet.run_sandbox(PodSpec("rejected", (ContainerSpec("main", SMALL),)))
    try:
        host.kubelet.run_container(pod, "main")
    except CriError as error:
        text = str(error)
    else:
        text = f"it runs on {sorted(cgroups.nodes(pod.parent, pod.container_ids['main']))}"
    expect("refused" in text, f"a container for which only node 4 has room: {text}")
    expect(f"node {_NODE}" not in text, f"the text names the excluded node: {text}")
    placed = {node for _, nodes in host.placements for node in nodes}
    expect(int(_NODE) not in placed, f"earlier containers are on {sorted(placed)}")
    return text


# The second check takes five pods' time, and both modes place in the same way.
EXCLUDED_NODE = (
    Check("node_without_cpus_is_excluded", _node_is_excluded),
    Check("excluded_node_is_not_used", _excluded_node_is_not_used, ("external",)),
)
