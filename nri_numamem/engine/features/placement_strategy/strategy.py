"""The placement strategy of a pod: that of the settings, or that of the pod's annotation.

The annotation `placement-strategy.numamem.io` counts where the setting `podPlacementStrategies`
allows it. An annotation that does not count is recorded once per sandbox, and the configured
strategy holds. Where CPUs follow memory, room for CPU requests precedes the strategy.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.cpu_requests import MILLICORES, cpu_requests, requested_millicores
from nri_numamem.engine.core.decision import Transition
from nri_numamem.engine.core.events import (
    ANNOTATION_DOMAIN,
    PLACEMENT_STRATEGY,
    Container,
    PodSandbox,
)
from nri_numamem.engine.core.providers import NO_OTHER_PROVIDERS, OtherProviders
from nri_numamem.engine.core.shared_cpus import unusable_cpus
from nri_numamem.engine.core.state import POOL, EngineState
from nri_numamem.engine.features.placement_strategy import records
from nri_numamem.engine.features.placement_strategy.records import ANNOTATION, SETTING
from nri_numamem.engine.records.containers import Admitted
from nri_numamem.engine.records.pods import PodAdmitted
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager.candidates import candidates_for
from nri_numamem.numa import NodeSet, Strategy
from nri_numamem.topologymanager import Placement, Topology

_NAME = f"{PLACEMENT_STRATEGY}{ANNOTATION_DOMAIN}"


def context_for(
    context: Context,
    state: EngineState,
    pod: PodSandbox,
    container: Container | None = None,
    requests: Mapping[int, int] | None = None,
) -> Context:
    """Return the context whose strategy is that of the pod, with the CPU requests if they count.

    Without a container, as in pod scope, the CPU request of the pod is unknown and counts as 0.
    `requests` are the sums by node, in millicores, if `state` is only a part of the state.
    """
    strategy, _source = _chosen(context, pod)
    needs_cpus = strategy is Strategy.BALANCED_WITH_CPUS or context.follows_cpus
    if strategy is context.policy.placement_strategy and not needs_cpus:
        return context
    balance = None
    if needs_cpus:
        from nri_numamem.numa.balance import Balance  # noqa: PLC0415 - only for the settings

        added = 0 if container is None else requested_millicores(container)
        sums = cpu_requests(state, context.machine) if requests is None else requests
        balance = Balance(usable_millicores(context), sums, added)
    topology = context.topology
    preferences = replace(
        topology.preferences,
        strategy=strategy,
        balance=balance,
        prefers_cpu_room=context.follows_cpus,
    )
    return replace(context, topology=Topology(topology.policy, preferences))


def usable_millicores(context: Context) -> dict[int, int]:
    """Return node -> the CPUs that containers may share, in millicores."""
    unusable = unusable_cpus(context.policy, context.host_cpus)
    return {node.node_id: MILLICORES * len(node.cpus - unusable) for node in context.machine.nodes}


def may_count_cpus(context: Context) -> bool:
    """Return whether CPU requests may decide, by the settings or by an annotation they allow."""
    return context.counts_cpus or (
        Strategy.BALANCED_WITH_CPUS in context.policy.pod_strategies.allowed
    )


def _chosen(context: Context, pod: PodSandbox) -> tuple[Strategy, str]:
    """Return the strategy of a pod, and ANNOTATION or SETTING."""
    text = pod.annotations.get(_NAME)
    if text is not None and not context.policy.pod_strategies.obstacle(pod.namespace, text):
        return Strategy(text), ANNOTATION
    return context.policy.placement_strategy, SETTING


def ignored(context: Context, pod: PodSandbox) -> tuple[Record, ...]:
    """Return the record of a managed pod whose annotation does not count; else none."""
    text = pod.annotations.get(_NAME)
    if text is None or not context.manages(pod):
        return ()
    strategies = context.policy.pod_strategies
    cause = strategies.obstacle(pod.namespace, text)
    return (records.ignored(pod, text, cause, is_off=not strategies.allowed),) if cause else ()


def explained(
    context: Context,
    pod: PodSandbox,
    placed: Placement,
    compute_transition: Callable[[], Transition],
    others: OtherProviders = NO_OTHER_PROVIDERS,
) -> Transition:
    """Return the transition whose record of the placement says what the strategy decided.

    `context` is that of the placement.
    """
    done = compute_transition()
    if placed.name != POOL and done.state.blocks((pod.uid, POOL)) is not None:
        return done  # on the nodes of its pod
    strategy, source = _chosen(context, pod)
    previous = done.state.nodes_before((pod.uid, placed.name))
    is_new = not placed.is_even and placed.name not in placed.before.assignments.get(pod.uid, ())
    equal = equal_sets(context, placed, others) if is_new and placed.nodes != previous else ()
    made = tuple(
        replace(record, strategy=strategy.value, strategy_source=source, equal_nodes=equal)
        if isinstance(record, Admitted | PodAdmitted)
        else record
        for record in done.records
    )
    return replace(done, records=made)


def equal_sets(context: Context, placed: Placement, others: OtherProviders) -> tuple[NodeSet, ...]:
    """Return the sets among which the strategy decided, the chosen one included; else none.

    They are the single nodes and groups that hold the request, and are as close, as aligned and as
    preferred as the choice. There are none if room for the pod's rest decided.
    """
    pod, nodes = placed.pod, placed.nodes
    request = pod.container(placed.name).requests
    preferences = context.topology.with_memory_of(placed.before, request).preferences
    found = candidates_for(placed.before, pod.uid, request, preferences.previous_nodes)
    closeness, is_remote = preferences.closeness(nodes), others.is_disjoint_from(nodes)
    equal = tuple(
        each
        for each in found.listed
        if preferences.closeness(each) == closeness and others.is_disjoint_from(each) is is_remote
    )
    is_first = nodes == min(equal, key=preferences.rank, default=None)
    return equal if is_first and len(equal) > 1 else ()
