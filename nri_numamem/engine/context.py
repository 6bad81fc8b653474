"""What the engine decides by: the machine, the settings, and the two managers set up with them.

Fixed for the life of an engine; a machine that changed makes a new context. This is the only
file of the engine that asks the managers to place something.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from nri_numamem.engine.plan import Record, RecordValue
from nri_numamem.engine.settings import Settings
from nri_numamem.engine.state import Key
from nri_numamem.memorymanager import (
    MEMORY,
    Allocated,
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
    State,
    allocate,
    default_state,
    resolve_reserved,
)
from nri_numamem.topologymanager import Policy, Topology, admit_container


@dataclass(frozen=True, slots=True)
class Placed:
    """A container that was given nodes."""

    books: State
    nodes: NodeSet
    hint: Hint


@dataclass(frozen=True, slots=True)
class Context:
    """Machine and settings, checked against each other."""

    machine: Machine
    settings: Settings
    reserved: Reserved
    """Node id -> resource -> bytes that are not for pods."""
    topology: Topology

    @classmethod
    def of(cls, machine: Machine, settings: Settings) -> "Context":
        """Return the context; ReservedMemoryError when the two do not go together."""
        host = HostReservation(
            settings.kube_reserved, settings.system_reserved, settings.eviction_hard
        )
        reserved = resolve_reserved(settings.reserved_memory, host, machine)
        preferences = Preferences(Distances.of_machine(machine), settings.prefer_closest_numa_nodes)
        policy = Policy(settings.topology_manager_policy)
        return cls(machine, settings, reserved, Topology(policy, preferences))

    @property
    def is_static(self) -> bool:
        """Tell whether memory is managed at all."""
        return self.settings.memory_manager_policy == "Static"

    @property
    def rejects(self) -> bool:
        """Tell whether a container that cannot be placed is refused."""
        return self.settings.when_unsatisfiable == "Reject"

    def empty_books(self) -> State:
        """Return the books of the machine with nothing assigned."""
        return default_state(self.machine, self.reserved)

    def place(
        self, books: State, key: Key, resources: Request, near: NodeSet | None
    ) -> Placed | Rejection:
        """Give a container its nodes by the rules; on or around `near` if that is possible."""
        uid, name = key
        pod = Pod(uid, guaranteed=True, containers=(Container(name, ContainerKind.APP, resources),))
        if near is not None:
            hint = Hint(near, preferred=False)
            allocated = allocate(books, pod, name, hint, self.topology.preferences)
            if isinstance(allocated, Allocated):
                return Placed(allocated.state, allocated.nodes, hint)
        admitted = admit_container(books, pod, name, self.topology)
        if isinstance(admitted, Rejection):
            return admitted
        return Placed(admitted.state, admitted.containers[name].nodes, admitted.hints[name])

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
            "reserved_memory_from": "settings" if self.settings.reserved_memory else "derived",
            "nodes": nodes,
            "notes": list(self.settings.notes),
        }
        return Record("machine", fields=fields)
