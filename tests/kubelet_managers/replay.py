"""Plays lives on the plugin's managers, called as the kubelet calls its own, and on its engine.

Both end a pod that is refused, as the kubelet does before the next admission.
"""

from collections.abc import Mapping
from typing import Any

from nri_numamem.memorymanager import (
    Container,
    ContainerKind,
    Hint,
    Pod,
    Rejection,
    State,
    mark_reusable,
    pod_request,
    remove_container,
    remove_pod,
)
from nri_numamem.memorymanager.holder import HolderKind
from nri_numamem.numa import NodeSet
from nri_numamem.scenario.outcome import Outcome as Played
from nri_numamem.scenario.player import Player
from nri_numamem.scenario.scenario import scenario_from_document
from nri_numamem.scenario.steps import Admit, Remove, Step
from nri_numamem.topologymanager import Placement, ProviderHints, admit, admit_with_hint
from tests.kubelet_managers.lives import Life
from tests.kubelet_managers.values import POOL, Outcome, groups_of
from tests.laboratory.container_hints import drop_reusable_of_others

MI = 1 << 20


def document_of(life: Life, steps: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Return the scenario of a life; without its steps, or with others."""
    return {
        "machine": {
            "nodes": [
                {
                    "id": node["id"],
                    "memory": node["memory"] * MI,
                    "hugepages": node["pages"],
                    "distances": dict(enumerate(node["distances"])),
                    "cpus": node.get("cpus", str(node["id"])),
                }
                for node in life["nodes"]
            ]
        },
        "settings": {
            "topologyManagerPolicy": life["policy"],
            "topologyManagerScope": life["scope"],
            "topologyManagerPolicyOptions": {
                "prefer-closest-numa-nodes": str(life["closest"]).lower()
            },
            "reservedMemory": [
                {"numaNode": node["id"], "limits": {"memory": node["reserved"] * MI}}
                for node in life["nodes"]
                if node["reserved"]
            ],
        },
        "pods": [manifest_of(uid, pod) for uid, pod in life["pods"].items()],
        "steps": steps or [],
    }


def manifest_of(uid: str, pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of a pod; each of its containers requests one CPU."""
    spec: dict[str, Any] = {"initContainers": [], "containers": []}
    for each in pod["containers"]:
        container: dict[str, Any] = {"name": each["name"]}
        if "requests" in each:
            limits = {name: size * MI for name, size in each["requests"].items()}
            container["resources"] = {"limits": {"cpu": 1, **limits}}
        if each["kind"] == "restartable-init":
            container["restartPolicy"] = "Always"
        spec["containers" if each["kind"] == "app" else "initContainers"].append(container)
    if "resources" in pod:
        limits = {name: size * MI for name, size in pod["resources"].items()}
        spec["resources"] = {"limits": {"cpu": 1, **limits}}
    return {"metadata": {"name": uid, "namespace": "default", "uid": uid}, "spec": spec}


class Managers:
    """The plugin's Memory Manager and Topology Manager with the accounting of a host."""

    def __init__(self, life: Life) -> None:
        scenario = scenario_from_document(document_of(life))
        self.topology = scenario.context.topology
        self.places_pods = scenario.context.places_pods
        self.pods = {uid: described.pod for uid, described in scenario.pods.items()}
        self.state = scenario.accounting
        self.previous: dict[str, dict[str, int]] = {}
        """The managers themselves do not remember pods that ended."""

    def admit(self, uid: str, hints: Mapping[str, Any]) -> Outcome:
        """Admit a pod; a pod that is refused holds nothing afterwards."""
        pod = self.pods[uid]
        before = self.state
        self.state = drop_reusable_of_others(before, uid)
        placed = self._admit(pod, hints)
        if isinstance(placed, Rejection):
            self.state = before
            return Outcome(placed.reason, {}, self.groups())
        return Outcome("", placed, self.groups())

    def _admit(self, pod: Pod, hints: Mapping[str, Any]) -> dict[str, tuple[int, ...]] | Rejection:
        pool = self._place_pool(pod, hints.get(POOL, {})) if self.places_pods else None
        if isinstance(pool, Rejection):
            return pool
        nodes: dict[str, tuple[int, ...]] = {}
        for container in pod.containers:
            placed = self._place(pod, container.name, hints, pool)
            if isinstance(placed, Rejection):
                return placed
            self.state = placed.accounting
            nodes[container.name] = tuple(placed.nodes)
        return nodes

    def _place_pool(self, pod: Pod, hints: Mapping[str, Any]) -> NodeSet | Rejection:
        """Place the pod's sum, whose bytes its containers use."""
        whole = Container(str(HolderKind.POD), ContainerKind.APP, pod_request(pod))
        twin = Pod(pod.uid, guaranteed=True, containers=(whole,))
        placed = admit(self.state, twin, HolderKind.POD, self.topology, others_of(hints))
        if isinstance(placed, Rejection):
            return placed
        self.state = mark_reusable(placed.accounting, pod.uid, HolderKind.POD)
        return placed.nodes

    def _place(
        self, pod: Pod, name: str, hints: Mapping[str, Any], pool: NodeSet | None
    ) -> Placement | Rejection:
        if pool is not None:
            hint = Hint(pool, preferred=False)
            return admit_with_hint(self.state, pod, name, hint, self.topology.preferences)
        return admit(self.state, pod, name, self.topology, others_of(hints.get(name, {})))

    def start(self, uid: str) -> None:
        """Release the ordinary init containers, as the kubelet does when the others start."""
        for container in self.pods[uid].containers:
            if container.kind is ContainerKind.INIT:
                self.state = remove_container(self.state, uid, container.name)

    def remove(self, uid: str) -> None:
        """End a pod."""
        self.state = remove_pod(self.state, uid)

    def groups(self) -> dict[int, tuple[Any, ...]]:
        """Return the groups and their free bytes."""
        return groups_of_state(self.state)


def others_of(hints: Mapping[str, Any]) -> tuple[ProviderHints, ...]:
    """Return the hints of the other providers, as the managers take them."""
    if not hints:
        return ()
    found = {
        name: tuple(Hint(NodeSet(ids), preferred) for ids, preferred in each)
        for name, each in hints.items()
    }
    return (found,)


def free_of(state: State) -> dict[int, dict[str, int]]:
    """Return node id -> resource -> free MiB."""
    return {
        node_id: {name: table.free // MI for name, table in node.memory_map.items()}
        for node_id, node in state.machine_state.items()
    }


def groups_of_state(state: State) -> dict[int, tuple[Any, ...]]:
    """Return the groups and their free bytes, in the form of the model."""
    free = free_of(state)
    return groups_of({n: (tuple(node.cells), free[n]) for n, node in state.machine_state.items()})


def blocks_of_state(state: State, uid: str) -> dict[str, list[tuple[tuple[int, ...], str, int]]]:
    """Return the blocks of a pod's containers, in the form of the recorded answers."""
    return {
        str(name): sorted(
            ((tuple(b.numa_affinity), b.type, b.size // MI) for b in blocks), key=lambda b: b[1]
        )
        for name, blocks in state.assignments.get(uid, {}).items()
        if isinstance(name, str)
    }


class Simulated:
    """The plugin's engine with the events that a runtime sends, as `simulate` plays them."""

    def __init__(self, life: Life) -> None:
        scenario = scenario_from_document(document_of(life))
        self._player = Player(scenario)
        self._names = {
            uid: [container.name for container in described.pod.containers]
            for uid, described in scenario.pods.items()
        }
        self.state = scenario.accounting
        self.previous: dict[str, dict[str, int]] = {}
        """Pod uid -> container name, or "" for the pod as a whole -> mask of its last nodes."""

    def admit(self, uid: str, hints: Mapping[str, Any]) -> Outcome:
        """Create the containers of a pod; a pod that is refused ends."""
        given = dict.fromkeys(self._names[uid], hints[POOL]) if POOL in hints else hints
        cpus = {name: ",".join(map(str, each["cpu"][0][0])) for name, each in given.items()}
        done = self._play(Admit(uid, cpus, {}))
        if done.rejection is not None:
            self.remove(uid)
            return Outcome(done.rejection.reason, {}, self.groups())
        mems = done.cpuset_mems or {}
        nodes = {name: tuple(NodeSet.parse(each or "")) for name, each in mems.items()}
        return Outcome("", nodes, self.groups())

    def start(self, uid: str) -> None:
        """Do nothing: the containers run since their creation."""

    def remove(self, uid: str) -> None:
        """Stop the pod's sandbox."""
        for name, blocks in self.state.assignments.get(uid, {}).items():
            # In pod scope all containers are on the nodes of the pod.
            for key in (str(name), POOL) if blocks else ():
                self.previous.setdefault(uid, {})[key] = blocks[0].numa_affinity.mask
        self._play(Remove(uid))

    def groups(self) -> dict[int, tuple[Any, ...]]:
        """Return the groups and their free bytes."""
        return groups_of_state(self.state)

    def _play(self, step: Step) -> Played:
        done = self._player.play(step)
        self.state = done.accounting
        return done
