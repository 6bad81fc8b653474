"""Decodes what shows the memory request of a container in a Burstable pod."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from nri_numamem.engine.core import events
from nri_numamem.memorymanager.burstable import BurstableFacts
from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.numa.quantity import MAX_BYTES

# The kubelet writes one of them, by the QoS class and its version.
_KEYS = ("memory.low", "memory.min")

# 2^64 has 20 digits. Another value is "max", or a text that the kernel refuses.
_AMOUNT = re.compile(r"\d{1,20}", re.ASCII)


def _no_available_memory(_pod: events.PodSandbox, _container: events.Container) -> None:
    return None


@dataclass(slots=True)
class BurstableReader:
    """What the decoder needs of settings, runtime and host; the default is the setting off."""

    is_active: bool = False
    """Whether containers of Burstable pods may be pinned."""
    sets_oom_score_adj: bool = False
    """Whether the runtime can set `oom_score_adj`."""
    available_memory: Callable[[events.PodSandbox, events.Container], Mapping[int, int] | None] = (
        _no_available_memory
    )
    """Node id -> bytes that are free or reclaimable; None if they are unknown or have no effect;
    never raises."""


def with_facts(container: events.Container, message: api.Container) -> events.Container:
    """Return a container with the facts that its message shows."""
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
