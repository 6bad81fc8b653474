"""Remedies of a refused container, each tried: the same creation is decided with it, and admitted.

The trials run while the runtime waits for the reply, so there are at most TRIALS. Beyond them the
text says less. Nothing here names other pods; ``queries.ending_pods`` does, for commands.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from nri_numamem.engine.admission.remedy_amounts import Proposals
from nri_numamem.engine.admission.remedy_inputs import (
    pods_on,
    trial_context,
    with_hugepages,
    with_less,
    with_new_pages,
    with_pages_freed,
    with_policy,
    without_pods,
)
from nri_numamem.engine.core.candidates import Choice
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import CreateContainer
from nri_numamem.engine.core.policy import POD_SCOPE, Policy
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.pods import outstanding
from nri_numamem.engine.pods.machine_change import rebuilt
from nri_numamem.memorymanager import Rejection, Request, ReservedMemoryError
from nri_numamem.memorymanager.blocks import page_bytes
from nri_numamem.memorymanager.node_reasons import Rule
from nri_numamem.memorymanager.remedy import Kind, Remedy
from nri_numamem.numa import (
    MEMORY,
    Machine,
    MemoryNodes,
    MemoryNodesError,
    NodeClass,
    NodeSet,
    WithoutCpus,
)
from nri_numamem.topologymanager import TopologyPolicy

TRIALS = 24
"""Trial decisions for one refusal: some milliseconds of the 1.2 s that a request may take. Most
refusals on four nodes need about 10."""

REBUILT_LIMIT = 64
"""Containers and pools up to which a trial rebuilds the accounting, for another scope, machine or
use of nodes. Each takes 50 µs."""

_ROOM_TRIALS = 4

Admits = Callable[[Context, EngineState, CreateContainer], bool]
"""Decide a creation in a trial context; return whether the container is admitted."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A refused creation: the arguments of its decision, and what was found."""

    context: Context
    state: EngineState
    event: CreateContainer
    choice: Choice
    """The request, and the accounting in which it was refused, without unavailable hugepages."""
    unavailable: Mapping[int, Mapping[str, int]]
    """Node id -> resource -> bytes that the accounting has free and the kernel lacks."""
    rejection: Rejection
    checked: EngineState
    """The state whose nodes together hold the pod, or lack room for it."""


def find(refused: Refused, admits: Admits) -> tuple[Remedy, ...]:
    """Return what makes the container fit, the best first; () if no trial succeeded."""
    search = _Search(refused, admits)
    steps = (
        search.free_hugepages,
        search.reserve_hugepages,
        search.make_room,
        search.request_less,
        search.change_policy,
        search.change_scope,
        search.change_memory_nodes,
    )
    return tuple(remedy for step in steps for remedy in step())


class _Search:
    """The trials for one refused container."""

    def __init__(self, refused: Refused, admits: Admits) -> None:
        self._of = refused
        self._context = trial_context(refused.context)
        self._admits = admits
        self._left = TRIALS
        self._machine = refused.choice.accounting.machine_state
        choice, common = refused.choice, refused.choice.common
        missing = outstanding.missing_for_first(
            refused.checked, refused.event.pod, choice.resources, refused.context
        )
        self._is_of_all = common is not None and common.rule is Rule.NOT_ENOUGH_TOGETHER
        """Whether all nodes together lack room, though one could hold the container."""
        self._missing = missing if self._is_of_all else {}
        self._proposals = Proposals(choice, missing, is_of_all=self._is_of_all)

    def _is_admitted(
        self,
        *,
        context: Context | None = None,
        state: EngineState | None = None,
        event: CreateContainer | None = None,
    ) -> bool:
        """Return whether a trial succeeds; False if there were too many."""
        if not self._left:
            return False
        self._left -= 1
        return self._admits(
            context or self._context, state or self._of.state, event or self._of.event
        )

    # Hugepages

    def free_hugepages(self) -> Iterator[Remedy]:
        """Yield the pages to free: those of one node if that suffices, else all."""
        unavailable = {
            n: {name: size for name, size in sizes.items() if name != MEMORY}
            for n, sizes in self._of.unavailable.items()
        }
        sets = [{n: sizes} for n, sizes in unavailable.items()] if len(unavailable) > 1 else []
        for amounts in (*sets[:_ROOM_TRIALS], unavailable) if unavailable else ():
            use = self._of.event.pool_use
            if use is None:
                return
            event = replace(self._of.event, pool_use=with_pages_freed(use, amounts))
            if self._is_admitted(event=event):
                freed = outstanding.sum_of(amounts.values())
                yield Remedy(Kind.FREE_HUGEPAGES, NodeSet(amounts), freed)
                return

    def reserve_hugepages(self) -> Iterator[Remedy]:
        """Yield the pages to reserve on one node, if the host has none of a requested size."""
        lacking = {
            name: -(-size // page_bytes(name)) * page_bytes(name)
            for name, size in self._proposals.request.items()
            if name != MEMORY and not any(n.table(name).total for n in self._machine.values())
        }
        if not lacking:
            return
        free = {n: node.table(MEMORY).free for n, node in self._machine.items()}
        large = [n for n, size in free.items() if size >= sum(lacking.values())]
        for node_id in sorted(large, key=lambda n: (-free[n], n))[:_ROOM_TRIALS]:
            machine = with_hugepages(self._context.machine, node_id, lacking)
            use = self._of.event.pool_use
            event = replace(
                self._of.event,
                pool_use=None if use is None else with_new_pages(use, node_id, lacking),
            )
            if self._is_admitted_in(self._context.policy, machine, event):
                yield Remedy(Kind.RESERVE_HUGEPAGES, NodeSet([node_id]), lacking)
                return

    # Other pods

    def make_room(self) -> Iterator[Remedy]:
        """Yield the nodes on which pods must end, and how much they must release."""
        is_single = self._context.policy.topology_manager_policy == TopologyPolicy.SINGLE_NUMA_NODE
        if is_single and self._proposals.needed_nodes != 1:
            return  # no end of pods admits what needs several nodes
        for nodes in (*self._proposals.sets_to_empty(), *self._wider_sets()):
            uids = pods_on(self._of.state, nodes, but=self._of.choice.uid)
            if not uids:
                continue
            state, use = without_pods(self._of.state, self._of.event.pool_use, uids)
            event = replace(self._of.event, pool_use=use)
            if self._is_admitted(state=state, event=event):
                is_inside = nodes.issubset(NodeSet(self._machine))
                short = self._missing or self._proposals.short(nodes)
                if is_inside and short and (self._is_of_all or self._proposals.is_usable(nodes)):
                    yield Remedy(Kind.MAKE_ROOM, nodes, short)
                else:
                    yield Remedy(Kind.EMPTY_NODES, nodes)
                return

    def _wider_sets(self) -> Iterator[NodeSet]:
        """Yield the nodes of begun pods that may use those of this pod and more."""
        allowed = self._context.allowed_nodes(self._of.event.pod)
        wider = NodeSet() if allowed is None else allowed.around
        if not wider.issubset(NodeSet(self._machine)):
            yield wider

    # The request

    def request_less(self) -> Iterator[Remedy]:
        """Yield the largest smaller request that is admitted, as far as it is found."""
        for smaller in self._proposals.smaller_requests():
            if self._is_admitted(event=self._with_request(smaller)):
                yield Remedy(Kind.REQUEST_LESS, amounts=smaller)
                return

    def _with_request(self, smaller: Request) -> CreateContainer:
        choice, is_of_pod = self._of.choice, self._of.rejection.is_of_pod
        less = {name: choice.resources[name] - size for name, size in smaller.items()}
        return with_less(self._of.event, less, smaller, is_of_pod=is_of_pod)

    # The settings

    def change_policy(self) -> Iterator[Remedy]:
        """Yield the policies that admit the container."""
        policy = self._context.policy
        admitting = tuple(
            other.value
            for other in _POLICIES
            if other.value != policy.topology_manager_policy
            and self._is_admitted_in(replace(policy, topology_manager_policy=other.value))
        )
        if admitting:
            # `none` ignores CPUs and devices, and is not needed beside another one.
            usual = tuple(each for each in admitting if each != TopologyPolicy.NONE) or admitting
            yield Remedy(Kind.CHANGE_SETTING, setting="topologyManagerPolicy", values=usual)

    def change_scope(self) -> Iterator[Remedy]:
        """Yield the other scope if it admits the container."""
        policy = self._context.policy
        scope = "container" if policy.is_pod_scope else POD_SCOPE
        if (
            policy.topology_manager_policy == TopologyPolicy.NONE
            or self._of.choice.chooser is not None
        ):
            return  # it has no scopes; in pod scope no feature chooses for a container
        if self._is_admitted_in(replace(policy, topology_manager_scope=scope)):
            yield Remedy(Kind.CHANGE_SETTING, setting="topologyManagerScope", values=(scope,))

    def change_memory_nodes(self) -> Iterator[Remedy]:
        """Yield what nodes without CPUs must be used for, if the machine has any."""
        classes = self._context.classification.classes.values()
        if all(found is NodeClass.DRAM for found in classes):
            return
        policy = self._context.policy
        for use in (WithoutCpus.LAST_RESORT, WithoutCpus.USE, WithoutCpus.EXCLUDE):
            nodes = MemoryNodes(use, policy.memory_nodes.override)
            if nodes != policy.memory_nodes and self._is_admitted_in(
                replace(policy, memory_nodes=nodes)
            ):
                setting = "memoryNodes.withoutCpus"
                yield Remedy(Kind.CHANGE_SETTING, setting=setting, values=(use.value,))
                return

    def _is_admitted_in(
        self, policy: Policy, machine: Machine | None = None, event: CreateContainer | None = None
    ) -> bool:
        """Return whether the container is admitted with other settings, or on another machine."""
        try:
            changed = with_policy(self._context, policy, machine)
        except (MemoryNodesError, ReservedMemoryError):
            return False
        state = self._of.state
        is_rebuilt = (
            machine is not None
            or changed.places_pods != self._context.places_pods
            or changed.classification != self._context.classification
        )
        if is_rebuilt and len(state.holders) > REBUILT_LIMIT:
            return False
        if is_rebuilt:
            state = outstanding.computed(rebuilt(changed, state))
        return self._is_admitted(context=changed, state=state, event=event)


_POLICIES = (
    TopologyPolicy.RESTRICTED,
    TopologyPolicy.BEST_EFFORT,
    TopologyPolicy.NONE,
    TopologyPolicy.SINGLE_NUMA_NODE,
)
