"""Run the steps of a scenario file against the two managers, without engine or command line."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nri_numamem.memorymanager import (
    Block,
    Distances,
    Hint,
    Machine,
    NodeSet,
    NodeState,
    NumaNode,
    Pod,
    Preferences,
    Rejection,
    Reservation,
    State,
    Table,
    allocate,
    check_reserved,
    default_state,
    drop_reusable_of_others,
    full_hints,
    parse_quantity,
    pod_from_manifest,
    remove_container,
    state_as_written,
)
from nri_numamem.topologymanager import (
    Policy,
    Topology,
    admit_containers,
    admit_pod,
    merge,
)

Document = Mapping[str, Any]


def machine_of(document: Document) -> Machine:
    return Machine(
        tuple(
            NumaNode(
                node["id"],
                parse_quantity(node["memory"]),
                {parse_quantity(k): v for k, v in node.get("hugepages", {}).items()},
            )
            for node in document["nodes"]
        )
    )


def written_state(document: Document) -> State:
    machine_state = {
        int(n): NodeState(
            node["numberOfAssignments"],
            {
                r: Table(
                    t["total"], t["systemReserved"], t["allocatable"], t["reserved"], t["free"]
                )
                for r, t in node["memoryMap"].items()
            },
            NodeSet(node["cells"]),
        )
        for n, node in document.get("machineState", {}).items()
    }
    entries = {
        uid: {
            name: tuple(Block(NodeSet(b["numaAffinity"]), b["type"], b["size"]) for b in blocks)
            for name, blocks in containers.items()
        }
        for uid, containers in document.get("entries", {}).items()
    }
    return state_as_written(machine_state, entries)


def hint_of(document: Document) -> Hint:
    affinity = document["affinity"]
    return Hint(None if affinity is None else NodeSet(affinity), document["preferred"])


def shown(hint: Hint) -> dict[str, Any]:
    affinity = None if hint.affinity is None else list(hint.affinity)
    return {"affinity": affinity, "preferred": hint.preferred}


class Runner:
    """One scenario: its books, and the answer to each step."""

    def __init__(self, document: Document) -> None:
        settings = document.get("settings", {})
        reserved = [
            Reservation(r["numaNode"], {k: parse_quantity(v) for k, v in r["limits"].items()})
            for r in settings.get("reservedMemory", [])
        ]
        if "state" in document:
            self.state = written_state(document["state"])
        elif "machine" in document:
            machine = machine_of(document["machine"])
            self.state = default_state(machine, check_reserved(reserved, machine))
        else:
            self.state = State({})
        pods = map(pod_from_manifest, document.get("pods", []))
        self.pods: dict[str, Pod] = {pod.uid: pod for pod in pods}
        self.topology = Topology(
            Policy(settings.get("topologyManagerPolicy", "best-effort")),
            Preferences(prefer_closest=False),
        )
        self.scope = settings.get("topologyManagerScope", "container")

    def run(self, step: Document) -> dict[str, Any]:
        [(verb, what)] = step.items()
        answer: dict[str, Any] = getattr(self, f"step_{verb}")(what)
        return answer

    def step_admit(self, what: Document) -> dict[str, Any]:
        pod = self.pods[what["pod"]]
        admit = admit_pod if self.scope == "pod" else admit_containers
        state = drop_reusable_of_others(self.state, pod.uid)
        admitted = admit(state, pod, self.topology)
        if isinstance(admitted, Rejection):
            return refusal(admitted)
        self.state = admitted.state
        sets = {name: str(got.nodes) or None for name, got in admitted.containers.items()}
        return {"ok": True, "cpusetMems": sets}

    def step_allocate(self, what: Document) -> dict[str, Any]:
        pod = self.pods[what["pod"]]
        state = drop_reusable_of_others(self.state, pod.uid)
        hint = hint_of(what["hint"])
        got = allocate(state, pod, what["container"], hint, self.topology.preferences)
        if isinstance(got, Rejection):
            return refusal(got)
        self.state = got.state
        return {"ok": True}

    def step_hints(self, what: Document) -> dict[str, Any]:
        hints = full_hints(self.state, self.pods[what["pod"]], what["container"])
        if hints is None:
            return {"ok": True, "hints": None}
        return {"ok": True, "hints": {r: [shown(h) for h in li] for r, li in hints.items()}}

    def step_remove(self, what: Document) -> dict[str, Any]:
        self.state = remove_container(self.state, what["pod"], what["container"])
        return {"ok": True}

    def step_merge(self, what: Document) -> dict[str, Any]:
        preferences = replace(
            self.topology.preferences,
            prefer_closest=what["preferClosestNUMANodes"],
            distances=Distances.of_rows(what["distances"]),
        )
        providers = [
            provider and {r: hints and [hint_of(h) for h in hints] for r, hints in provider.items()}
            for provider in what["providers"]
        ]
        nodes = NodeSet(what["numaNodes"])
        hint, admits = merge(providers, nodes, Policy(what["policy"]), preferences)
        return {"ok": True, "hint": shown(hint), "admit": admits}

    def entries(self) -> dict[str, Any]:
        return {
            uid: {
                name: sorted((b.type, tuple(b.numa_affinity), b.size) for b in blocks)
                for name, blocks in containers.items()
            }
            for uid, containers in self.state.assignments.items()
        }

    def machine(self) -> dict[str, Any]:
        return group_sums(
            {
                str(n): {
                    "numberOfAssignments": node.number_of_assignments,
                    "cells": list(node.cells),
                    "memoryMap": {
                        r: {
                            "total": t.total,
                            "systemReserved": t.system_reserved,
                            "allocatable": t.allocatable,
                            "reserved": t.reserved,
                            "free": t.free,
                        }
                        for r, t in node.memory_map.items()
                    },
                }
                for n, node in self.state.machine_state.items()
            }
        )


def refusal(rejection: Rejection) -> dict[str, Any]:
    return {"ok": False, "error": {"reason": rejection.reason, "message": rejection.message}}


def expected_entries(document: Document) -> dict[str, Any]:
    return {
        uid: {
            name: sorted((b["type"], tuple(b["numaAffinity"]), b["size"]) for b in blocks)
            for name, blocks in containers.items()
        }
        for uid, containers in document.items()
        if containers
    }


def group_sums(document: Document) -> dict[str, Any]:
    """Per node: counts, group and fixed numbers; free and reserved summed over the group."""
    out: dict[str, Any] = {}
    for n, node in document.items():
        cells = sorted(node["cells"])
        tables: dict[str, Any] = {}
        for resource, table in node["memoryMap"].items():
            members = [document[str(m)]["memoryMap"].get(resource) for m in cells]
            sums = {
                key: sum(member[key] for member in members if member)
                for key in ("free", "reserved")
            }
            fixed = {key: table[key] for key in ("total", "systemReserved", "allocatable")}
            tables[resource] = {**fixed, **sums}
        out[n] = {"count": node["numberOfAssignments"], "cells": cells, "tables": tables}
    return out
