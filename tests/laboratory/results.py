"""Checks a plugin's reply strictly and applies it to containers as a runtime does.

A reply that a real runtime would partly ignore, or that would make a later step fail, raises
ProtocolViolation here, so that tests find it. The functions work on messages and do no I/O.

Sources: NRI pkg/adaptation/result.go (claims), pkg/runtime-tools/generate (adjustments to a
spec), containerd's conversion of NRI updates to CRI resources.
"""

from collections import Counter
from collections.abc import Iterable

from nri_numamem.numa import NodeSet
from nri_numamem.ttrpc import Code
from tests.laboratory import api_pb2 as api


class ProtocolViolation(Exception):  # noqa: N818 - the usual term
    """A plugin's reply breaks a rule of NRI, or requests a change that runtimes ignore."""


class PluginRefused(Exception):  # noqa: N818 - an outcome
    """The plugin replied with an error, and the operation failed."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def check_updates(
    updates: Iterable[api.ContainerUpdate],
    evictions: Iterable[api.ContainerEviction] = (),
    *,
    forbidden_id: str | None = None,
) -> None:
    """Raise ProtocolViolation when the updates of one reply break a rule.

    `forbidden_id` is the id of the container in creation, which a reply must change by its
    adjustment and not by an update.
    """
    if any(True for _ in evictions):
        raise ProtocolViolation("the reply requests evictions, which every runtime ignores")
    updates = list(updates)
    counts = Counter(update.container_id for update in updates)
    for update in updates:
        container_id = update.container_id
        if not container_id:
            raise ProtocolViolation("an update names no container, so runtimes skip it")
        if container_id == forbidden_id:
            raise ProtocolViolation(f"the reply updates {container_id} during its creation")
        if counts[container_id] > 1:
            raise ProtocolViolation(f"{counts[container_id]} updates of {container_id} in a reply")
        resources = update.linux.resources
        if resources.hugepage_limits or resources.HasField("pids"):
            raise ProtocolViolation(
                f"the update of {container_id} sets hugepage limits or pids, which runtimes mangle"
            )


def check_adjustment(adjustment: api.ContainerAdjustment) -> None:
    """Raise ProtocolViolation for a contradictory adjustment or one of unsupported fields."""
    sizes = [limit.page_size for limit in adjustment.linux.resources.hugepage_limits]
    if len(sizes) != len(set(sizes)):
        raise ProtocolViolation("the adjustment sets the limit of a hugepage size twice")
    unsupported = api.ContainerAdjustment()
    unsupported.CopyFrom(adjustment)
    unsupported.ClearField("annotations")
    unsupported.ClearField("env")
    linux = unsupported.linux
    for name in ("cpu", "memory", "hugepage_limits", "unified"):
        linux.resources.ClearField(name)
    if not linux.resources.ByteSize():
        linux.ClearField("resources")
    linux.ClearField("oom_score_adj")
    linux.ClearField("memory_policy")
    if not linux.ByteSize():
        unsupported.ClearField("linux")
    if unsupported.ByteSize():
        names = ", ".join(field.name for field, _ in unsupported.ListFields())
        raise ProtocolViolation(f"the adjustment sets unsupported fields in {names}")


def check_memory_policy(container: api.Container, policy: api.LinuxMemoryPolicy) -> None:
    """Raise ProtocolViolation for a policy that the kernel refuses, which fails the creation.

    `container` has the nodes of the adjustment already. Source: the kernel's mm/mempolicy.c,
    sanitize_mpol_flags, mpol_new and mpol_set_nodemask.
    """
    name, flags = api.MpolMode.Name(policy.mode), set(policy.flags)
    nodes = NodeSet.parse(policy.nodes) if policy.nodes else NodeSet()
    if policy.mode in (api.MPOL_DEFAULT, api.MPOL_LOCAL):
        if nodes or flags:
            raise ProtocolViolation(f"{name} has nodes or flags")
        return
    if not nodes:
        raise ProtocolViolation(f"{name} has no nodes")
    mems = container.linux.resources.cpu.mems
    if mems and nodes.isdisjoint(NodeSet.parse(mems)):
        raise ProtocolViolation(f"{name} has nodes {nodes} outside of cpuset.mems {mems}")
    if flags >= {api.MPOL_F_STATIC_NODES, api.MPOL_F_RELATIVE_NODES}:
        raise ProtocolViolation(f"{name} has two flags that exclude each other")
    if api.MPOL_F_NUMA_BALANCING in flags and policy.mode != api.MPOL_BIND:
        raise ProtocolViolation(f"{name} has MPOL_F_NUMA_BALANCING, which needs MPOL_BIND")


def apply_adjustment(
    container: api.Container, adjustment: api.ContainerAdjustment, *, hugetlb: bool
) -> None:
    """Apply an adjustment to the container in creation; without `hugetlb` drop hugepage limits."""
    for key, value in adjustment.annotations.items():
        if key.startswith("-"):
            container.annotations.pop(key[1:], None)
        else:
            container.annotations[key] = value
    for variable in adjustment.env:
        name = variable.key.removeprefix("-")
        env = [entry for entry in container.env if entry.partition("=")[0] != name]
        if not variable.key.startswith("-"):
            env.append(f"{name}={variable.value}")
        container.env[:] = env
    if adjustment.linux.HasField("oom_score_adj"):
        container.linux.oom_score_adj.CopyFrom(adjustment.linux.oom_score_adj)
    wanted, resources = adjustment.linux.resources, container.linux.resources
    overlay_resources(resources, wanted)
    if hugetlb:
        new = {limit.page_size: limit.limit for limit in wanted.hugepage_limits}
        limits = {limit.page_size: limit.limit for limit in resources.hugepage_limits} | new
        resources.ClearField("hugepage_limits")
        for page_size, limit in limits.items():
            resources.hugepage_limits.add(page_size=page_size, limit=limit)


def overlay_resources(resources: api.LinuxResources, wanted: api.LinuxResources) -> None:
    """Copy memory limit, cpu and unified from `wanted`; zero and empty values change nothing."""
    if wanted.memory.limit.value:
        resources.memory.limit.value = wanted.memory.limit.value
    if wanted.cpu.shares.value:
        resources.cpu.shares.value = wanted.cpu.shares.value
    if wanted.cpu.quota.value:
        resources.cpu.quota.value = wanted.cpu.quota.value
    if wanted.cpu.period.value:
        resources.cpu.period.value = wanted.cpu.period.value
    resources.cpu.cpus = wanted.cpu.cpus or resources.cpu.cpus
    resources.cpu.mems = wanted.cpu.mems or resources.cpu.mems
    for key, value in wanted.unified.items():
        resources.unified[key] = value
