"""The context of decisions: machine, policy and features, and which pods are managed.

A context never changes. A machine that changed makes a new context (``machine_change``).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from nri_numamem.engine.core.events import Container as RuntimeContainer
from nri_numamem.engine.core.events import HostCpus, PodSandbox
from nri_numamem.engine.core.feature import AllowedNodes, Feature
from nri_numamem.engine.core.plan import RecordValue
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.providers import NO_OTHER_PROVIDERS, OtherProviders, other_providers_of
from nri_numamem.engine.records.machine import Machine as MachineRecord
from nri_numamem.engine.records.machine import (
    NoNodeHasCpus,
    ReservationWithoutEffect,
    StrictPolicyWithStaticCpus,
)
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager import QosClass, Reserved, State, default_state, resolve_reserved
from nri_numamem.numa import (
    MEMORY,
    Classification,
    Distances,
    Machine,
    NodeSet,
    NodeUse,
    NumaNode,
    Preferences,
    classify,
    without_nodes,
)
from nri_numamem.topologymanager import Topology, TopologyPolicy

STATIC_CPUS_COST = (
    "the kubelet chooses CPUs before the plugin chooses memory, so containers are refused that the "
    "kubelet's own managers admit: of 100 pods 9 to 29 with mixed shapes, 2 to 6 with "
    "proportional ones"
)
"""Measured in simulations; docs/limits.md has the figures by policy and number of nodes."""

_QOS_LEVELS = {"burstable": QosClass.BURSTABLE, "besteffort": QosClass.BEST_EFFORT}

# The kubelet's root level, directly below which pods of the Guaranteed class are.
_ROOT_LEVEL = "kubepods"

# The kernel's PATH_MAX.
_PATH_LIMIT_CHARACTERS = 4096


def topology_of(machine: Machine, policy: Policy) -> Topology:
    """Return the Topology Manager's configuration; excluded nodes have no distances."""
    classification = classify(machine, policy.memory_nodes)
    used = without_nodes(machine, classification.excluded)
    preferences = Preferences(
        Distances.of_machine(used),
        policy.prefer_closest_numa_nodes,
        last_resort=classification.last_resort,
        strategy=policy.placement_strategy,
    )
    return Topology(TopologyPolicy(policy.topology_manager_policy), preferences)


@dataclass(frozen=True, slots=True)
class Context:
    """Machine, policy and features, checked against each other."""

    machine: Machine
    policy: Policy
    reserved: Reserved
    """Node id -> resource -> bytes that pods do not get."""
    topology: Topology
    announced: Machine
    """The machine of the last record; small changes of sizes are not recorded."""
    host_cpus: HostCpus = field(default_factory=HostCpus)
    """Only read where a feature needs them."""
    all_features: tuple[Feature, ...] = ()
    """Also those that are off, in the order of their hooks."""
    is_trial: bool = False
    """Whether decisions are only tried: a refusal has no text and no remedies."""
    classification: Classification = field(init=False, compare=False)
    """The classes of the machine's nodes. Excluded nodes are in no other part of the context."""
    is_static: bool = field(init=False, compare=False)
    """Whether memory is managed at all."""
    places_pods: bool = field(init=False, compare=False)
    """Whether pods are placed as a whole; `none` has no scopes, as in the kubelet."""
    features: tuple[Feature, ...] = field(init=False, compare=False)
    """Those that are on; a request without annotations reaches no others."""
    limits_nodes: bool = field(init=False, compare=False)
    """Whether a pod may have allowed nodes."""

    def __post_init__(self) -> None:
        classification = classify(self.machine, self.policy.memory_nodes)
        object.__setattr__(self, "classification", classification)
        merges = self.topology.policy is not TopologyPolicy.NONE
        object.__setattr__(self, "is_static", self.policy.is_static)
        object.__setattr__(self, "places_pods", merges and self.policy.is_pod_scope)
        features = tuple(each for each in self.all_features if each.is_on(self))
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "limits_nodes", any(each.limits_nodes for each in features))

    @classmethod
    def of(
        cls, machine: Machine, policy: Policy, all_features: tuple[Feature, ...] = ()
    ) -> "Context":
        """Return the context.

        Raises ReservedMemoryError if the machine lacks what is reserved, and MemoryNodesError if
        the settings exclude every node.
        """
        excluded = classify(machine, policy.memory_nodes).excluded
        reserved = resolve_reserved(
            policy.reserved_memory, policy.host_reservation, machine, excluded
        )
        topology = topology_of(machine, policy)
        return cls(machine, policy, reserved, topology, machine, all_features=all_features)

    @property
    def rejects(self) -> bool:
        """Return whether a container that cannot be placed is refused."""
        return self.policy.rejects

    @property
    def is_strict(self) -> bool:
        """Return whether a container that cannot be aligned is refused."""
        return not self.topology.policy.admits_all

    def unmanaged_reason(
        self, pod: PodSandbox, container: RuntimeContainer | None = None
    ) -> str | None:
        """Return why a container, or every container of the pod, is not managed; None if it is."""
        if not self.is_static:
            return "memoryManagerPolicy is None"
        qos = qos_of_cgroup_parent(pod.cgroup_parent)
        if qos is QosClass.UNKNOWN:
            return f"no QoS class in the cgroup parent {pod.cgroup_parent!r}"
        if qos is not QosClass.GUARANTEED:
            found: str | None = ""
            for feature in self.features:
                if qos in feature.qos_classes:
                    found = feature.unmanaged_reason(self, pod, container)
            if found is not None:
                return f"its pod is {qos}, and {found}" if found else f"its pod is {qos}"
        if not pod.uid:
            return "the runtime does not send the uid of its pod"
        if container is not None and not container.name:
            return "the runtime does not send its name"
        return None

    def allowed_nodes(self, pod: PodSandbox) -> AllowedNodes | None:
        """Return the nodes on which a pod may be placed; None for all nodes."""
        found = (each.allowed_nodes(self, pod) for each in self.features if each.limits_nodes)
        return next(found, None)

    def unpinned_nodes(self, pod: PodSandbox) -> NodeSet:
        """Return the nodes for the pod's containers that are not pinned."""
        found = (each.unpinned_nodes(self, pod) for each in self.features)
        return next(filter(None, found), self.memory_nodes)

    @property
    def capacity_bytes(self) -> int:
        """Return the memory of the machine, excluded nodes included."""
        return sum(node.memory_bytes for node in self.machine.nodes)

    @property
    def memory_nodes(self) -> NodeSet:
        """Return the nodes that have memory, excluded nodes included."""
        return NodeSet(node.node_id for node in self.machine.nodes if node.memory_bytes)

    def manages(self, pod: PodSandbox) -> bool:
        """Return whether all containers of a pod are managed that have a memory limit."""
        return self.unmanaged_reason(pod) is None

    def may_manage(self, cgroup_parent: str) -> bool:
        """Return whether containers of a pod may be managed; more of them decides that."""
        qos = qos_of_cgroup_parent(cgroup_parent)
        return self.is_static and (
            qos is QosClass.GUARANTEED or any(qos in each.qos_classes for each in self.features)
        )

    def wants_devices(self, cgroup_parent: str) -> bool:
        """Return whether the NUMA nodes of the devices of a pod's containers have an effect."""
        is_merged = self.topology.policy is not TopologyPolicy.NONE
        return is_merged and self.may_manage(cgroup_parent)

    def other_providers_of(self, container: RuntimeContainer) -> OtherProviders:
        """Return the hints of the other providers; none if the policy does not merge."""
        has_hints = container.device_nodes or container.cpuset_cpus or container.interfaces
        if not has_hints or self.topology.policy is TopologyPolicy.NONE:
            return NO_OTHER_PROVIDERS
        for feature in self.features:
            container = feature.without_own(self, container)
        return other_providers_of(self.machine, self.classification, container)

    def compares_cpu_requests(self) -> bool:
        """Return whether CPU requests may decide between nodes, by settings or annotations."""
        return any(each.compares_cpu_requests(self) for each in self.features)

    def charges_evenly(self, pod: PodSandbox, name: str, nodes: NodeSet) -> bool:
        """Return whether a container that runs on `nodes` is charged in equal parts."""
        return any(each.charges_evenly(self, pod, name, nodes) for each in self.features)

    def empty_accounting(self) -> State:
        """Return the accounting of the machine's nodes that are not excluded, unassigned."""
        return default_state(
            without_nodes(self.machine, self.classification.excluded), self.reserved
        )

    def uses(self, nodes: NodeSet) -> bool:
        """Return whether none of the nodes is excluded."""
        return nodes.isdisjoint(self.classification.excluded)

    def start_records(self, version: str) -> tuple[Record, ...]:
        """Return the records of a start: machine and policy, and warnings about both."""
        warnings = [found for feature in self.all_features for found in feature.warnings(self)]
        if self.is_static and self.is_strict and self.policy.has_static_cpus:
            policy = self.policy.topology_manager_policy
            warnings.append(
                StrictPolicyWithStaticCpus(
                    cpuManagerPolicy="static", topologyManagerPolicy=policy, cost=STATIC_CPUS_COST
                )
            )
        return (self.record(version), *warnings, *self.node_warnings())

    def node_warnings(self) -> Iterator[Record]:
        """Yield the warnings about nodes without CPUs."""
        if not self.classification.has_cpus:
            yield NoNodeHasCpus(numa_nodes=self.machine.node_set)
        for index, entry in enumerate(self.policy.reserved_memory):
            if self.classification.use_of(entry.numa_node) is NodeUse.EXCLUDED:
                yield ReservationWithoutEffect(
                    setting=f"reservedMemory[{index}]",
                    nodes=NodeSet([entry.numa_node]),
                    limits_bytes=entry.limits,
                )

    def class_fields(self, node: NumaNode) -> dict[str, RecordValue]:
        """Return class and use of a node, and its memory tier if the kernel shows one."""
        fields: dict[str, RecordValue] = {
            "class": self.classification.classes[node.node_id].value,
            "use": self.classification.use_of(node.node_id).value,
        }
        return fields if node.memory_tier is None else {**fields, "memory_tier": node.memory_tier}

    def record(self, version: str) -> Record:
        """Return the record of machine and policy."""
        nodes: dict[str, RecordValue] = {
            str(node.node_id): {
                MEMORY: node.memory_bytes,
                "reserved": dict(self.reserved.get(node.node_id, {})),
                **self.class_fields(node),
            }
            for node in self.machine.nodes
        }
        return MachineRecord(
            version=version,
            memoryManagerPolicy=self.policy.memory_manager_policy,
            topologyManagerPolicy=self.policy.topology_manager_policy,
            topologyManagerScope=self.policy.topology_manager_scope,
            reserved_memory_source="settings" if self.policy.reserved_memory else "derived",
            nodes=nodes,
            notes=(*self.policy.notes,),
            alternate=self.policy.is_managed_twice,
        )


def qos_of_cgroup_parent(cgroup_parent: str) -> QosClass:
    """Return the QoS class of the pod with this `cgroup_parent`.

    The runtime does not send the class, but the kubelet writes it into the path. Only the last
    component (systemd) or the last components (cgroupfs) count, because the name of a root may
    contain the name of a class. A path that is not the kubelet's gives UNKNOWN.
    Source: kubelet pkg/kubelet/cm (qos_container_manager, pod_container_manager); CRI-O sends only
    the base name with the systemd driver.
    """
    if len(cgroup_parent) >= _PATH_LIMIT_CHARACTERS:
        return QosClass.UNKNOWN
    components = [part for part in cgroup_parent.split("/") if part]
    if not components:
        return QosClass.UNKNOWN
    last = components[-1]
    # systemd escapes "-" inside a level, so "-" always separates levels.
    is_slice = last.endswith(".slice")
    levels = last.removesuffix(".slice").split("-") if is_slice else components
    if len(levels) < 2 or not levels[-1].startswith("pod") or levels[-1] == "pod":
        return QosClass.UNKNOWN
    above = levels[-2]
    if above == _ROOT_LEVEL:
        return QosClass.GUARANTEED
    if above in _QOS_LEVELS and len(levels) > 2 and levels[-3] == _ROOT_LEVEL:
        return _QOS_LEVELS[above]
    return QosClass.UNKNOWN


def is_burstable(cgroup_parent: str) -> bool:
    """Return whether the pod is Burstable; takes no time for a Guaranteed one."""
    is_possible = "burstable" in cgroup_parent
    return is_possible and qos_of_cgroup_parent(cgroup_parent) is QosClass.BURSTABLE
