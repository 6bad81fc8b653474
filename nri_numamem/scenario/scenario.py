"""Scenarios: a machine, settings, pods and steps.

``scenario_from_document`` checks a whole parsed document before anything is played; its one error
names the place. ``player.play`` then runs the steps. The command line reads files and shows
results.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from nri_numamem.config.policy import policy_of
from nri_numamem.config.settings import Settings, settings_from_mapping
from nri_numamem.config.values import SettingsError, SettingsPath, read_mapping, show
from nri_numamem.engine.core.context import Context, topology_of
from nri_numamem.engine.setup import features_of, new_context
from nri_numamem.memorymanager import Reserved, ReservedMemoryError, State
from nri_numamem.memorymanager.state import without_nodes
from nri_numamem.numa import Machine, MemoryNodesError
from nri_numamem.scenario.state import WrittenState, read_state
from nri_numamem.scenario.steps import Step, Surroundings, read_steps
from nri_numamem.scenario.values import ScenarioPod, read_machine, read_pods

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

    @property
    def is_static(self) -> bool:
        """Return whether memory is managed at all."""
        return self.context.is_static


def scenario_from_document(document: object, state: WrittenState | None = None) -> Scenario:
    """Return the scenario of a parsed document; ScenarioError names the field and the problem.

    `state` stands in for the document's own, which must be absent then.
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
        except (MemoryNodesError, ReservedMemoryError) as error:
            raise ScenarioError(("settings",), f"settings.{error}") from error
        return context, state.replayed(("state",), context.empty_accounting())
    if machine is None:
        machine = state.machine()
    # The written state contains what is reserved.
    reserved: Reserved = {node.node_id: {} for node in machine.nodes}
    try:
        topology, features = topology_of(machine, policy), features_of(policy)
        context = Context(machine, policy, reserved, topology, machine, all_features=features)
    except MemoryNodesError as error:
        raise ScenarioError(("settings",), f"settings.{error}") from error
    return context, without_nodes(state.accounting(), context.classification.excluded)
