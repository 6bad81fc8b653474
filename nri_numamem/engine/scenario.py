"""Scenarios: a machine, settings, pods and steps, played by the managers that serve the runtime.

``scenario_from_document`` judges a whole parsed document before anything is played; its one error
names the place. ``play`` then runs the steps one by one. A refused step changes nothing, and the
next one runs. Reading files and showing results is the command line's.
"""

from collections.abc import Iterator, Mapping

from nri_numamem.engine.context import Context
from nri_numamem.engine.plan import RecordValue
from nri_numamem.engine.scenario_state import WrittenState, read_state
from nri_numamem.engine.scenario_steps import (
    Admit,
    Allocate,
    Hints,
    Merge,
    Remove,
    Step,
    Surroundings,
    read_steps,
)
from nri_numamem.engine.scenario_values import (
    ScenarioPod,
    read_machine,
    read_pods,
)
from nri_numamem.engine.settings import Settings, settings_from_mapping
from nri_numamem.engine.settings_values import SettingsError, SettingsPath, read_mapping, show
from nri_numamem.memorymanager import (
    Distances,
    Hint,
    HintMap,
    Machine,
    NodeSet,
    Pod,
    Preferences,
    Rejection,
    ReservedMemoryError,
    State,
    allocate,
    drop_reusable_of_others,
    full_hints,
    remove_container,
    topology_hints,
)
from nri_numamem.memorymanager.hints import FULL_HINTS_NODES
from nri_numamem.topologymanager import (
    Policy,
    Topology,
    admit_container,
    admit_containers,
    admit_pod,
    merge,
)
from nri_numamem.values import valueclass

_KEYS = ("machine", "settings", "state", "pods", "steps")


class ScenarioError(ValueError):
    """A scenario that cannot be used; the text is one line, "PLACE: PROBLEM; REMEDY"."""

    def __init__(self, path: SettingsPath, text: str) -> None:
        super().__init__(text)
        self.path = path
        """Keys and list indexes from the top of the document."""


@valueclass(frozen=True, slots=True)
class Scenario:
    """A scenario that can be played."""

    machine: Machine | None
    """None when the books are given as they are."""
    settings: Settings
    topology: Topology
    written: WrittenState
    """The `state` part."""
    books: State
    """At the start."""
    pods: Mapping[str, ScenarioPod]
    """By uid."""
    steps: tuple[Step, ...]

    @property
    def is_static(self) -> bool:
        """Tell whether memory is managed at all."""
        return self.settings.memory_manager_policy == "Static"

    @property
    def is_pod_scope(self) -> bool:
        """Tell whether pods are placed as a whole; without a policy there are no scopes."""
        is_pod = self.settings.topology_manager_scope == "pod"
        return is_pod and self.topology.policy is not Policy.NONE


def scenario_from_document(document: object, state: WrittenState | None = None) -> Scenario:
    """Return the scenario of a parsed document; ScenarioError says what is wrong where.

    `state` stands in for the document's own, which must be absent then.
    """
    if not isinstance(document, Mapping):
        problem = f"scenario: {show(document)} where a mapping belongs"
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
    topology, books = _start(machine, settings, state)
    pods = read_pods(("pods",), top.get("pods"))
    around = Surroundings(pods, topology, NodeSet(books.machine_state))
    steps = read_steps(("steps",), top.get("steps"), around)
    has_nodes = machine is not None or state.machine_state is not None
    if not has_nodes and not all(isinstance(step, Merge) for step in steps):
        raise SettingsError(
            ("machine",), "missing", "describe its nodes, or give state.machineState"
        )
    return Scenario(machine, settings, topology, state, books, pods, steps)


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
) -> tuple[Topology, State]:
    """Return the Topology Manager's set-up, and the books at the start."""
    if machine is not None and not state.machine_state:
        try:
            context = Context.of(machine, settings)
        except ReservedMemoryError as error:
            raise ScenarioError(("settings",), f"settings.{error}") from error
        return context.topology, state.replayed(("state",), context.empty_books())
    distances = Distances() if machine is None else Distances.of_machine(machine)
    preferences = Preferences(distances, settings.prefer_closest_numa_nodes)
    return Topology(Policy(settings.topology_manager_policy), preferences), state.books()


@valueclass(frozen=True, slots=True)
class Outcome:
    """What came of a step. What its kind of step does not give is None."""

    step: Step
    books: State
    """After the step."""
    rejection: Rejection | None = None
    cpuset_mems: Mapping[str, str | None] | None = None
    """Container name -> list for the runtime; None where the container is left alone."""
    unpinned: Mapping[str, Rejection] | None = None
    """Containers that run without nodes because nothing fits (whenUnsatisfiable: RunUnpinned)."""
    hints: HintMap | None = None
    """None also for "no preference at all"."""
    hint: Hint | None = None
    admits: bool | None = None

    @property
    def document(self) -> dict[str, RecordValue]:
        """The outcome as `simulate --output json` prints it."""
        if self.rejection is not None:
            error: RecordValue = {
                "reason": self.rejection.reason,
                "message": self.rejection.message,
            }
            return {"ok": False, "error": error}
        document: dict[str, RecordValue] = {"ok": True}
        if self.cpuset_mems is not None:
            document["cpusetMems"] = dict(self.cpuset_mems)
        if isinstance(self.step, Hints):
            document["hints"] = _hints_document(self.hints)
        if self.hint is not None:
            document |= {"hint": _hint_document(self.hint), "admit": self.admits}
        return document


def _hints_document(hints: HintMap | None) -> RecordValue:
    if hints is None:
        return None
    return {resource: [_hint_document(h) for h in found] for resource, found in hints.items()}


def _hint_document(hint: Hint) -> RecordValue:
    affinity: RecordValue = None if hint.affinity is None else list(hint.affinity)
    return {"affinity": affinity, "preferred": hint.preferred}


def play(scenario: Scenario) -> Iterator[Outcome]:
    """Play all steps, each on the books that the one before left."""
    books = scenario.books
    for step in scenario.steps:
        outcome = _perform(scenario, books, step)
        books = outcome.books
        yield outcome


def _perform(scenario: Scenario, books: State, step: Step) -> Outcome:
    match step:
        case Merge():
            hint, admits = merge(
                step.providers, step.numa_nodes, step.topology.policy, step.topology.preferences
            )
            return Outcome(step, books, hint=hint, admits=admits)
        case Remove():
            after = remove_container(books, step.uid, step.container)
            return Outcome(step, after if scenario.is_static else books)
        case Hints():
            return Outcome(step, books, hints=_hints(scenario, books, step))
        case Allocate():
            return _allocate(scenario, books, step)
    return _admit(scenario, books, step)


def _hints(scenario: Scenario, books: State, step: Hints) -> HintMap | None:
    if not scenario.is_static:
        return None
    pod = scenario.pods[step.uid].pod
    if len(books.machine_state) <= FULL_HINTS_NODES:
        return full_hints(books, pod, step.container)
    # Of all sets of so many nodes, those that can decide a merge.
    found = topology_hints(books, pod, step.container, scenario.topology.preferences)
    return found and {resource: hints for resource, hints in found.items() if hints}


def _allocate(scenario: Scenario, books: State, step: Allocate) -> Outcome:
    if not scenario.is_static:
        return Outcome(step, books, cpuset_mems={step.container: None})
    # The kubelet forgets what other pods' init containers left before it allocates.
    state = drop_reusable_of_others(books, step.uid)
    pod, preferences = scenario.pods[step.uid].pod, scenario.topology.preferences
    allocated = allocate(state, pod, step.container, step.hint, preferences)
    if isinstance(allocated, Rejection):
        return Outcome(step, books, rejection=allocated)
    mems = {step.container: _mems(allocated.nodes)}
    return Outcome(step, allocated.state, cpuset_mems=mems)


def _admit(scenario: Scenario, books: State, step: Admit) -> Outcome:
    pod = scenario.pods[step.uid].pod
    if not scenario.is_static:
        return Outcome(step, books, cpuset_mems={c.name: None for c in pod.containers})
    state = drop_reusable_of_others(books, pod.uid)
    if scenario.is_pod_scope:
        admitted = admit_pod(state, pod, scenario.topology)
    else:
        admitted = admit_containers(state, pod, scenario.topology)
    if not isinstance(admitted, Rejection):
        mems = {name: _mems(got.nodes) for name, got in admitted.containers.items()}
        return Outcome(step, admitted.state, cpuset_mems=mems)
    if scenario.settings.when_unsatisfiable == "Reject":
        return Outcome(step, books, rejection=admitted)
    if scenario.is_pod_scope:
        names = [container.name for container in pod.containers]
        unpinned = dict.fromkeys(names, admitted)
        return Outcome(step, books, cpuset_mems=dict.fromkeys(names), unpinned=unpinned)
    return _admit_what_fits(scenario, state, step, pod)


def _admit_what_fits(scenario: Scenario, books: State, step: Admit, pod: Pod) -> Outcome:
    """Place container by container; those that fit nowhere run unpinned."""
    mems: dict[str, str | None] = {}
    unpinned: dict[str, Rejection] = {}
    for container in pod.containers:
        one = admit_container(books, pod, container.name, scenario.topology)
        if isinstance(one, Rejection):
            mems[container.name], unpinned[container.name] = None, one
        else:
            books = one.state
            mems[container.name] = _mems(one.containers[container.name].nodes)
    return Outcome(step, books, cpuset_mems=mems, unpinned=unpinned)


def _mems(nodes: NodeSet) -> str | None:
    return str(nodes) or None
