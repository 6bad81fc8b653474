"""The devices of a container in a message."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.numa import NodeSet

# More devices than a container uses; reading the nodes of one takes some 50 µs.
_DEVICES_LIMIT = 64


@dataclass(frozen=True, slots=True)
class Device:
    """A device node of a container."""

    type: str
    """"c", "u", "b" or "p", as in mknod(1)."""
    major: int
    minor: int
    path: str
    """The path inside the container."""


DeviceNodes: TypeAlias = Callable[[str, Iterable[Device]], tuple[NodeSet, ...]]
"""(cgroup_parent of the pod, devices) -> the NUMA nodes of each device with known nodes; never
raises. The devices are a lazy iterable: a reader that ignores them costs nothing."""


def no_device_nodes(_cgroup_parent: str, _devices: Iterable[Device]) -> tuple[NodeSet, ...]:
    """Return no nodes; for a host without devices."""
    return ()


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
