"""Which scenarios can be played over NRI: those that consist of a runtime's requests.

A runtime reports the start and end of pods and containers, and changes of their resources. No
request corresponds to an accounting that running containers do not explain.
"""

import re
from collections.abc import Iterable, Sequence

from nri_numamem.config.errors import UsageError
from nri_numamem.config.policy import policy_of
from nri_numamem.config.values import SettingsError
from nri_numamem.engine.setup import new_context
from nri_numamem.kubelet.go_values import shown
from nri_numamem.memorymanager import Block, ReservedMemoryError, State
from nri_numamem.memorymanager.holder import HolderName
from nri_numamem.numa import MEMORY, Machine, NodeSet, hugepages_page_size
from nri_numamem.scenario.outcome import Outcome
from nri_numamem.scenario.scenario import Scenario
from nri_numamem.scenario.steps import Admit, Remove
from tests.laboratory.fake_sysfs import overlay_of

# A pod's uid becomes a directory's name; nothing else may come of it.
_UID = re.compile(r"[A-Za-z0-9._-]{1,200}")

_Figures = dict[int, tuple[int, NodeSet, dict[str, tuple[int, ...]]]]


def check_playable(scenario: Scenario, outcomes: Sequence[Outcome], origin: str) -> Machine:
    """Return the scenario's machine; UsageError names what cannot be played over NRI."""
    machine = scenario.machine
    try:
        if machine is None:
            raise _unplayable("machine", "missing: the plugin needs one", "describe its nodes")
        _check_sizes(machine)
        for uid in (*scenario.pods, *(scenario.written.entries or {})):
            if _UID.fullmatch(uid) is None:
                problem = f"the pod uid {shown(uid)} cannot name a cgroup"
                raise _unplayable("pods", problem, "use letters, digits, - and .")
        _check_steps(scenario, outcomes)
        _check_state(scenario, machine)
    except (SettingsError, ReservedMemoryError) as error:
        raise UsageError(f"{origin}: {error}; this cannot be played over NRI") from error
    except UsageError as error:
        raise UsageError(f"{origin}: {error}") from error
    return machine


def _unplayable(place: str, problem: str, remedy: str) -> UsageError:
    return UsageError(f"{place}: {problem}; {remedy}")


def _check_sizes(machine: Machine) -> None:
    try:
        overlay_of(machine)
    except ValueError as error:
        raise _unplayable("machine", str(error), "round it down") from error


def _check_steps(scenario: Scenario, outcomes: Sequence[Outcome]) -> None:
    written = {uid: set(containers) for uid, containers in (scenario.written.entries or {}).items()}
    for index, outcome in enumerate(outcomes):
        if isinstance(outcome.step, Admit):
            _check_admission(f"steps[{index}].admit", scenario, outcome.step, written)
        elif isinstance(outcome.step, Remove):
            written.pop(outcome.step.uid, None)


def _check_admission(
    place: str, scenario: Scenario, step: Admit, written: dict[str, set[HolderName]]
) -> None:
    names: set[HolderName] = {
        container.name for container in scenario.pods[step.uid].pod.containers
    }
    if written.get(step.uid, names) != names:
        problem = f"only some containers of pod {step.uid} run already"
        raise _unplayable(place, problem, "let all of them run, or none")
    if step.cpus or step.devices:
        problem = "the fake runtime's host has no CPUs and devices to allocate"
        raise _unplayable(place, problem, "remove cpus and devices")


def _check_page_sizes(place: str, resources: Iterable[str]) -> None:
    for resource in resources:
        try:
            if resource != MEMORY:
                hugepages_page_size(resource)
        except ValueError as error:
            raise _unplayable(place, str(error), "use a page size that exists") from error


def _check_state(scenario: Scenario, machine: Machine) -> None:
    """Reject an accounting that running containers do not explain."""
    empty = new_context(machine, policy_of(scenario.settings)).empty_accounting()
    for uid, containers in (scenario.written.entries or {}).items():
        for name, blocks in containers.items():
            _check_running(f"state.entries.{uid}.{shown(str(name))}", blocks)
    replayed = scenario.written.replayed(("state",), empty)
    if _figures(replayed) != _figures(scenario.accounting):
        problem = "not what the entries make of the machine"
        raise _unplayable("state.machineState", problem, "leave it out")


def _check_running(place: str, blocks: tuple[Block, ...]) -> None:
    _check_page_sizes(place, [block.type for block in blocks])
    sizes = {block.type: block.size for block in blocks}
    is_one = len({block.numa_affinity for block in blocks}) == 1 and len(sizes) == len(blocks)
    if not (is_one and sizes.get(MEMORY) and all(sizes.values())):
        problem = "no running container has these blocks"
        raise _unplayable(place, problem, "write memory, and each resource once on the same nodes")


def _figures(accounting: State) -> _Figures:
    """Return the comparable figures: free bytes only as sums over a node's group."""
    return {
        node_id: (
            node.number_of_assignments,
            node.cells,
            {
                resource: (
                    table.total,
                    table.system_reserved,
                    table.allocatable,
                    sum(
                        accounting.machine_state[member].table(resource).free
                        for member in node.cells
                        if member in accounting.machine_state
                    ),
                )
                for resource, table in node.memory_map.items()
            },
        )
        for node_id, node in accounting.machine_state.items()
    }
