"""What a plugin's reply does to containers: checked strictly, then applied as a runtime does.

Where a real runtime would drop something silently or fail for a reason that is hard to see, this
side raises ProtocolViolation, because a test wants to know. Works on messages; who sent them and
where they are kept is not its business.

Sources: NRI pkg/adaptation/result.go (claims), pkg/runtime-tools/generate (adjustments to a
spec), containerd's conversion of NRI updates to CRI resources.
"""

from collections import Counter
from collections.abc import Iterable

from nri_numamem.nri import api_pb2 as api
from nri_numamem.ttrpc import Code


class ProtocolViolation(Exception):  # noqa: N818 - what happened, in the field's words
    """A plugin's reply breaks a rule of NRI, or asks for what runtimes silently ignore."""


class PluginRefused(Exception):  # noqa: N818 - likewise
    """The plugin answered with an error, and so the operation failed."""

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
    """Raise ProtocolViolation unless the updates of one reply are as they should be.

    `forbidden_id` is the container that is being created: its updates are adjustments.
    """
    if any(True for _ in evictions):
        raise ProtocolViolation("the reply asks for evictions, which every runtime ignores")
    updates = list(updates)
    counts = Counter(update.container_id for update in updates)
    for update in updates:
        container_id = update.container_id
        if not container_id:
            raise ProtocolViolation("an update names no container, so runtimes skip it")
        if container_id == forbidden_id:
            raise ProtocolViolation(f"asked for an update of {container_id} during its creation")
        if counts[container_id] > 1:
            raise ProtocolViolation(f"{counts[container_id]} updates of {container_id} in a reply")
        resources = update.linux.resources
        if resources.hugepage_limits or resources.HasField("pids"):
            raise ProtocolViolation(
                f"the update of {container_id} sets hugepage limits or pids, which runtimes mangle"
            )


def check_adjustment(adjustment: api.ContainerAdjustment) -> None:
    """Raise ProtocolViolation for a conflict in itself, or for fields not applied here."""
    sizes = [limit.page_size for limit in adjustment.linux.resources.hugepage_limits]
    if len(sizes) != len(set(sizes)):
        raise ProtocolViolation("the adjustment sets the limit of a hugepage size twice")
    rest = api.ContainerAdjustment()
    rest.CopyFrom(adjustment)
    rest.ClearField("annotations")
    rest.ClearField("env")
    linux = rest.linux
    for name in ("cpu", "memory", "hugepage_limits", "unified"):
        linux.resources.ClearField(name)
    if not linux.resources.ByteSize():
        linux.ClearField("resources")
    linux.ClearField("oom_score_adj")
    if not linux.ByteSize():
        rest.ClearField("linux")
    if rest.ByteSize():
        names = ", ".join(field.name for field, _ in rest.ListFields())
        raise ProtocolViolation(f"the adjustment sets fields in {names} that nobody expects")


def apply_adjustment(
    container: api.Container, adjustment: api.ContainerAdjustment, *, hugetlb: bool
) -> None:
    """Change the container that is being created; without `hugetlb` its limits are dropped."""
    for key, value in adjustment.annotations.items():
        if key.startswith("-"):
            container.annotations.pop(key[1:], None)
        else:
            container.annotations[key] = value
    for variable in adjustment.env:
        name = variable.key.removeprefix("-")
        kept = [entry for entry in container.env if entry.partition("=")[0] != name]
        if not variable.key.startswith("-"):
            kept.append(f"{name}={variable.value}")
        container.env[:] = kept
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
    """Set what `wanted` sets of memory limit, cpu and unified; zero and empty change nothing."""
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
