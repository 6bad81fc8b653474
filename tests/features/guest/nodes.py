"""NUMA nodes: what the plugin may assign on them, and which ones processes may use."""

from tests.e2e.guest.cgroups import parse_nodes
from tests.e2e.guest.checks import Host, expect
from tests.e2e.guest.kubelet import Pod
from tests.features.guest import memory


def smallest_bytes(host: Host) -> int:
    """Return the allocatable memory of the smallest of the nodes 0 to 3."""
    nodes = host.plugin.accounting()["machineState"]
    return min(int(nodes[str(node)]["memoryMap"]["memory"]["allocatable"]) for node in range(4))


def allowed(pod: Pod) -> tuple[frozenset[int], frozenset[int]]:
    """Return the NUMA nodes and the CPUs that the processes of the container "main" may use."""
    found = {
        (status["Mems_allowed_list"], status["Cpus_allowed_list"])
        for status in map(memory.status, memory.pids(pod))
    }
    expect(len(found) == 1, f"the processes differ: {found}")
    ((mems, cpus),) = found
    return parse_nodes(mems), parse_nodes(cpus)
