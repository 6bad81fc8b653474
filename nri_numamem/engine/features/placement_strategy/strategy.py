"""The placement strategy of a pod: that of the settings, or that of the pod's annotation.

The annotation `placement-strategy.numamem.io` counts where the setting `podPlacementStrategies`
allows it. An annotation that does not count is recorded once per sandbox, and the configured
strategy holds.
"""

from collections.abc import Mapping
from dataclasses import replace

from nri_numamem.engine.core.annotations import ANNOTATION_DOMAIN, PLACEMENT_STRATEGY
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.cpu_requests import balance_of
from nri_numamem.engine.core.decision import Decision, Transition
from nri_numamem.engine.core.events import Container, Event, PodSandbox, RunPodSandbox
from nri_numamem.engine.core.feature import Feature
from nri_numamem.engine.core.providers import OtherProviders
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.features.placement_strategy import records
from nri_numamem.engine.features.placement_strategy.records import ANNOTATION, SETTING
from nri_numamem.engine.records.containers import Admitted
from nri_numamem.engine.records.pods import PodAdmitted
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager.candidates import candidates_for
from nri_numamem.memorymanager.holder import HolderKind
from nri_numamem.numa import NodeSet, Strategy
from nri_numamem.topologymanager import Placement, Topology

_NAME = f"{PLACEMENT_STRATEGY}{ANNOTATION_DOMAIN}"


class PlacementStrategies(Feature):
    """Preferences among equally close nodes (`placementStrategy`, `podPlacementStrategies`)."""

    def is_on(self, context: Context) -> bool:
        """Return whether a pod may have another strategy than the lowest ids."""
        policy = context.policy
        return policy.placement_strategy is not Strategy.LOWEST_IDS or bool(
            policy.pod_strategies.allowed
        )

    def compares_cpu_requests(self, context: Context) -> bool:
        """Return whether the settings have a strategy that balances CPU requests, or allow it."""
        policy = context.policy
        strategies = (policy.placement_strategy, *policy.pod_strategies.allowed)
        return Strategy.BALANCED_WITH_CPUS in strategies

    def preferring(
        self,
        context: Context,
        state: EngineState,
        pod: PodSandbox,
        container: Container | None = None,
        cpu_requests: Mapping[int, int] | None = None,
    ) -> Context:
        """Return the context whose strategy is that of the pod, with CPU requests if they count."""
        strategy, _source = _chosen(context, pod)
        is_balanced = strategy is Strategy.BALANCED_WITH_CPUS
        if strategy is context.policy.placement_strategy and not is_balanced:
            return context
        balance = balance_of(context, state, container, cpu_requests) if is_balanced else None
        topology = context.topology
        preferences = replace(topology.preferences, strategy=strategy, balance=balance)
        return replace(context, topology=Topology(topology.policy, preferences))

    def complete(
        self,
        context: Context,
        state: EngineState,
        event: Event,
        decision: Decision,
    ) -> Decision:
        """Return the decision on a new pod with a record of an annotation that does not count."""
        if not isinstance(event, RunPodSandbox):
            return decision
        found = _ignored(context, event.pod)
        return decision.with_records_before(*found) if found else decision

    def explained(
        self,
        context: Context,
        pod: PodSandbox,
        placed: Placement,
        others: OtherProviders,
        done: Transition,
    ) -> Transition:
        """Return the transition whose record of the placement says what the strategy decided."""
        if not context.topology.compares_free_memory:
            return done
        if (
            isinstance(placed.name, str)
            and done.state.blocks((pod.uid, HolderKind.POD)) is not None
        ):
            return done  # on the nodes of its pod
        strategy, source = _chosen(context, pod)
        previous = done.state.nodes_before((pod.uid, placed.name))
        is_new = not placed.is_even and placed.name not in placed.before.assignments.get(
            pod.uid, ()
        )
        equal = equal_sets(context, placed, others) if is_new and placed.nodes != previous else ()
        made = tuple(
            replace(record, strategy=strategy.value, strategy_source=source, equal_nodes=equal)
            if isinstance(record, Admitted | PodAdmitted)
            else record
            for record in done.records
        )
        return replace(done, records=made)


def _chosen(context: Context, pod: PodSandbox) -> tuple[Strategy, str]:
    """Return the strategy of a pod, and ANNOTATION or SETTING."""
    text = pod.annotations.get(_NAME)
    if text is not None and not context.policy.pod_strategies.obstacle(pod.namespace, text):
        return Strategy(text), ANNOTATION
    return context.policy.placement_strategy, SETTING


def _ignored(context: Context, pod: PodSandbox) -> tuple[Record, ...]:
    """Return the record of a managed pod whose annotation does not count; else none."""
    text = pod.annotations.get(_NAME)
    if text is None or not context.manages(pod):
        return ()
    strategies = context.policy.pod_strategies
    cause = strategies.obstacle(pod.namespace, text)
    return (records.ignored(pod, text, cause, is_off=not strategies.allowed),) if cause else ()


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


FEATURE = PlacementStrategies()
