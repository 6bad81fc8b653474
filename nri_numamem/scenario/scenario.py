"""Scenarios: a machine, settings, pods and steps.

``scenario_from_document`` checks a whole parsed document before anything is played; its one error
names the place. ``player.play`` then runs the steps. The command line reads files and shows
results.

The `state` part is an accounting with the keys of the kubelet's state file, from any source. A
written machine state is used unchanged. If only assignments are written, they are entered in the
machine's empty accounting, as the kubelet does when it checks its state file at start.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from nri_numamem.config.policy import policy_of
from nri_numamem.config.settings import Settings, settings_from_mapping
from nri_numamem.config.values import (
    SettingsError,
    SettingsPath,
    read_integer,
    read_mapping,
    read_quantity,
    show,
)
from nri_numamem.engine.core.context import Context, topology_of
from nri_numamem.engine.features.partitions.layouts import check_rest
from nri_numamem.engine.setup import features_of, new_context
from nri_numamem.memorymanager import (
    Block,
    NodeState,
    Reserved,
    ReservedMemoryError,
    State,
    Table,
    state_as_written,
)
from nri_numamem.memorymanager.state import Assignments, without_nodes
from nri_numamem.memorymanager.state_json import BLOCK_KEYS, NODE_KEYS, TABLE_KEYS
from nri_numamem.numa import (
    MEMORY,
    Machine,
    MemoryNodesError,
    NodeSet,
    NumaNode,
    PartitionsError,
    is_memory_resource,
)
from nri_numamem.scenario.steps import Step, Surroundings, read_steps
from nri_numamem.scenario.values import (
    COUNT_MOST,
    ScenarioPod,
    read_by_node,
    read_list,
    read_machine,
    read_node_set,
    read_pods,
    read_text,
)

# The kubelet counts bytes in uint64, and its arithmetic may have wrapped in a file of it.
_UINT64_MOST = 2**64 - 1
# The last two are in the kubelet's file; the caller that reads the file checks them.
_STATE_KEYS = ("machineState", "entries", "policyName", "checksum")


@dataclass(frozen=True, slots=True)
class WrittenState:
    """The `state` of a scenario: an accounting with the keys of the kubelet's state file."""

    machine_state: Mapping[int, NodeState] | None = None
    """None when it is not given."""
    entries: Assignments | None = None

    def accounting(self) -> State:
        """Return the written accounting, unchecked."""
        return state_as_written(self.machine_state or {}, self.entries or {})

    def machine(self) -> Machine:
        """Return the machine with the written nodes; distances and CPUs are unknown."""
        return Machine(
            tuple(
                NumaNode(node_id, node.table(MEMORY).total)
                for node_id, node in sorted((self.machine_state or {}).items())
            )
        )

    def replayed(self, path: SettingsPath, accounting: State) -> State:
        """Return an empty accounting with the entries added, as the kubelet does at start."""
        machine = dict(accounting.machine_state)
        for uid, containers in (self.entries or {}).items():
            for name, blocks in containers.items():
                for index, block in enumerate(blocks):
                    _enter((*path, "entries", uid, str(name), index), machine, block)
        return state_as_written(machine, self.entries or {})


def _enter(path: SettingsPath, machine: dict[int, NodeState], block: Block) -> None:
    """Take a block's bytes, lowest node first. Source: kubelet memorymanager, validateState."""
    missing = block.size
    for node_id in block.numa_affinity:
        node = machine.get(node_id)
        if node is None:
            problem = f"the machine has no NUMA node {node_id}"
            raise SettingsError(path, problem, "add the node, or leave out the assignment")
        table = node.table(block.type)
        taken = min(missing, table.free)
        missing -= taken
        tables = {**node.memory_map, block.type: table.charge(taken)} if taken else node.memory_map
        count = node.number_of_assignments + 1
        machine[node_id] = replace(
            node, number_of_assignments=count, memory_map=tables, cells=block.numa_affinity
        )
    if missing:
        problem = f"{missing} of {block.size} bytes of {block.type} do not fit on these nodes"
        raise SettingsError(path, problem, "write the machineState too; it is used unchanged")


def read_state(path: SettingsPath, value: object) -> WrittenState:
    """Return the `state` part: machineState and entries."""
    state = read_mapping(path, value, _STATE_KEYS)
    here = (*path, "machineState")
    machine_state = {
        node_id: _read_node_state((*here, str(node_id)), node_id, node)
        for node_id, node in read_by_node(here, state.get("machineState")).items()
    }
    there = (*path, "entries")
    entries: Assignments = {
        uid: {
            name: tuple(_read_blocks((*there, uid, name), blocks))
            for name, blocks in read_mapping((*there, uid), containers).items()
        }
        for uid, containers in read_mapping(there, state.get("entries")).items()
    }
    is_given = state.get("machineState") is not None
    return WrittenState(machine_state if is_given else None, entries)


def _read_node_state(path: SettingsPath, node_id: int, value: object) -> NodeState:
    node = read_mapping(path, value, NODE_KEYS)
    here = (*path, "memoryMap")
    tables = {
        resource: Table(*_read_table((*here, resource), table))
        for resource, table in read_mapping(here, node.get("memoryMap")).items()
    }
    cells = node.get("cells")
    count = node.get("numberOfAssignments") or 0
    return NodeState(
        read_integer((*path, "numberOfAssignments"), count, least=0, most=COUNT_MOST),
        tables,
        NodeSet([node_id]) if cells is None else read_node_set((*path, "cells"), cells),
    )


def _read_table(path: SettingsPath, value: object) -> Iterable[int]:
    _check_resource(path, str(path[-1]))
    table = read_mapping(path, value, TABLE_KEYS)
    return (_read_bytes((*path, key), table.get(key)) for key in TABLE_KEYS)


def _read_bytes(path: SettingsPath, value: object) -> int:
    if type(value) is int and 0 <= value <= _UINT64_MOST:
        return value
    return 0 if value is None else read_quantity(path, value)


def _read_blocks(path: SettingsPath, value: object) -> Iterable[Block]:
    for index, entry in enumerate(read_list(path, value)):
        here = (*path, index)
        block = read_mapping(here, entry, BLOCK_KEYS)
        resource = read_text((*here, "type"), block.get("type"))
        _check_resource((*here, "type"), resource)
        nodes = read_node_set((*here, "numaAffinity"), block.get("numaAffinity"))
        yield Block(nodes, resource, _read_bytes((*here, "size"), block.get("size")))


def _check_resource(path: SettingsPath, resource: str) -> None:
    if not is_memory_resource(resource):
        problem = f"unknown resource {show(resource)}"
        raise SettingsError(path, problem, "use memory or one such as hugepages-2Mi")


_KEYS = ("machine", "settings", "state", "pods", "steps")


class ScenarioError(ValueError):
    """A scenario that cannot be used; the text is one line, "PLACE: PROBLEM; REMEDY"."""

    def __init__(self, path: SettingsPath, text: str) -> None:
        super().__init__(text)
        self.path = path
        """Keys and list indexes from the top of the document."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario that can be played."""

    machine: Machine | None
    """None if only `state.machineState` describes it."""
    settings: Settings
    context: Context
    """Machine and policy of the engine that plays the scenario."""
    written: WrittenState
    """The `state` part."""
    accounting: State
    """At the start."""
    pods: Mapping[str, ScenarioPod]
    """By uid."""
    steps: tuple[Step, ...]


def scenario_from_document(document: object, state: WrittenState | None = None) -> Scenario:
    """Return the scenario of a parsed document; ScenarioError names the field and the problem.

    `state` replaces the document's own, which must then be absent.
    """
    if not isinstance(document, Mapping):
        problem = f"scenario: {show(document)} instead of a mapping"
        raise ScenarioError((), f"{problem}; write machine, pods and steps")
    try:
        return _read(document, state)
    except SettingsError as error:
        raise ScenarioError(error.path, str(error)) from error


def _read(document: Mapping[object, object], state: WrittenState | None) -> Scenario:
    top = read_mapping((), document, _KEYS)
    settings = _read_settings(top.get("settings"))
    machine = None
    if top.get("machine") is not None:
        machine = read_machine(("machine",), top["machine"])
    if state is None:
        state = read_state(("state",), top.get("state"))
    elif top.get("state") is not None:
        raise SettingsError(
            ("state",), "the state is given twice", "remove it, or leave out the file"
        )
    context, accounting = _start(machine, settings, state)
    pods = read_pods(("pods",), top.get("pods"))
    around = Surroundings(pods, state.entries or {})
    steps = read_steps(("steps",), top.get("steps"), around)
    has_nodes = machine is not None or state.machine_state is not None
    if steps and not has_nodes:
        raise SettingsError(
            ("machine",), "missing", "describe its nodes, or give state.machineState"
        )
    return Scenario(machine, settings, context, state, accounting, pods, steps)


def _read_settings(value: object) -> Settings:
    try:
        settings = settings_from_mapping(value)
    except SettingsError as error:
        text = f"settings.{error}" if error.path else str(error)
        raise ScenarioError(("settings", *error.path), text) from error
    if settings.kubelet_config_file is not None:
        path = ("settings", "kubeletConfigFile")
        raise SettingsError(path, "a scenario reads no other file", "write that file's keys here")
    return settings


def _start(
    machine: Machine | None, settings: Settings, state: WrittenState
) -> tuple[Context, State]:
    """Return the engine's context, and the accounting at the start."""
    policy = policy_of(settings)
    if machine is not None and not state.machine_state:
        try:
            context = new_context(machine, policy)
        except (MemoryNodesError, PartitionsError, ReservedMemoryError) as error:
            raise ScenarioError(("settings",), f"settings.{error}") from error
        return context, state.replayed(("state",), context.empty_accounting())
    if machine is None:
        machine = state.machine()
    # The written state contains what is reserved.
    reserved: Reserved = {node.node_id: {} for node in machine.nodes}
    try:
        topology, features = topology_of(machine, policy), features_of(policy)
        context = Context(machine, policy, reserved, topology, machine, all_features=features)
        check_rest(context)
    except (MemoryNodesError, PartitionsError) as error:
        raise ScenarioError(("settings",), f"settings.{error}") from error
    return context, without_nodes(state.accounting(), context.classification.excluded)
