"""The keys of holders: who holds memory in the accounting.

A key has two parts: the owner, and a name within the owner. A container's owner is the uid of its
pod, and its name is a text. A holder that is not a container has a member of `HolderKind` in place
of the name. So no container's name can be taken for it, and the type checker finds code that
expects a container. A holder without a pod is its own owner, with an id that no pod has.

The accounting charges and releases all holders alike. Rules about pods look at the holders that
the pod owns; only holders with the same owner reuse each other's memory.
"""

from enum import Enum
from typing import TypeAlias


class HolderKind(Enum):
    """What holds memory and is not a container."""

    POD = "pod"
    """The pod as a whole: its sum in pod scope, less what its containers took over."""
    CLAIM = "claim"
    """A resource claim. It is its own owner, with its uid."""
    EARMARK = "earmark"
    """Room that is set aside, during a placement of others (``earmarks``). It is its own owner."""

    def __str__(self) -> str:
        """Return the text for messages; no container has such a name."""
        return f"({self.value})"

    # Holders are sorted by their keys: a pod as a whole comes before its containers.

    def __lt__(self, other: object) -> bool:
        return isinstance(other, str)

    def __gt__(self, other: object) -> bool:
        return False


HolderName: TypeAlias = str | HolderKind

HolderKey: TypeAlias = tuple[str, HolderName]
"""Owner, and the holder's name within the owner."""


def container_name(name: HolderName) -> str:
    """Return the name that documents and records show; empty for what is not a container."""
    return name if isinstance(name, str) else ""
