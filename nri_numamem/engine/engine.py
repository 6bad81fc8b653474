"""The engine: every change of the plugin's state passes through it.

``decide`` returns the plan for the reply and changes nothing visible. ``commit`` computes the next
state and the records, replaces context and state in one assignment, and returns the records. The
caller sends the reply between the two. An event whose ``commit`` raises an exception has not
happened.
"""

from dataclasses import dataclass

from nri_numamem.engine.admission import container_update, containers, pods
from nri_numamem.engine.core import events, reasons, shortfalls
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.decision import Decision, Handler, without_reply
from nri_numamem.engine.core.feature import Feature
from nri_numamem.engine.core.plan import Plan
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.cpusets import check as cpuset_check
from nri_numamem.engine.cpusets import pending as pending_updates
from nri_numamem.engine.pods import machine_change, outstanding
from nri_numamem.engine.records.connection import Created
from nri_numamem.engine.records.record import Record
from nri_numamem.engine.running import discovered, synchronize
from nri_numamem.memorymanager import Rejection

_HANDLERS: dict[type, Handler] = {
    events.Synchronize: synchronize.synchronize,
    events.ContainersFound: without_reply(discovered.containers_found),
    events.CpusetsRead: without_reply(cpuset_check.cpusets_read),
    events.RunPodSandbox: without_reply(pods.run_pod_sandbox),
    events.UpdatePodSandbox: without_reply(pods.update_pod_sandbox),
    events.StopPodSandbox: without_reply(pods.end_pod_sandbox),
    events.RemovePodSandbox: without_reply(pods.end_pod_sandbox),
    events.PodCgroupGone: without_reply(pods.end_pod_sandbox),
    events.CreateContainer: containers.create_container,
    events.MachineChanged: without_reply(machine_change.rebaseline),
    events.HostCpus: without_reply(machine_change.host_cpus_read),
    events.UpdateContainer: container_update.update_container,
    events.StopContainer: without_reply(containers.end_container),
    events.RemoveContainer: without_reply(containers.end_container),
}

_NEW = (events.CreateContainer, events.RunPodSandbox)
"""Events that reach only features that are on, if the pod has no annotations."""


@dataclass(frozen=True, slots=True)
class Applied:
    """A committed event."""

    plan: Plan
    records: tuple[Record, ...]
    rejection: Rejection | None = None
    """Why a container got no nodes; with RunUnpinned it runs unpinned."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What the committed events led to: two values that belong together."""

    context: Context
    state: EngineState


class Engine:
    """State and decisions of one host.

    Only one thread may call its methods. Any thread may read `committed`, `context` and `state`.
    """

    def __init__(self, context: Context, restored: EngineState | None = None) -> None:
        """Begin with empty accounting; the first Synchronize confirms or drops `restored`."""
        previous_nodes = {} if restored is None else restored.previous_nodes
        state = EngineState(
            context.empty_accounting(), previous_nodes=previous_nodes, restored=restored
        )
        self._committed = Committed(context, state)
        self._decision: Decision | None = None
        self._event: events.Event | None = None
        """The event of the decision."""

    @classmethod
    def with_state(cls, context: Context, state: EngineState) -> "Engine":
        """Return an engine that has committed `state`, with its outstanding amounts.

        Shortfalls are charged where there is room.
        """
        engine = cls(context)
        engine._committed = Committed(context, outstanding.computed(shortfalls.charged(state)))
        return engine

    @property
    def committed(self) -> Committed:
        """Context and state of one moment, for a thread that needs both."""
        return self._committed

    @property
    def context(self) -> Context:
        """Machine and policy of the committed state."""
        return self._committed.context

    @property
    def state(self) -> EngineState:
        """The committed state: a value that never changes."""
        return self._committed.state

    def decide(self, event: events.Event) -> Plan:
        """Return the plan for the reply to `event`; `commit` or `discard` must follow.

        Raises RuntimeError while an earlier decision is neither committed nor discarded.
        """
        if self._decision is not None:
            raise RuntimeError("the decision before this one is not committed")
        context, state = self._committed.context, self._committed.state
        features = context.all_features
        if isinstance(event, _NEW) and not event.pod.annotations:
            features = context.features
        for feature in features:
            event = feature.requested(state, event)
        decision = None
        if isinstance(event, events.CreateContainer) and event.container.claims:
            decision = _decided(context, state, event, features)
        elif isinstance(event, events.FeatureEvent):
            decision = event.decide(context, state)
        if decision is None:
            decision = _HANDLERS[type(event)](context, state, event)
        for feature in features:
            decision = feature.complete(context, state, event, decision)
        is_waiting = state.pending or state.cpusets.repairs
        if is_waiting and not isinstance(event, events.MachineChanged):
            decision = pending_updates.add_pending_updates(decision, event)
        for feature in features:
            decision = feature.add_updates(context, state, event, decision)
        self._decision, self._event = decision, event
        return decision.plan

    @property
    def uncommitted(self) -> tuple[events.Event, Plan] | None:
        """The event that is decided and not committed, and its plan; None without one."""
        if self._event is None or self._decision is None:
            return None
        return self._event, self._decision.plan

    @property
    def rejection(self) -> Rejection | None:
        """Why the uncommitted decision gives a container no nodes, if it does."""
        return None if self._decision is None else self._decision.rejection

    def commit(self, wall_s: int = 0) -> tuple[Record, ...]:
        """Make the decision the committed state; return its records, none without a decision.

        `wall_s` is the Unix time, for the reasons in the state; 0 if unknown. If it raises an
        exception, the state is unchanged and the decision is discarded.
        """
        before, decision, self._decision = self._committed, self._decision, None
        event, self._event = self._event, None
        if decision is None or event is None:
            return ()
        transition = decision.compute_transition()
        after = shortfalls.after(before.state, transition.state, event)
        after = outstanding.after(after, event)
        after = reasons.after(before.state, after, event, transition.reasons, wall_s)
        self._committed = Committed(transition.context or before.context, after)
        return transition.records

    def note_failed(self, name: str, created: Created, wall_s: int = 0) -> None:
        """Keep as a reason that a creation got an empty reply; `name` is that of the record."""
        before = self._committed
        after = reasons.with_failed(before.state, name, created, wall_s)
        self._committed = Committed(before.context, after)

    def discard(self) -> None:
        """Drop the uncommitted decision, if there is one: its event has not happened."""
        self._decision = self._event = None

    def apply(self, event: events.Event, wall_s: int = 0) -> Applied:
        """Decide and commit an event whose reply nothing waits for; `wall_s` as in `commit`."""
        plan, rejection = self.decide(event), self.rejection
        return Applied(plan, self.commit(wall_s), rejection)


def _decided(
    context: Context,
    state: EngineState,
    event: events.CreateContainer,
    features: tuple[Feature, ...],
) -> Decision | None:
    """Return the decision of the feature that has a container; None if none has it."""
    found = (feature.decided(context, state, event) for feature in features)
    return next(filter(None, found), None)
