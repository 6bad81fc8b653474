"""The feature that CPUs follow memory: where its hooks lead.

Besides ``cpuset_cpus``, room for CPU requests precedes the placement strategy.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.cpu_requests import balance_of
from nri_numamem.engine.core.decision import Decision
from nri_numamem.engine.core.events import (
    Container,
    CreateContainer,
    Event,
    HostCpus,
    PodSandbox,
)
from nri_numamem.engine.core.feature import Feature
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.features.cpu_following.cpuset_cpus import add_cpus
from nri_numamem.engine.features.cpu_following.shared_cpus import (
    has_cpus_of_nodes,
    has_static_manager,
    may_follow,
)
from nri_numamem.engine.records.cpus import CpusFollowMemory, CpusLeftToKubelet
from nri_numamem.engine.records.record import Record


class CpusBesideMemory(Feature):
    """Pinned containers get the CPUs of their nodes (`cpuFollowsMemory`)."""

    def is_on(self, context: Context) -> bool:
        """Return whether the plugin sets CPUs; the kubelet's static CPU manager precedes it."""
        policy = context.policy
        return may_follow(policy) and not has_static_manager(policy, context.host_cpus)

    def warnings(self, context: Context) -> Iterable[Record]:
        """Return the warning that the kubelet sets the CPUs."""
        return () if self.is_on(context) else (CpusLeftToKubelet(),)

    def without_own(self, context: Context, container: Container) -> Container:
        """Return a container without CPUs that follow its memory."""
        is_own = has_cpus_of_nodes(context, container)
        return replace(container, cpuset_cpus="") if is_own else container

    def compares_cpu_requests(self, context: Context) -> bool:
        """Return True: nodes with room for CPU requests win."""
        return True

    def preferring(
        self,
        context: Context,
        state: EngineState,
        pod: PodSandbox,
        container: Container | None = None,
        cpu_requests: Mapping[int, int] | None = None,
    ) -> Context:
        """Return the context in which nodes with room for CPU requests win."""
        balance = balance_of(context, state, container, cpu_requests)
        preferences = context.topology.preferences
        preferences = replace(preferences, balance=balance, prefers_cpu_room=True)
        return replace(context, topology=replace(context.topology, preferences=preferences))

    def complete(
        self,
        context: Context,
        state: EngineState,
        event: Event,
        decision: Decision,
    ) -> Decision:
        """Return the decision on new facts about the host's CPUs with a record of what changes."""
        if not isinstance(event, HostCpus):
            return decision
        after = decision.compute_transition().context
        if after is None or self.is_on(after) is self.is_on(context):
            return decision
        left = self.is_on(context)
        return decision.with_records(CpusLeftToKubelet() if left else CpusFollowMemory())

    def add_updates(
        self, context: Context, state: EngineState, event: Event, decision: Decision
    ) -> Decision:
        """Return the decision with CPUs in its plan, for containers that follow their memory."""
        # A claim can have CPUs of its own.
        has_claims = isinstance(event, CreateContainer) and event.container.claims
        if has_claims or not self.is_on(context):
            return decision
        return add_cpus(context, state, event, decision)


FEATURE = CpusBesideMemory()
