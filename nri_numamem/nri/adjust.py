"""From the engine's plans to the runtime's messages.

Only fields that every runtime since NRI 0.3 knows are set, and only those that the plan names: a
field that is set is claimed, and two plugins that claim one field fail the creation (NRI
pkg/adaptation/result.go).
"""

from collections.abc import Iterable

from nri_numamem.engine.plan import Adjustment, HugepageRoute, Plan, Update
from nri_numamem.memorymanager import format_page_size
from nri_numamem.nri import plugin_pb2 as api


def create_container_response(plan: Plan) -> api.CreateContainerResponse:
    """Return the reply to CreateContainer; an empty message leaves the container alone."""
    response = api.CreateContainerResponse()
    if plan.adjustment is not None:
        _adjust(response.adjust.linux.resources, plan.adjustment)
    if plan.updates:
        response.update.extend(_updates(plan.updates))
    return response


def update_container_response(plan: Plan) -> api.UpdateContainerResponse:
    """Return the reply to UpdateContainer."""
    return api.UpdateContainerResponse(update=_updates(plan.updates))


def stop_container_response(plan: Plan) -> api.StopContainerResponse:
    """Return the reply to StopContainer."""
    return api.StopContainerResponse(update=_updates(plan.updates))


def synchronize_response(plan: Plan) -> api.SynchronizeResponse:
    """Return the reply to the last part of Synchronize."""
    return api.SynchronizeResponse(update=_updates(plan.updates))


def _adjust(resources: api.LinuxResources, adjustment: Adjustment) -> None:
    if adjustment.cpuset_mems:
        resources.cpu.mems = adjustment.cpuset_mems
    for size_bytes, limit_bytes in adjustment.hugepage_limits.items():
        size = format_page_size(size_bytes)
        if adjustment.hugepage_route is HugepageRoute.LIMITS:
            resources.hugepage_limits.add(page_size=size, limit=limit_bytes)
        else:
            resources.unified[f"hugetlb.{size}.max"] = str(limit_bytes)
            resources.unified[f"hugetlb.{size}.rsvd.max"] = str(limit_bytes)


def _updates(updates: Iterable[Update]) -> list[api.ContainerUpdate]:
    # ignore_failure: CRI-O would fail the surrounding call for a container that has just ended.
    return [
        api.ContainerUpdate(
            container_id=update.container_id,
            linux=api.LinuxContainerUpdate(
                resources=api.LinuxResources(cpu=api.LinuxCPU(mems=update.cpuset_mems))
            ),
            ignore_failure=True,
        )
        for update in updates
    ]
