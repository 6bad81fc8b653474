"""Features: what the engine does beyond the kubelet, each as one object with hooks.

``engine.setup`` makes them from the policy. The context holds them, and the engine runs each hook
over them in their order. A hook that a feature does not define changes nothing. Hooks are pure, as
all of the engine: values in, values out. A hook of a placement also runs when a remedy is tried.

A feature whose setting is off has two tasks left: to record annotations that have no effect, and to
release what it gave containers while its setting was on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nri_numamem.engine.core.events import (
    Container,
    CreateContainer,
    Event,
    PodSandbox,
    Synchronize,
)
from nri_numamem.engine.core.providers import OtherProviders
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager import QosClass
from nri_numamem.numa import NodeSet
from nri_numamem.topologymanager import Placement

if TYPE_CHECKING:  # a context has features
    from nri_numamem.engine.core.context import Context
    from nri_numamem.engine.core.decision import Decision, Transition
    from nri_numamem.engine.core.request import Request


@dataclass(frozen=True, slots=True)
class AllowedNodes:
    """The nodes on which a pod may be placed.

    Of two pods' sets of nodes one contains the other, or they have no common node.
    """

    name: str
    """The name of the pod's partition."""
    nodes: NodeSet
    cause: str
    """Why there are no others, as in "partition web has nodes 2-3"."""
    around: NodeSet
    """The nodes of the pods that may use these and more; the same nodes if there are none."""


class Feature:
    """The hooks, which change nothing here."""

    qos_classes: frozenset[QosClass] = frozenset()
    """Classes of pods, besides Guaranteed, whose containers may be managed."""
    limits_nodes: bool = False
    """Whether a pod may have allowed nodes."""

    # What the context returns.

    def is_on(self, context: Context) -> bool:
        """Return whether the setting has an effect, by policy and host of a new context."""
        return True

    def warnings(self, context: Context) -> Iterable[Record]:
        """Return the warnings of a start about settings; also called where they are off."""
        return ()

    def unmanaged_reason(
        self, context: Context, pod: PodSandbox, container: Container | None
    ) -> str | None:
        """Return why a container of a pod of `qos_classes` is not managed; None if it is.

        "" if the class is the reason. `container` is None for the pod as a whole.
        """
        return ""

    def allowed_nodes(self, context: Context, pod: PodSandbox) -> AllowedNodes | None:
        """Return the nodes on which a pod may be placed, if `limits_nodes`; None for all nodes."""
        return None

    def unpinned_nodes(self, context: Context, pod: PodSandbox) -> NodeSet:
        """Return the nodes for the pod's containers that are not pinned; empty for all nodes."""
        return NodeSet()

    def without_own(self, context: Context, container: Container) -> Container:
        """Return a container without what the feature gave it, which is no hint for its memory."""
        return container

    def compares_cpu_requests(self, context: Context) -> bool:
        """Return whether CPU requests may decide between nodes, for this or for any pod."""
        return False

    def charges_evenly(self, context: Context, pod: PodSandbox, name: str, nodes: NodeSet) -> bool:
        """Return whether a container that runs on `nodes` is charged in equal parts."""
        return False

    # Hooks of a placement, in this order.

    def preferring(
        self,
        context: Context,
        state: EngineState,
        pod: PodSandbox,
        container: Container | None = None,
        cpu_requests: Mapping[int, int] | None = None,
    ) -> Context:
        """Return the context whose preferences among equally close nodes are those of the pod.

        `container` is None for the pod as a whole. `cpu_requests` are the sums by node, in
        millicores, if `state` is only a part of the state.
        """
        return context

    def request(self, context: Context, event: CreateContainer, request: Request) -> Request:
        """Return the request of a new container, perhaps with more conditions."""
        return request

    def explained(
        self,
        context: Context,
        pod: PodSandbox,
        placed: Placement,
        others: OtherProviders,
        done: Transition,
    ) -> Transition:
        """Return the transition of a placement with more in its record; it runs after the reply.

        `context` is that of the placement, `others` are the hints of the other providers.
        """
        return done

    # Hooks around the handler of an event, in this order. An event of a new pod
    # or container without annotations only reaches features that are on.

    def requested(self, state: EngineState, event: Event) -> Event:
        """Return an event with the facts that the feature lets count; of the same type."""
        return event

    def decided(
        self, context: Context, state: EngineState, event: CreateContainer
    ) -> Decision | None:
        """Return the decision on a new container with claims; None if the feature has none."""
        return None

    def complete(
        self, context: Context, state: EngineState, event: Event, decision: Decision
    ) -> Decision:
        """Return the decision with more in its plan and records, or another one instead.

        `context` and `state` are those before the event.
        """
        return decision

    def add_updates(
        self, context: Context, state: EngineState, event: Event, decision: Decision
    ) -> Decision:
        """Return the complete decision, whose plan has all updates of `cpuset.mems`, with more."""
        return decision

    # Hooks of a Synchronize.

    def began(self, state: EngineState, old: EngineState, event: Synchronize) -> EngineState:
        """Return `state`, which has no assignments yet, with those that precede all containers.

        `old` is the state before the Synchronize.
        """
        return state

    def keeps_nodes(
        self,
        context: Context,
        old: EngineState,
        pod: PodSandbox,
        container: Container,
        nodes: NodeSet,
    ) -> bool:
        """Return whether a running container is recorded on its nodes though it is not managed.

        `old` is the state before the Synchronize.
        """
        return False
