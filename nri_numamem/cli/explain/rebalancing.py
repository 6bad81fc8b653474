"""Plans and remedies for the refused containers of a story, on the host as it is now."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nri_numamem.cli.explain.advice import Advice, advice_to, commands_for, request_of
from nri_numamem.cli.explain.outside import Outside, outside_of
from nri_numamem.cli.explain.select import Key, Names
from nri_numamem.cli.explain.story import ContainerStory, Outcome, Story
from nri_numamem.cli.host_arguments import roots_of
from nri_numamem.cli.live.collect import collect_accounting, with_hugepage_users
from nri_numamem.cli.live.facts import Facts, pod_names
from nri_numamem.cli.live.outside import outside_uses
from nri_numamem.cli.live.rebalancing import PodNames, plan_on
from nri_numamem.config.errors import UsageError
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import Container, CreateContainer, PodSandbox
from nri_numamem.engine.core.fields import remedy_shown
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.queries.ending_pods import remedies_on
from nri_numamem.engine.queries.rebalance import placing
from nri_numamem.engine.records.common import Hints
from nri_numamem.engine.records.containers import Unplaced, content_of
from nri_numamem.engine.records.plain import plain
from nri_numamem.engine.records.pods import PodRejected
from nri_numamem.host.cgroups import pod_hugepage_limits, pod_memory_limit
from nri_numamem.host.containers import cgroup_path
from nri_numamem.host.movable_memory import movable_memory
from nri_numamem.host.pod_cgroups import guaranteed_pods
from nri_numamem.host.roots import HostRoots
from nri_numamem.host.sysfs import MachineError
from nri_numamem.memorymanager.rebalance import Rebalancing
from nri_numamem.memorymanager.remedy import Kind, Remedy
from nri_numamem.numa import MEMORY, CpuSet
from nri_numamem.numa.quantity import hugepages_page_size
from nri_numamem.observe.history.records import Recorded

_REFUSALS = (Unplaced, PodRejected)
# The runtime's name of a container that does not exist yet has no meaning here.
_ID = "plan"
_RETRIED = "none is necessary: it fits now, and the kubelet tries again"
_RESTART = "restart the pod: it fits now"


@dataclass(frozen=True, slots=True)
class Plans:
    """The plans of a story."""

    by_container: Mapping[Key, Rebalancing] = field(default_factory=dict)
    remedies: Mapping[Key, tuple[Remedy, ...]] = field(default_factory=dict)
    pods: PodNames = field(default_factory=dict)
    outside: Mapping[Key, Outside] = field(default_factory=dict)
    """The use of hugepages outside of pods, for the containers that request hugepages."""
    problem: str = ""
    """Why there is none; "" if they were not wanted, or without a state."""

    def outside_of(self, names: Names) -> Outside:
        """Return the use of hugepages outside of pods that concerns a container."""
        return self.outside.get((names.pod_uid, names.container), Outside())

    def of(self, names: Names) -> Rebalancing | None:
        """Return the plan for a container."""
        return self.by_container.get((names.pod_uid, names.container))

    def advice(self, story: ContainerStory) -> Advice:
        """Return the advice for a container: what helps now, or what helped at its decision."""
        names, plan = story.names, self.of(story.names)
        remedy = self.outside_of(names).remedy
        if remedy:
            return advice_to(names, remedy)
        if plan is not None and plan.fits_now:
            is_refused = story.outcome is Outcome.REFUSED
            return advice_to(names, _RETRIED if is_refused else _RESTART)
        remedies = self.remedies.get((names.pod_uid, names.container))
        if remedies is None:
            return story.advice
        ending = [each for each in remedies if each.kind is Kind.END_PODS]
        commands = commands_for(names, ending[0].pods.values() if ending else ())
        return Advice(tuple(plain(remedy_shown(each)) for each in remedies), commands)


def plans_of(story: Story, args: argparse.Namespace) -> Plans:
    """Return the plans for the containers whose last decision is a refusal."""
    refused = [one for one in story.containers if _is_refused(one)]
    if not refused:
        return Plans()
    try:
        facts = collect_accounting(args)
        problem = facts.machine_problem or facts.state_problem or facts.plugin_problem
        if problem or facts.context is None or facts.state is None:
            return Plans(problem=problem)
        return _plans(refused, facts.context, facts.state, facts, roots_of(args))
    except (UsageError, MachineError) as error:
        return Plans(problem=str(error))


def _is_refused(story: ContainerStory) -> bool:
    is_without_nodes = story.outcome in (Outcome.REFUSED, Outcome.UNPINNED)
    return is_without_nodes and isinstance(story.decisions[0].record, _REFUSALS)


def _plans(
    refused: list[ContainerStory],
    context: Context,
    state: EngineState,
    facts: Facts,
    roots: HostRoots,
) -> Plans:
    """Return the plans; there is none where the end of a use outside of pods is enough."""
    resident = movable_memory(roots)
    pods = guaranteed_pods(roots.cgroup)
    if any(outside_uses(facts)):
        facts = with_hugepage_users(facts, roots)
    found: dict[Key, Rebalancing] = {}
    remedies: dict[Key, tuple[Remedy, ...]] = {}
    named = pod_names(state)
    known = {uid: "/".join(name) for uid, name in named.items()}
    outside: dict[Key, Outside] = {}
    for story in refused:
        names, entry = story.names, story.decisions[0]
        key = (names.pod_uid, names.container)
        pod = _sandbox(names, entry, pods.get(names.pod_uid), roots.cgroup)
        container = _container(context, names, entry)
        event = CreateContainer(pod, container, facts.pool_use)
        outside[key] = outside_of(context, state, facts, event, request_of(entry))
        if not outside[key].ended:
            others = state.accounting.assignments.keys() - {names.pod_uid}
            place = placing(context, state, event)
            found[key] = plan_on(context, state, resident, others, place)
            remedies[key] = remedies_on(context, state, event, others, known)
    return Plans(found, remedies, named, outside)


def _sandbox(names: Names, entry: Recorded, cgroup: Path | None, cgroup_root: Path) -> PodSandbox:
    """Return the pod with the limits of its cgroup, or if that is gone, with those in the entry."""
    uid = names.pod_uid
    if cgroup is None:
        record = entry.record
        limits = record.pod_request_bytes if isinstance(record, Unplaced) else {}
        path, memory, hugepages = f"/kubepods/pod{uid}", limits.get(MEMORY), _hugepages(limits)
    else:
        path = cgroup_path(cgroup_root, cgroup)
        memory = pod_memory_limit(cgroup_root, path)
        hugepages = dict(pod_hugepage_limits(cgroup_root, path))
    return PodSandbox(_ID, uid, names.namespace, names.pod, path, memory, hugepages)


def _container(context: Context, names: Names, entry: Recorded) -> Container:
    """Return the container that was refused, with its request and the hints in the entry."""
    record, near, request = content_of(entry.record), Hints(), request_of(entry)
    if isinstance(record, Unplaced | PodRejected):
        near, request = record.considered.value.hints, record.request_bytes or request
    nodes = context.machine.nodes
    cpus = CpuSet(cpu for node in nodes if node.node_id in (near.cpu or ()) for cpu in node.cpus)
    return Container(
        _ID,
        _ID,
        names.container or _ID,
        request.get(MEMORY),
        _hugepages(request),
        cpuset_cpus=str(cpus),
        device_nodes=near.devices,
    )


def _hugepages(amounts: Mapping[str, int]) -> dict[int, int]:
    """Return page size in bytes -> bytes."""
    sizes = {name: size for name, size in amounts.items() if name != MEMORY and size}
    return {hugepages_page_size(name): size for name, size in sizes.items()}
