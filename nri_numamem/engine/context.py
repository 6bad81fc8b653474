"""What the engine decides by: the machine, the settings, and the two managers set up with them.

Never changes itself; a machine that changed makes a new context (``rebaseline``). This is the only
file of the engine that asks the managers to place something.
"""

from collections.abc import Mapping, Sequence

from nri_numamem.engine.events import Container as RuntimeContainer
from nri_numamem.engine.events import PodSandbox
from nri_numamem.engine.plan import Record, RecordValue
from nri_numamem.engine.providers import NO_OTHERS, Others, agree, others_of
from nri_numamem.engine.qos import QosClass, qos_of_cgroup_parent
from nri_numamem.engine.settings import Settings
from nri_numamem.engine.state import NO_HOME, Key
from nri_numamem.memorymanager import (
    MEMORY,
    Container,
    ContainerKind,
    Distances,
    Hint,
    HostReservation,
    Machine,
    NodeSet,
    Pod,
    Preferences,
    Rejection,
    Request,
    Reserved,
    Resized,
    State,
    choose_nodes,
    default_state,
    enter,
    resize,
    resolve_reserved,
)
from nri_numamem.memorymanager.choices import crosses_groups
from nri_numamem.topologymanager import Policy, ProviderHints, Topology, nodes_for_container
from nri_numamem.values import valueclass

_ALONE: tuple[tuple[ProviderHints, ...], ...] = ((),)
"""Merged with nobody."""


@valueclass(frozen=True, slots=True)
class Placed:
    """A container that was given nodes, and is to be entered in the books."""

    nodes: NodeSet
    hint: Hint
    pod: Pod
    """With this container alone."""
    before: State
    """The books in which the nodes were chosen."""

    @property
    def books(self) -> State:
        """The books with the container; made when asked for, since no reply waits for them."""
        return enter(self.before, self.pod, self.pod.containers[0].name, self.nodes)


@valueclass(frozen=True, slots=True)
class Context:
    """Machine and settings, checked against each other."""

    machine: Machine
    settings: Settings
    reserved: Reserved
    """Node id -> resource -> bytes that are not for pods."""
    topology: Topology
    announced: Machine
    """The machine as the log was told of it last; sizes drift, and not every change is told."""

    @classmethod
    def of(cls, machine: Machine, settings: Settings) -> "Context":
        """Return the context; ReservedMemoryError when the two do not go together."""
        host = HostReservation(
            settings.kube_reserved, settings.system_reserved, settings.eviction_hard
        )
        reserved = resolve_reserved(settings.reserved_memory, host, machine)
        preferences = Preferences(Distances.of_machine(machine), settings.prefer_closest_numa_nodes)
        policy = Policy(settings.topology_manager_policy)
        return cls(machine, settings, reserved, Topology(policy, preferences), machine)

    @property
    def is_static(self) -> bool:
        """Tell whether memory is managed at all."""
        return self.settings.memory_manager_policy == "Static"

    @property
    def rejects(self) -> bool:
        """Tell whether a container that cannot be placed is refused."""
        return self.settings.when_unsatisfiable == "Reject"

    @property
    def is_strict(self) -> bool:
        """Tell whether a container that cannot be aligned is refused."""
        return self.topology.policy in (Policy.RESTRICTED, Policy.SINGLE_NUMA_NODE)

    @property
    def places_pods(self) -> bool:
        """Tell whether pods are placed as a whole; `none` has no scopes, as in the kubelet."""
        is_pod_scope = self.settings.topology_manager_scope == "pod"
        return is_pod_scope and self.topology.policy is not Policy.NONE

    def manages(self, pod: PodSandbox) -> bool:
        """Tell whether a pod's containers are our business."""
        is_guaranteed = qos_of_cgroup_parent(pod.cgroup_parent) is QosClass.GUARANTEED
        return self.is_static and is_guaranteed and bool(pod.uid)

    def wants_devices(self, cgroup_parent: str) -> bool:
        """Tell whether it can matter where the devices of a pod's containers are."""
        is_merged = self.is_static and self.topology.policy is not Policy.NONE
        return is_merged and qos_of_cgroup_parent(cgroup_parent) is QosClass.GUARANTEED

    def others_of(self, container: RuntimeContainer) -> Others:
        """Return the other providers' hints, as far as the policy merges any."""
        is_merged = self.topology.policy is not Policy.NONE
        return others_of(self.machine, container) if is_merged else NO_OTHERS

    def empty_books(self) -> State:
        """Return the books of the machine with nothing assigned."""
        return default_state(self.machine, self.reserved)

    def place(
        self,
        books: State,
        key: Key,
        resources: Request,
        others: Others = NO_OTHERS,
        home: NodeSet = NO_HOME,
    ) -> Placed | Rejection:
        """Give a container its nodes by the rules, together with the other providers' hints.

        Among equally good sets `home` wins, which the container had when its pod ended.
        Under `best-effort` hints that leave no place are given up one after the other, devices
        first; the kubelet would refuse the container or spread it over all nodes.
        """
        pod, name = _pod_of(key, resources), key[1]
        topology = self.topology.at_home(home) if home else self.topology
        for answers in self._tried(others):
            found = nodes_for_container(books, pod, name, topology, answers)
            if not isinstance(found, Rejection):
                break
        return found if isinstance(found, Rejection) else Placed(*found, pod, books)

    def _tried(self, others: Others) -> Sequence[tuple[ProviderHints, ...]]:
        """Return what is merged, one after the other while no place is found; never nothing."""
        if not others:
            return _ALONE
        answers = others.providers()
        if self.topology.policy is not Policy.BEST_EFFORT:
            return [answers]
        rests = [answers[given_up:] for given_up in range(len(answers) + 1)]
        return [rest for rest in rests if agree(rest)]

    def place_on(
        self, books: State, key: Key, resources: Request, nodes: NodeSet
    ) -> Placed | Rejection:
        """Give a container these nodes, or if they are too full, more around them."""
        # Not preferred: a container of a pod on two nodes may be small enough for one.
        hint = Hint(nodes, preferred=False)
        pod = _pod_of(key, resources)
        found = choose_nodes(books, pod, key[1], hint, self.topology.preferences)
        return found if isinstance(found, Rejection) else Placed(found, hint, pod, books)

    def allows(self, books: State, nodes: NodeSet) -> bool:
        """Tell whether the machine has these nodes, and no other group is on them."""
        return not crosses_groups(books, nodes)

    def resize(self, books: State, key: Key, memory_bytes: int) -> Resized:
        """Change what a running container holds, on more nodes if need be and policy admits."""
        return resize(books, *key, memory_bytes, self.topology.preferences, self._admits)

    def _admits(self, hint: Hint) -> bool:
        """Tell whether a container may be spread, when it is merged with nothing else."""
        if self.topology.policy is Policy.SINGLE_NUMA_NODE:
            return False
        return hint.preferred or self.topology.policy is not Policy.RESTRICTED

    def record(self, version: str) -> Record:
        """Return what is decided by, for the log."""
        nodes: dict[str, RecordValue] = {
            str(node.node_id): {
                MEMORY: node.memory_bytes,
                "reserved": dict(self.reserved.get(node.node_id, {})),
            }
            for node in self.machine.nodes
        }
        fields: Mapping[str, RecordValue] = {
            "version": version,
            "memoryManagerPolicy": self.settings.memory_manager_policy,
            "topologyManagerPolicy": self.settings.topology_manager_policy,
            "topologyManagerScope": self.settings.topology_manager_scope,
            "reserved_memory_from": "settings" if self.settings.reserved_memory else "derived",
            "nodes": nodes,
            "notes": list(self.settings.notes),
        }
        level = "warning" if self.settings.is_managed_twice else "info"
        return Record("machine", level, fields)


def _pod_of(key: Key, resources: Request) -> Pod:
    uid, name = key
    return Pod(uid, guaranteed=True, containers=(Container(name, ContainerKind.APP, resources),))
