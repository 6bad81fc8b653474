"""Even groups: the annotation `interleave:N` requests N NUMA nodes with equal parts of the memory.

``memory_policy`` sets the policy, and ``placement`` chooses N nodes that each have room for an
equal part, even if the container fits one. The annotation counts only if the policy can be set:
without the policy the container would not use its nodes evenly.

Nothing of it is stored. At a Synchronize a container whose pod has the annotation, and that runs on
N nodes, is charged in equal parts again.
"""

from dataclasses import replace

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import MEMORY_POLICY, CreateContainer, PodSandbox
from nri_numamem.engine.core.request import Request, request_of
from nri_numamem.engine.core.text import cut_name
from nri_numamem.engine.features.memory_policies.support import unsupported
from nri_numamem.numa import NodeSet, mode_and_count

SHARED = "the container shares its pod's memory limit, so its part of it is unknown"


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
    return replace(request, even_nodes=count)


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
