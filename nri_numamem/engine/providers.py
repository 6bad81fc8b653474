"""Hints of the other providers: where a container's devices and CPUs are.

In the kubelet the device and the CPU manager answer before they allocate. Here both have
allocated already, and what they gave is seen in the container: devices whose NUMA node is known,
and `cpuset.cpus`. So each has one hint, and it is for the memory to follow.

Two things that look like answers are none. A `cpuset.cpus` that reaches every node with CPUs
leaves nothing to align with. One on several nodes that is larger than the container's CPU request
is the pool that the kubelet lets containers without CPUs of their own share; it says nothing
either, and changes while they run. Source: kubelet cm, internal container lifecycle (cpusets of
shared containers), MilliCPUToShares.
"""

import re
from collections.abc import Sequence

from nri_numamem.engine.events import Container
from nri_numamem.memorymanager import Hint, Machine, NodeSet
from nri_numamem.topologymanager import Policy, ProviderHints, offers_of
from nri_numamem.values import valueclass

DEVICES, CPU = "devices", "cpu"

# Linux can be built for 8,192 CPUs (x86 CONFIG_NR_CPUS).
_CPU_LIMIT = 8192
_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?", re.ASCII)
# A whole CPU in cgroup v1's unit, which CRI and NRI use with v2 as well.
_SHARES_PER_CPU = 1024


@valueclass(frozen=True, slots=True)
class Others:
    """What the other providers say about a container."""

    devices: tuple[NodeSet, ...] = ()
    """The nodes of each device whose nodes are known."""
    cpu: NodeSet | None = None
    """The nodes of its CPUs; None for no preference."""

    def __bool__(self) -> bool:
        return bool(self.devices) or self.cpu is not None

    def __str__(self) -> str:
        """Return it in words: "cpu on node 0, devices on nodes 1,3"."""
        found = {CPU: self.cpu, DEVICES: _union(self.devices) if self.devices else None}
        return ", ".join(
            f"{name} on {words_for(nodes)}" for name, nodes in found.items() if nodes is not None
        )

    def providers(self) -> tuple[ProviderHints, ...]:
        """Return the answers in the kubelet's order: devices, then CPUs."""
        answers: list[ProviderHints] = []
        if self.devices:
            answers.append({DEVICES: (_hint_of_devices(self.devices),)})
        if self.cpu is not None:
            answers.append({CPU: (Hint(self.cpu, preferred=True),)})
        return tuple(answers)

    def is_apart_from(self, nodes: NodeSet) -> bool:
        """Tell whether the CPUs or a device have no node in common with `nodes`."""
        found = self.devices if self.cpu is None else (*self.devices, self.cpu)
        return any(not other & nodes for other in found)


NO_OTHERS = Others()


def others_of(machine: Machine, container: Container) -> Others:
    """Return what is known of a container's devices and CPUs on this machine."""
    if not (container.device_nodes or container.cpuset_cpus):
        return NO_OTHERS
    known = machine.node_set
    devices = tuple(nodes & known for nodes in container.device_nodes if nodes & known)
    return Others(devices, _nodes_of_cpus(machine, container))


def words_for(nodes: NodeSet) -> str:
    """Return "node 0" or "nodes 0-1"."""
    return f"node{'s' if len(nodes) > 1 else ''} {nodes}"


def agree(answers: Sequence[ProviderHints]) -> bool:
    """Tell whether some node suits all answers; without one a merge can only say "everywhere"."""
    return any(offers_of(answers, Policy.BEST_EFFORT).masks)


def _hint_of_devices(devices: tuple[NodeSet, ...]) -> Hint:
    """Merge the devices' hints, each of which is preferred.

    Devices that share no node leave nothing to the kubelet's merge, which then says "all nodes".
    Near both is the better answer; it is not preferred, so the strict policies refuse all the same.
    """
    union = _union(devices)
    common = union
    for nodes in devices:
        common &= nodes
    return Hint(common or union, preferred=all(nodes == union for nodes in devices))


def _union(sets: Sequence[NodeSet]) -> NodeSet:
    union = NodeSet()
    for nodes in sets:
        union |= nodes
    return union


def _nodes_of_cpus(machine: Machine, container: Container) -> NodeSet | None:
    cpus = _parse_cpus(container.cpuset_cpus)
    with_cpus = NodeSet(node.node_id for node in machine.nodes if node.cpus)
    nodes = NodeSet(node.node_id for node in machine.nodes if not cpus.isdisjoint(node.cpus))
    if not nodes or nodes == with_cpus:
        return None
    is_own = container.cpu_shares in (None, len(cpus) * _SHARES_PER_CPU)
    return nodes if is_own or len(nodes) == 1 else None


def _parse_cpus(text: str) -> frozenset[int]:
    """Return the CPUs of a list such as "0-3,8"; none for a text that is no such list."""
    cpus: set[int] = set()
    for part in text.split(",") if text else ():
        found = _RANGE.fullmatch(part.strip())
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if last < first or last >= _CPU_LIMIT:
            return frozenset()
        cpus.update(range(first, last + 1))
    return frozenset(cpus)
