"""Even groups: the annotation `interleave:N` requests N NUMA nodes with equal parts of the memory.

``memory_policy`` sets the policy, and ``placement`` chooses N nodes that each have room for an
equal part, even if the container fits one. The annotation counts only if the policy can be set:
without the policy the container would not use its nodes evenly.

Even groups are not stored. At a Synchronize, a container that runs on N nodes and whose pod has the
annotation is charged in equal parts again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nri_numamem.engine.core.annotations import MEMORY_POLICY
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import CreateContainer, PodSandbox
from nri_numamem.engine.core.facts import PolicyRequest
from nri_numamem.engine.core.request import Request, request_of
from nri_numamem.engine.core.text import cut_name
from nri_numamem.memorymanager import Pod, Rejection, State
from nri_numamem.memorymanager import Request as Resources
from nri_numamem.memorymanager.candidates import candidates_for
from nri_numamem.memorymanager.even_groups import fits_evenly
from nri_numamem.memorymanager.holder import HolderName
from nri_numamem.memorymanager.node_reasons import (
    Reason,
    Rule,
    even_reason_of,
    reason_for,
    reason_of,
)
from nri_numamem.numa import NodeSet, PolicyMode, mode_and_count
from nri_numamem.topologymanager import Placement, ProviderHints, Topology, admit_evenly

SHARED = "the container shares its pod's memory limit, so its part of it is unknown"


@dataclass(frozen=True, slots=True)
class EvenGroup:
    """Chooses nodes that each hold an equal part of the request."""

    node_count: int
    """Two or more."""

    def place(
        self,
        accounting: State,
        pod: Pod,
        name: HolderName,
        topology: Topology,
        providers: Sequence[ProviderHints],
    ) -> Placement | Rejection:
        """Choose the group that ranks first."""
        return admit_evenly(accounting, pod, name, self.node_count, topology, providers)

    def fits(self, accounting: State, uid: str, resources: Resources, nodes: NodeSet) -> bool:
        """Return whether the set is a group of this size with room for all parts."""
        return len(nodes) == self.node_count and fits_evenly(accounting, uid, resources, nodes)

    def reason(self, accounting: State, uid: str, resources: Resources, nodes: NodeSet) -> Reason:
        """Return why a node is in no group, or a set is none."""
        if len(nodes) == 1:
            return even_reason_of(accounting, resources, self.node_count, next(iter(nodes)))
        if len(nodes) != self.node_count:
            return reason_for(Rule.OTHER_COUNT)
        found = candidates_for(accounting, uid, resources, NodeSet())
        reason = reason_of(accounting, uid, resources, found, nodes)
        return reason or reason_for(Rule.NOT_ENOUGH_FREE)  # on one of its nodes

    def short_bytes(self, size_bytes: int, amounts: Sequence[int]) -> int:
        """Return the sum of what each node lacks for its part."""
        part = -(-size_bytes // self.node_count)
        return sum(max(0, part - amount) for amount in amounts)

    def most_bytes(self, amounts: Sequence[int]) -> int:
        """Return the size whose parts fit the nodes with most free bytes; 0 for too few nodes."""
        most = sorted(amounts, reverse=True)[: self.node_count]
        return self.node_count * min(most) if len(most) == self.node_count else 0


def with_count(context: Context, event: CreateContainer, request: Request) -> Request:
    """Return the request with the number of nodes that an annotation requests, if it counts."""
    policy_request = event.policy_request
    if policy_request is None or request.is_shared:
        return request
    policies, text = context.policy.memory_policies, policy_request.annotation
    if not policies.max_nodes or policies.obstacle(event.pod.namespace, text):
        return request
    mode, count = mode_and_count(text)
    if not count or unsupported(policy_request, mode) or obstacle(context, event, count):
        return request
    return replace(request, chooser=EvenGroup(count))


def unsupported(request: PolicyRequest, mode: PolicyMode) -> str:
    """Return why runtime or kernel cannot set the mode; "" if they can."""
    support = request.support
    is_missing = mode in support.missing_modes
    return support.obstacle or (f"the kernel lacks the mode {mode}" if is_missing else "")


def obstacle(context: Context, event: CreateContainer, count: int) -> str:
    """Return why the plugin does not place the container on `count` nodes, as requested.

    "" if no cause is known before the placement; also for a container that shares its pod's limit.
    """
    pod, container = event.pod, event.container
    why = context.unmanaged_reason(pod, container)
    if why is not None:
        return f"the plugin chooses no NUMA nodes for the container: {why}"
    if container.cpuset_mems:
        mems = cut_name(container.cpuset_mems)
        return f"its cpuset.mems is {mems} already, set by the kubelet or by another plugin"
    if context.places_pods:
        return "with topologyManagerScope pod all containers of a pod are on the same NUMA nodes"
    if not container.memory_limit_bytes:
        return "the container has no memory limit of its own"
    is_sum = container.hugepage_limits is None and not container.hugepages_unified
    if is_sum and any(pod.hugepage_limits.values()):
        return "the runtime shows only the sum of the hugepages of its pod"
    request = request_of(pod, container, {})
    size_bytes = 0 if request is None else sum(request.resources.values())
    return context.policy.memory_policies.obstacle_of_size(size_bytes, count)


def is_even(context: Context, pod: PodSandbox, name: str, nodes: NodeSet) -> bool:
    """Return whether a container that runs on `nodes` is charged in equal parts."""
    policies = context.policy.memory_policies
    if not policies.max_nodes or not pod.annotations:
        return False
    text = pod.annotation(MEMORY_POLICY, name)
    if not text or policies.obstacle(pod.namespace, text):
        return False
    _mode, count = mode_and_count(text)
    return count > 0 and len(nodes) == count
