"""Plans and remedies for the refused containers of a story, on the host in its present state.

If a container lacks hugepages that are used outside of pods, the end of that use is tried by the
code that places before it is named as the remedy.
"""

import argparse
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from nri_numamem.cli.decisions.names import Key, Names
from nri_numamem.cli.decisions.outcomes import Outcome, request_of
from nri_numamem.cli.explain.decision import Advice, advice_to, commands_for
from nri_numamem.cli.explain.story import ContainerStory, Story
from nri_numamem.cli.host_arguments import roots_of
from nri_numamem.cli.live.collect import collect_accounting, sandbox_at, with_hugepage_users
from nri_numamem.cli.live.facts import Facts, pod_names
from nri_numamem.cli.live.outside import OutsideUse, outside_uses
from nri_numamem.cli.live.rebalancing import PodNames, plan_on
from nri_numamem.config.errors import UsageError
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import Container, CreateContainer, PodSandbox
from nri_numamem.engine.core.fields import remedy_shown
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.queries.ending_pods import remedies_on
from nri_numamem.engine.queries.rebalance import placing
from nri_numamem.engine.records.common import Hints
from nri_numamem.engine.records.containers import Unplaced, content_of
from nri_numamem.engine.records.plain import plain
from nri_numamem.engine.records.pods import PodRejected
from nri_numamem.host.movable_memory import movable_memory
from nri_numamem.host.pod_cgroups import guaranteed_pods
from nri_numamem.host.roots import HostRoots
from nri_numamem.host.sysfs import MachineError
from nri_numamem.memorymanager import Request, mask_unavailable_hugepages
from nri_numamem.memorymanager.rebalance import Rebalancing
from nri_numamem.memorymanager.remedy import Kind, Remedy
from nri_numamem.numa import MEMORY, CpuSet, NodeSet, humanize_bytes
from nri_numamem.numa.quantity import hugepages_page_size
from nri_numamem.observe.history.records import Recorded

_REFUSALS = (Unplaced, PodRejected)
# The runtime's name of a container that does not exist yet has no meaning here.
_ID = "plan"
_RETRIED = "not needed: it fits now, and the kubelet tries again"
_RESTART = "restart the pod: it fits now"
# Of nodes and page sizes; each is one trial.
_TRIALS = 16


@dataclass(frozen=True, slots=True)
class Outside:
    """The use of requested hugepages outside of pods, and what its end changes."""

    uses: tuple[OutsideUse, ...] = ()
    ended: tuple[OutsideUse, ...] = ()
    """Those whose end makes the request fit; empty if it fits now, or does not fit then."""
    nodes: NodeSet = field(default_factory=NodeSet)
    """Where it then fits."""

    @property
    def remedy(self) -> str:
        """Return what to free, and by whom it is used; "" if that does not suffice."""
        if not self.ended:
            return ""
        what = " and ".join(
            f"{use.pages(use.size_bytes)}{f' on {use.where}' if use.nodes else ''}, {use.verb} "
            f"outside of pods{f' by {use.known_users}' if use.known_users else ''}"
            for use in self.ended
        )
        return f"free {what}; the request then fits on {format_nodes(self.nodes)}"


def outside_of(
    context: Context, state: EngineState, facts: Facts, event: CreateContainer, request: Request
) -> Outside:
    """Return the use of the requested sizes; `event` is the creation that was refused."""
    uses = tuple(use for use in outside_uses(facts) if use.resource in request)
    if not uses or facts.pool_use is None:
        return Outside()
    pool_use = facts.pool_use

    def nodes_after(ended: Collection[OutsideUse]) -> NodeSet | None:
        """Return the nodes of the container after the end of these uses; None if refused."""
        places = {(use.nodes, use.resource) for use in ended}
        masked = mask_unavailable_hugepages(state.accounting, pool_use, places)
        # The pools are in the accounting that is tried.
        return placing(context, state, replace(event, pool_use=None))(masked.state)

    nodes = nodes_after(uses)
    if nodes is None or nodes_after(()) is not None:
        return Outside(uses)
    ended = uses
    for use in reversed(uses[:_TRIALS]):
        fewer = tuple(each for each in ended if each is not use)
        found = nodes_after(fewer)
        if found is not None:
            ended, nodes = fewer, found
    return Outside(uses, ended, nodes)


@dataclass(frozen=True, slots=True)
class Present:
    """What the host shows now about a refused container."""

    outside: Outside = field(default_factory=Outside)
    """The use of hugepages outside of pods, if the container requests hugepages."""
    plan: Rebalancing | None = None
    """How pods could make room; None where the end of a use outside of pods is enough."""
    remedies: tuple[Remedy, ...] | None = None
    reserved: tuple[str, ...] = ()
    """For each NUMA node on which memory of `reservedMemory` is what the request lacks, a text."""


@dataclass(frozen=True, slots=True)
class Plans:
    """The plans of a story."""

    present: Mapping[Key, Present] = field(default_factory=dict)
    pods: PodNames = field(default_factory=dict)
    problem: str = ""
    """Why there is none; "" if they were not wanted, or without a state."""
    excluded: NodeSet = field(default_factory=NodeSet)
    """The nodes on which no container is placed."""
    has_earmarks: bool = False
    """Whether the plugin can set room aside."""

    def of(self, names: Names) -> Present:
        """Return what the host shows now about a container."""
        return self.present.get(names.key, Present())

    def advice(self, story: ContainerStory) -> Advice:
        """Return the advice for a container: what helps now, or what helped at its decision."""
        names, now = story.names, self.of(story.names)
        if now.outside.remedy:
            return advice_to(now.outside.remedy, commands_for(names))
        if now.plan is not None and now.plan.fits_now:
            text = _RETRIED if story.outcome is Outcome.REFUSED else _RESTART
            return advice_to(text, commands_for(names))
        if now.remedies is None:
            return story.advice
        ending = [each for each in now.remedies if each.kind is Kind.END_PODS]
        commands = commands_for(names, ending[0].pods.values() if ending else ())
        return Advice(tuple(plain(remedy_shown(each)) for each in now.remedies), commands)


def plans_of(story: Story, args: argparse.Namespace) -> Plans:
    """Return the plans for the containers whose last decision is a refusal."""
    if not any(map(_is_refused, story.containers)):
        return Plans()
    try:
        return plans_with(story, collect_accounting(args), roots_of(args))
    except (UsageError, MachineError) as error:
        return Plans(problem=str(error))


def plans_with(
    story: Story, facts: Facts, roots: HostRoots, movable: Collection[str] | None = None
) -> Plans:
    """Return the plans, with facts that are known; raises MachineError.

    They move only pods with the uids `movable`; None for any.
    """
    refused = [one for one in story.containers if _is_refused(one)]
    problem = facts.machine_problem or facts.state_problem or facts.plugin_problem
    if problem or facts.context is None or facts.state is None:
        return Plans(problem=problem)
    return _plans(refused, facts.context, facts.state, facts, roots, movable)


def _is_refused(story: ContainerStory) -> bool:
    is_without_nodes = story.outcome in (Outcome.REFUSED, Outcome.UNPINNED)
    return is_without_nodes and isinstance(story.decisions[0].record, _REFUSALS)


def _plans(
    refused: list[ContainerStory],
    context: Context,
    state: EngineState,
    facts: Facts,
    roots: HostRoots,
    movable: Collection[str] | None,
) -> Plans:
    resident = movable_memory(roots)
    pods = guaranteed_pods(roots.cgroup)
    if any(outside_uses(facts)):
        facts = with_hugepage_users(facts, roots)
    named = pod_names(state)
    known = {uid: "/".join(name) for uid, name in named.items()}
    found: dict[Key, Present] = {}
    for story in refused:
        names, entry = story.names, story.decisions[0]
        pod = _sandbox(names, entry, pods.get(names.pod_uid), roots.cgroup)
        pod = replace(pod, labels=_labels(context, entry))
        container = _container(context, names, entry)
        event = CreateContainer(pod, container, facts.pool_use)
        present = Present(outside_of(context, state, facts, event, request_of(entry)))
        if not present.outside.ended:
            others = state.accounting.assignments.keys() - {names.pod_uid}
            moving = others if movable is None else others & set(movable)
            plan = plan_on(context, state, resident, moving, placing(context, state, event))
            remedies = remedies_on(context, state, event, others, known)
            reserved = _reserved(context, state, request_of(entry).get(MEMORY, 0))
            present = Present(present.outside, plan, remedies, tuple(reserved))
        found[names.key] = present
    excluded, has_earmarks = context.classification.excluded, facts.settings.earmarks.enabled
    return Plans(found, named, excluded=excluded, has_earmarks=has_earmarks)


def _reserved(context: Context, state: EngineState, wanted_bytes: int) -> Iterator[str]:
    """Yield where the memory would fit without `reservedMemory`."""
    if not context.policy.reserved_memory:
        return
    for node_id, node in state.accounting.machine_state.items():
        table = node.table(MEMORY)
        if table.free < wanted_bytes <= table.free + table.system_reserved:
            size = humanize_bytes(table.system_reserved)
            of = f"{size} of {humanize_bytes(table.total)} are reserved (reservedMemory)"
            yield f"node {node_id}: {of}; without that it would fit there"


def _sandbox(names: Names, entry: Recorded, cgroup: Path | None, cgroup_root: Path) -> PodSandbox:
    """Return the pod with the limits of its cgroup, or if that is gone, with those in the entry."""
    uid = names.pod_uid
    if cgroup is not None:
        found = sandbox_at(cgroup_root, cgroup, _ID, uid)
        return replace(found, namespace=names.namespace, name=names.pod)
    record = entry.record
    limits = record.pod_request_bytes if isinstance(record, Unplaced) else {}
    memory, hugepages = limits.get(MEMORY), _hugepages(limits)
    path = f"/kubepods/pod{uid}"
    return PodSandbox(_ID, uid, names.namespace, names.pod, path, memory, hugepages)


def _labels(context: Context, entry: Recorded) -> Mapping[str, str]:
    """Return the labels of a refused pod by which it is in its partition.

    An earlier partition that matches these labels would have matched the pod.
    """
    record = content_of(entry.record)
    name = record.partition if isinstance(record, Unplaced | PodRejected) else ""
    found = (each.selector for each in context.policy.partitions if each.name == name)
    return next(found, {})


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
