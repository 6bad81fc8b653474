"""When and why a container is pinned or unpinned, as a value; ``reasons`` keeps them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nri_numamem.memorymanager.holder import HolderKey


@dataclass(frozen=True, slots=True)
class Reason:
    """When and why a container was pinned, or runs unpinned although its pod is Guaranteed."""

    container_id: str
    sandbox_id: str
    key: HolderKey
    """Pod uid and container name."""
    namespace: str
    pod: str
    """The pod's name."""
    event: str
    since_s: int = 0
    """Unix time; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class Reasons:
    """The reasons of containers, by container id."""

    pinned: Mapping[str, Reason] = field(default_factory=dict)
    unpinned: Mapping[str, Reason] = field(default_factory=dict)
    """Containers of Guaranteed pods that run unpinned."""

    def __or__(self, newer: "Reasons") -> "Reasons":
        """Return both; of two reasons of a container the newer one counts."""
        return Reasons({**self.pinned, **newer.pinned}, {**self.unpinned, **newer.unpinned})


NO_REASONS = Reasons()
