"""Hints of the other providers: the NUMA nodes of a container's devices and CPUs.

In the kubelet the device manager and the CPU manager return hints before they allocate. Here both
have allocated already, and the container shows the result: devices whose NUMA node is known, and
`cpuset.cpus`. Each provider yields exactly one hint, and memory is placed to match it. Network
interfaces count as devices.

Two cases carry no information. A `cpuset.cpus` with CPUs on every node that is used for memory
leaves nothing to align with. A `cpuset.cpus` that is larger than the container's CPU request is the
pool that the kubelet shares among containers without exclusive CPUs; it changes while they run. If
it is on one node, and other nodes have CPUs too, that node still counts.
Source: kubelet cm, internal container lifecycle (cpusets of shared containers), MilliCPUToShares.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nri_numamem.engine.core.events import Container
from nri_numamem.engine.core.facts import NetworkInterface
from nri_numamem.memorymanager import Hint
from nri_numamem.numa import Classification, CpuSet, Machine, NodeSet
from nri_numamem.topologymanager import ProviderHints, TopologyPolicy, merged_hints_of

DEVICES, CPU, NETWORK = "devices", "cpu", "network"

# A whole CPU in cgroup v1's unit, which CRI and NRI use with v2 as well.
_SHARES_PER_CPU = 1024


@dataclass(frozen=True, slots=True)
class OtherProviders:
    """The hints of the other providers for one container."""

    devices: tuple[NodeSet, ...] = ()
    """The nodes of each device whose nodes are known."""
    cpu: NodeSet | None = None
    """The nodes of the container's CPUs; None means no preference."""
    interfaces: tuple[NetworkInterface, ...] = ()
    """Network interfaces whose nodes are known."""

    @property
    def all_devices(self) -> tuple[NodeSet, ...]:
        """Return the nodes of each device and of each network interface."""
        if not self.interfaces:
            return self.devices
        return (*self.devices, *(each.nodes for each in self.interfaces))

    def __str__(self) -> str:
        """Return a text such as "cpu on node 0, network interface eth1 on node 2"."""
        found = {CPU: self.cpu, DEVICES: _union(self.devices) if self.devices else None}
        for interface in self.interfaces:
            found[f"network interface {interface.name}"] = interface.nodes
        return ", ".join(
            f"{name} on {format_nodes(nodes)}" for name, nodes in found.items() if nodes is not None
        )

    def providers(self) -> tuple[ProviderHints, ...]:
        """Return the hints in the kubelet's order of providers: devices, then CPUs."""
        providers: list[ProviderHints] = []
        if devices := self.all_devices:
            providers.append({DEVICES: (_hint_of_devices(devices),)})
        if self.cpu is not None:
            providers.append({CPU: (Hint(self.cpu, preferred=True),)})
        return tuple(providers)

    def within(self, nodes: NodeSet) -> "OtherProviders":
        """Return the hints for a machine of these nodes: CPUs on all of them are no preference."""
        if self.cpu is None or not nodes.issubset(self.cpu):
            return self
        return replace(self, cpu=None)

    def misaligned_with(self, nodes: NodeSet) -> "OtherProviders":
        """Return the CPUs and the devices that have no node in common with `nodes`."""
        if not self.is_disjoint_from(nodes):
            return NO_OTHER_PROVIDERS
        devices = tuple(each for each in self.devices if nodes.isdisjoint(each))
        is_remote = self.cpu is not None and nodes.isdisjoint(self.cpu)
        interfaces = tuple(each for each in self.interfaces if nodes.isdisjoint(each.nodes))
        return OtherProviders(devices, self.cpu if is_remote else None, interfaces)

    def is_disjoint_from(self, nodes: NodeSet) -> bool:
        """Return whether the CPUs or a device have no node in common with `nodes`."""
        devices = self.all_devices
        found = devices if self.cpu is None else (*devices, self.cpu)
        return any(nodes.isdisjoint(other) for other in found)


NO_OTHER_PROVIDERS = OtherProviders()


def other_providers_of(
    machine: Machine, classification: Classification, container: Container
) -> OtherProviders:
    """Return the nodes of a container's devices and CPUs on this machine.

    An excluded or last-resort node counts as the nearest used node with CPUs: the memory of a GPU
    may be such a node, and memory for the GPU's program belongs near it.
    """
    known = machine.node_set
    devices = tuple(
        classification.project(nodes & known) for nodes in container.device_nodes if nodes & known
    )
    interfaces = tuple(
        NetworkInterface(each.name, classification.project(each.nodes & known))
        for each in container.interfaces
        if each.nodes & known
    )
    cpu = _nodes_of_cpus(machine, container)
    cpu = None if cpu is None else classification.project(cpu)
    return OtherProviders(devices, cpu, interfaces).within(known - classification.excluded)


def format_nodes(nodes: NodeSet) -> str:
    """Return "node 0" or "nodes 0-1"."""
    return f"node{'s' if len(nodes) > 1 else ''} {nodes}"


def have_common_node(providers: Sequence[ProviderHints]) -> bool:
    """Return whether hints of all providers have a node in common.

    Otherwise their merge has no information: all nodes, not preferred.
    """
    return any(merged_hints_of(providers, TopologyPolicy.BEST_EFFORT).masks)


def _hint_of_devices(devices: tuple[NodeSet, ...]) -> Hint:
    """Merge the hints of devices; each hint is preferred.

    Where devices have no node in common, the kubelet's merge results in all nodes. The nodes of all
    devices are better; this hint is not preferred either, so the strict policies still refuse it.
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
    nodes = NodeSet(node.node_id for node in machine.nodes if cpus.mask & node.cpus.mask)
    if not nodes:
        return None
    if container.cpu_shares in (None, len(cpus) * _SHARES_PER_CPU):
        return nodes  # its own CPUs
    have_others_cpus = any(node.cpus for node in machine.nodes if node.node_id not in nodes)
    return nodes if len(nodes) == 1 and have_others_cpus else None


def _parse_cpus(text: str) -> CpuSet:
    """Return the CPUs of a list such as "0-3,8"; the empty set for any other text."""
    try:
        return CpuSet.parse(text)
    except ValueError:
        return CpuSet()
