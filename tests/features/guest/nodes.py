"""NUMA nodes: what the plugin may assign on them, and which ones processes may use."""

from tests.features.guest import memory
from tests.machines.guest.cgroups import parse_nodes
from tests.machines.guest.checks import expect
from tests.machines.guest.host import Host
from tests.machines.guest.kubelet import Pod


def allocatable_bytes(host: Host) -> list[int]:
    """Return the allocatable memory of the nodes 0 to 3, which differ by some 10 %."""
    nodes = host.plugin.accounting()["machineState"]
    return [int(nodes[str(node)]["memoryMap"]["memory"]["allocatable"]) for node in range(4)]


def smallest_bytes(host: Host) -> int:
    """Return the allocatable memory of the smallest of these nodes."""
    return min(allocatable_bytes(host))


def allowed(pod: Pod) -> tuple[frozenset[int], frozenset[int]]:
    """Return the NUMA nodes and the CPUs that the processes of the container "main" may use."""
    found = {
        (status["Mems_allowed_list"], status["Cpus_allowed_list"])
        for status in map(memory.status, memory.pids(pod))
    }
    expect(len(found) == 1, f"the processes differ: {found}")
    ((mems, cpus),) = found
    return parse_nodes(mems), parse_nodes(cpus)
