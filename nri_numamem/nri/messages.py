"""Reads pods and containers in the runtime's messages, with the units of the engine.

Zero and absent amounts become None, page sizes become bytes. The users of a cluster choose some of
these values, so the work for them is bounded: more entries than a kernel has page sizes are
ignored, and amounts are clamped to signed 64 bits, with which the engine and the state file count.

Sources: the field tables of NRI's api.proto; containerd pkg/cri/nri and CRI-O internal/nri for
what the runtimes fill in.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from nri_numamem.engine.core import events
from nri_numamem.engine.core.context import qos_of_cgroup_parent
from nri_numamem.engine.records.common import ContainerNames
from nri_numamem.engine.records.connection import Created
from nri_numamem.memorymanager.burstable import BurstableFacts
from nri_numamem.memorymanager.claims import ClaimUse, parse_amounts
from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.nri.host_facts import Device, PodCgroup
from nri_numamem.numa import NodeSet, format_page_size, parse_page_size
from nri_numamem.numa.quantity import MAX_BYTES

# Far more than the page sizes of a kernel.
_ENTRIES_LIMIT = 64

# Files of the hugetlb controller of cgroup v2, as in the keys of `unified`, for every page size
# that a kernel may have. Keys such as "hugetlb.2MB.rsvd.max" limit reservations only.
_UNIFIED_KEYS = {f"hugetlb.{format_page_size(1 << bits)}.max": 1 << bits for bits in range(12, 41)}

# The kernel accepts white space around a number; 2^64 has 20 digits.
_LIMIT = re.compile(r"\s{0,8}(\d{1,20})\s{0,8}", re.ASCII)

# The kubelet writes one of them, depending on the QoS class and its version.
_KEYS = ("memory.low", "memory.min")

# 2^64 has 20 digits. Another value is "max", or a text that the kernel refuses.
_AMOUNT = re.compile(r"\d{1,20}", re.ASCII)

# The kernel's IFNAMSIZ without the closing NUL.
_NAME_CHARACTERS = 15
# More interfaces than a container gets.
_INTERFACES_LIMIT = 32
# PATH_MAX of Linux.
_PATH_CHARACTERS = 4096

# More devices than a container uses; reading the nodes of one takes some 50 µs.
_DEVICES_LIMIT = 64


def pod_of(
    pod: api.PodSandbox,
    limits: PodCgroup,
    annotations: Mapping[str, str],
    labels: Mapping[str, str],
    resized_bytes: int | None = None,
) -> events.PodSandbox:
    """Return a pod; its memory limit is the larger of the runtime's figure and the cgroup's.

    `resized_bytes` replaces the runtime's figure, which is that of the sandbox's creation.
    """
    linux = pod.linux
    memory_bytes = resized_bytes or memory_limit(linux.pod_resources)
    if limits.memory > (memory_bytes or 0):
        memory_bytes = limits.memory
    return events.PodSandbox(
        sandbox_id=pod.id,
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        cgroup_parent=linux.cgroup_parent,
        memory_limit_bytes=memory_bytes,
        hugepage_limits=limits.hugepages,
        annotations=annotations,
        labels=labels,
    )


def container_of(
    container: api.Container, device_nodes: tuple[NodeSet, ...] = ()
) -> events.Container:
    """Return a container with the NUMA nodes of its devices."""
    resources = container.linux.resources
    cpu = resources.cpu
    return events.Container(
        container_id=container.id,
        sandbox_id=container.pod_sandbox_id,
        name=container.name,
        memory_limit_bytes=memory_limit(resources),
        hugepage_limits=hugepage_limits(resources.hugepage_limits),
        hugepages_unified=unified_hugepages(resources.unified),
        cpuset_mems=cpu.mems,
        cpuset_cpus=cpu.cpus,
        cpu_shares=cpu.shares.value or None,
        device_nodes=device_nodes,
        ended=container.state == api.CONTAINER_STOPPED,
        has_devices=bool(container.linux.devices),
        cpu_limit_millicores=cpu_limit_millicores(cpu),
    )


def created(request: api.CreateContainerRequest) -> Created:
    """Return the fields that name a container, which runs unpinned after an empty reply."""
    pod, container = request.pod, request.container
    return Created(
        names=ContainerNames(
            pod=pod.name,
            namespace=pod.namespace,
            container=container.name,
            pod_uid=pod.uid,
            container_id=container.id,
        ),
        sandbox_id=container.pod_sandbox_id,
        qos_class=qos_of_cgroup_parent(pod.linux.cgroup_parent).value,
    )


def memory_limit(resources: api.LinuxResources) -> int | None:
    """Return the memory limit in bytes; None without one.

    Absent, zero (the CRI converters always send the wrapper) and -1 (OCI's "unlimited") are none.
    """
    limit = resources.memory.limit.value
    return limit if limit > 0 else None


def cpu_limit_millicores(cpu: api.LinuxCPU) -> int | None:
    """Return the CPU limit in thousandths of a CPU; None without a quota (0 or -1)."""
    quota, period = cpu.quota.value, cpu.period.value
    return min(quota * 1000 // period, MAX_BYTES) if quota > 0 and period > 0 else None


def hugepage_limits(entries: Sequence[api.HugepageLimit]) -> Mapping[int, int] | None:
    """Return page size in bytes -> limit in bytes; None if the runtime hides the limits.

    The kubelet sends every page size of the host, so an empty list means that they are hidden.
    """
    if not entries:
        return None
    limits: dict[int, int] = {}
    for entry in islice(entries, _ENTRIES_LIMIT):
        try:
            limits[parse_page_size(entry.page_size)] = min(entry.limit, MAX_BYTES)
        except ValueError:
            continue  # not a page size of Linux; the kernel would refuse it, too
    return limits


def unified_hugepages(unified: Mapping[str, str]) -> Mapping[int, int]:
    """Return page size in bytes -> limit in bytes of the limits in cgroup v2's `unified`."""
    limits: dict[int, int] = {}
    if not unified:
        return limits
    for key, size_bytes in _UNIFIED_KEYS.items():
        # Not get(): protobuf's map adds a missing key where its type has a default.
        if key in unified:
            found = _LIMIT.fullmatch(unified[key])
            if found is not None:  # else "max", or a text that the kernel refuses
                limits[size_bytes] = min(int(found[1]), MAX_BYTES)
    return limits


def devices_of(devices: Iterable[api.LinuxDevice]) -> Iterable[Device]:
    """Yield the devices of a message, a limited number of them."""
    for device in islice(devices, _DEVICES_LIMIT):
        yield Device(type=device.type, major=device.major, minor=device.minor, path=device.path)


def is_privileged(resources: api.LinuxResources) -> bool:
    """Return whether a container may use every device of the host.

    A privileged container gets every device, so its devices do not show its placement. Both
    runtimes then write one rule that allows everything.
    """
    return any(map(_allows_everything, resources.devices))


def _allows_everything(rule: api.LinuxDeviceCgroup) -> bool:
    is_any = rule.type in ("", "a")
    return rule.allow and is_any and not (rule.HasField("major") or rule.HasField("minor"))


def with_burstable_facts(container: events.Container, message: api.Container) -> events.Container:
    """Return a container of a Burstable pod with what shows its memory request."""
    linux = message.linux
    score = linux.oom_score_adj.value if linux.HasField("oom_score_adj") else None
    facts = BurstableFacts(reserved_bytes(linux.resources), score)
    return replace(container, burstable=facts)


def reserved_bytes(resources: api.LinuxResources) -> int | None:
    """Return `memory.low` or `memory.min`, the larger one; None without one, or if it is 0."""
    unified, found = resources.unified, 0
    for key in _KEYS:
        # Not get(): protobuf's map adds a missing key where its type has a default.
        if key in unified and _AMOUNT.fullmatch(unified[key].strip()):
            found = max(found, min(int(unified[key]), MAX_BYTES))
    return found or None


def claim_uses(hooks: Sequence[api.Hook], program: str) -> tuple[ClaimUse, ...]:
    """Return the resource claims of a container: the arguments of `program` in its OCI hooks.

    A pod cannot set OCI hooks. A hook whose arguments cannot be read has no amounts, and so
    belongs to no claim that was prepared.
    """
    found: list[ClaimUse] = []
    for hook in hooks:
        if hook.path == program:
            uid, request, _nodes, amounts, name = (*hook.args[1:6], *[""] * 5)[:5]
            try:
                found.append(ClaimUse(uid, request, parse_amounts(amounts), name))
            except ValueError:
                found.append(ClaimUse(uid, request, {}, name))
    return tuple(found)


def interface_names(linux: api.LinuxContainer) -> tuple[str, ...]:
    """Return the names of the host's network interfaces that a container gets (NRI 0.11)."""
    names = [
        name
        for name in linux.net_devices
        if 0 < len(name) <= _NAME_CHARACTERS and name.isprintable()
    ]
    # The order of a protobuf map is arbitrary.
    return tuple(sorted(names)[:_INTERFACES_LIMIT])


def namespace_path(sandbox: api.PodSandbox) -> str:
    """Return the path of a pod's network namespace; "" if it is the host's, or unknown."""
    for namespace in sandbox.linux.namespaces:
        if namespace.type == "network":
            path = namespace.path
            return path if path.startswith("/") and len(path) < _PATH_CHARACTERS else ""
    return ""
