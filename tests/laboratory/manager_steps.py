"""Steps of scenarios that are single calls of the kubelet's managers, which no runtime sends.

The kubelet's own test tables consist of them: `allocate` with a given topology hint, `hints`,
`remove` of one container among others, and `merge`, one decision of the Topology Manager.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from nri_numamem.config.values import read_mapping
from nri_numamem.engine.admission.placement import place_with_hint
from nri_numamem.engine.core.plan import RecordValue
from nri_numamem.engine.engine import Engine
from nri_numamem.memorymanager import ContainerKind, Hint, Rejection, remove_container
from nri_numamem.memorymanager.holder import HolderKind
from nri_numamem.memorymanager.state_json import state_json
from nri_numamem.numa import NodeSet
from nri_numamem.scenario.events import container_event, new_holder
from nri_numamem.scenario.outcome import Outcome
from nri_numamem.scenario.player import Player
from nri_numamem.scenario.scenario import scenario_from_document
from nri_numamem.scenario.steps import Remove, Surroundings, read_steps
from nri_numamem.topologymanager import merge_hints
from tests.laboratory.container_hints import HintMap, drop_reusable_of_others, hints_for_container
from tests.laboratory.merge_step import read_hint, read_merge

Document = dict[str, RecordValue]


def play_case(document: Mapping[str, object]) -> tuple[list[Document], Player]:
    """Play a scenario with these steps too; return the results, and the player after them."""
    scenario = scenario_from_document({**document, "steps": []})
    around = Surroundings(scenario.pods, scenario.written.entries or {})
    player = ManagerPlayer(scenario)
    results: list[Document] = []
    for index, step in enumerate(_list(document.get("steps"))):
        [(verb, what)] = read_mapping(("steps", index), step).items()
        here = ("steps", index, verb)
        match verb:
            case "allocate":
                result = player.allocate(*_container(what), read_hint(here, _get(what, "hint")))
            case "hints":
                result = player.hints(*_container(what))
            case "merge":
                result = player.merge(what)
            case "remove" if _get(what, "container") is not None:
                result = player.remove_container(*_container(what))
            case _:
                (read,) = read_steps(("steps",), [step], around)
                result = player.play(read).document
        results.append(result)
    return results, player


def case_document(document: Mapping[str, object]) -> dict[str, object]:
    """Return the results of a scenario and the accounting after it, as `simulate` prints them."""
    results, player = play_case(document)
    return {"steps": results, **state_json(player.accounting)}


class ManagerPlayer(Player):
    """A player that can also call the managers."""

    def allocate(self, uid: str, name: str, hint: Hint) -> Document:
        """Let the memory manager allocate for one container, by a given hint."""
        step = Remove(uid)  # outcomes have a step; no result depends on it
        if not self._scenario.context.is_static:
            return Outcome(step, self.accounting, cpuset_mems={name: None}).document
        pod, state = self._scenario.pods[uid].pod, self._engine.state
        # The kubelet drops what other pods' init containers left before it allocates.
        accounting = drop_reusable_of_others(state.accounting, uid)
        context = self._scenario.context
        placed = place_with_hint(context, accounting, pod, name, hint)
        if isinstance(placed, Rejection):
            return Outcome(step, self.accounting, rejection=placed).document
        key, described = (uid, name), pod.container(name)
        if pod.guaranteed:
            sandbox, _ = self._run_sandbox(uid)
            amounts = self._scenario.pods[uid].cpus.get(name)
            container = container_event(self._new_id(), sandbox, described, amounts=amounts)
            is_init = described.kind is ContainerKind.INIT
            if is_init:
                self._ended_inits[key] = str(placed.nodes)
            else:
                self._running[key] = container
            holder = new_holder(container, sandbox, ended=is_init)
            state = state.with_pod(sandbox).with_holder(holder, placed.accounting)
            self._engine = Engine.with_state(context, state)
        mems = {name: str(placed.nodes) or None}
        return Outcome(step, self.accounting, cpuset_mems=mems).document

    def hints(self, uid: str, name: str) -> Document:
        """Return a container's topology hints; nothing is allocated."""
        hints = None
        if self._scenario.context.is_static:
            accounting, context = self._engine.state.accounting, self._scenario.context
            hints = hints_for_container(context, accounting, self._scenario.pods[uid].pod, name)
        return {"ok": True, "hints": _hints_document(hints)}

    def merge(self, what: object) -> Document:
        """Return one decision of the Topology Manager over given hints."""
        context = self._scenario.context
        nodes = NodeSet(self._scenario.accounting.machine_state)
        merge = read_merge(("merge",), what, context.topology, nodes)
        policy, preferences = merge.topology.policy, merge.topology.preferences
        hint, admits = merge_hints(merge.providers, merge.numa_nodes, policy, preferences)
        return {"ok": True, "hint": _hint_document(hint), "admit": admits}

    def remove_container(self, uid: str, name: str) -> Document:
        """Remove a container from the accounting, and with the last one its pod."""
        if not self._scenario.context.is_static:
            return {"ok": True}
        key, state = (uid, name), self._engine.state
        self._running.pop(key, None)
        self._ended_inits.pop(key, None)
        names = state.accounting.assignments.get(uid, {}).keys() - {HolderKind.POD, name}
        running = any(other == uid for other, _ in self._running)
        if uid in self._sandboxes and not names and not running:
            self.end_pod(uid)
        elif (holder := state.holders.get(key)) is not None:
            previous_nodes = state.previous_nodes_with([holder])
            accounting = remove_container(state.accounting, *key)
            state = replace(state.without_holder(holder, accounting), previous_nodes=previous_nodes)
            self._engine = Engine.with_state(self._scenario.context, state)
        return {"ok": True}


def _list(value: object) -> Iterator[object]:
    return iter(value if isinstance(value, list) else ())


def _get(what: object, key: str) -> object:
    return what.get(key) if isinstance(what, Mapping) else None


def _container(what: object) -> tuple[str, str]:
    return str(_get(what, "pod")), str(_get(what, "container"))


def _hints_document(hints: HintMap | None) -> RecordValue:
    if hints is None:
        return None
    return {resource: [_hint_document(h) for h in found] for resource, found in hints.items()}


def _hint_document(hint: Hint) -> RecordValue:
    affinity: RecordValue = None if hint.affinity is None else list(hint.affinity)
    return {"affinity": affinity, "preferred": hint.preferred}
