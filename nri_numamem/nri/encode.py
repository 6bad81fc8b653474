"""Encodes the engine's plans as replies to the runtime.

A reply sets only the fields that the plan contains: a plugin claims each field that it sets, and
the creation fails when two plugins claim one field (NRI pkg/adaptation/result.go). All are fields
of NRI 0.3, except `oom_score_adj` (since 0.7) and memory policies (since 0.12).
"""

from nri_numamem.engine.core.plan import Adjustment, HugepageRoute, Plan
from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.numa import MemoryPolicy, PolicyMode, format_page_size

_MODES = {
    PolicyMode.INTERLEAVE: api.MPOL_INTERLEAVE,
    PolicyMode.WEIGHTED_INTERLEAVE: api.MPOL_WEIGHTED_INTERLEAVE,
    PolicyMode.BIND: api.MPOL_BIND,
    PolicyMode.PREFERRED: api.MPOL_PREFERRED,
    PolicyMode.PREFERRED_MANY: api.MPOL_PREFERRED_MANY,
    PolicyMode.LOCAL: api.MPOL_LOCAL,
}


def create_container_response(plan: Plan) -> api.CreateContainerResponse:
    """Return the reply to CreateContainer; an empty message changes nothing."""
    response = api.CreateContainerResponse()
    if plan.adjustment is not None:
        resources = response.adjust.linux.resources
        if plan.adjustment.cpuset_mems:
            resources.cpu.mems = plan.adjustment.cpuset_mems
        if plan.adjustment.cpuset_cpus:
            resources.cpu.cpus = plan.adjustment.cpuset_cpus
        if plan.adjustment.memory_limit_bytes is not None:
            resources.memory.limit.value = plan.adjustment.memory_limit_bytes
        if plan.adjustment.hugepage_limits:
            _limit_hugepages(resources, plan.adjustment)
        if plan.adjustment.memory_policy is not None:
            policy = _memory_policy(plan.adjustment.memory_policy)
            response.adjust.linux.memory_policy.CopyFrom(policy)
        if plan.adjustment.oom_score_adj is not None:
            response.adjust.linux.oom_score_adj.value = plan.adjustment.oom_score_adj
    if plan.updates:
        response.update.extend(updates_of(plan))
    return response


def updates_of(plan: Plan) -> list[api.ContainerUpdate]:
    """Return the updates of other containers."""
    # ignore_failure: without it CRI-O fails the whole call when a container has just ended.
    return [
        api.ContainerUpdate(
            container_id=update.container_id,
            linux=api.LinuxContainerUpdate(
                resources=api.LinuxResources(
                    cpu=api.LinuxCPU(cpus=update.cpuset_cpus, mems=update.cpuset_mems)
                )
            ),
            ignore_failure=True,
        )
        for update in plan.updates
    ]


def _memory_policy(policy: MemoryPolicy) -> api.LinuxMemoryPolicy:
    # The kernel accepts the flag only with nodes.
    flags = [api.MPOL_F_STATIC_NODES] if policy.nodes else []
    return api.LinuxMemoryPolicy(mode=_MODES[policy.mode], nodes=str(policy.nodes), flags=flags)


def _limit_hugepages(resources: api.LinuxResources, adjustment: Adjustment) -> None:
    for size_bytes, limit_bytes in adjustment.hugepage_limits.items():
        size = format_page_size(size_bytes)
        if adjustment.hugepage_route is HugepageRoute.LIMITS:
            resources.hugepage_limits.add(page_size=size, limit=limit_bytes)
        else:
            resources.unified[f"hugetlb.{size}.max"] = str(limit_bytes)
            resources.unified[f"hugetlb.{size}.rsvd.max"] = str(limit_bytes)
