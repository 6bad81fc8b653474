"""The engine's state: the books and who is on them, as one frozen value.

An event makes the next state from the last; nothing is changed in place, so a plan that fails
half-way leaves nothing to undo. The books themselves belong to the memory manager and are keyed
by pod uid and container name; here stands which sandbox and which container id hold them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

from nri_numamem.engine.events import PodSandbox
from nri_numamem.memorymanager import Block, State

_K = TypeVar("_K")
_V = TypeVar("_V")

Key: TypeAlias = tuple[str, str]
"""Pod uid and container name: the key of an assignment, so that a container that is created
again takes its old place."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The newest container under its pod uid and name."""

    container_id: str
    sandbox_id: str
    key: Key
    ended: bool = False
    """Stopped: its pod keeps what it held, for the pod's next containers."""
    names_hugepages_of_pod: bool = False
    """Its hugepage request was made from the pod's sum."""


@dataclass(frozen=True, slots=True)
class EngineState:
    """Everything that the engine knows."""

    books: State
    pods: Mapping[str, PodSandbox] = field(default_factory=dict)
    """Sandbox id -> pod, while the sandbox exists and was not stopped."""
    holders: Mapping[Key, Holder] = field(default_factory=dict)
    keys: Mapping[str, Key] = field(default_factory=dict)
    """Container id -> key, for each holder."""

    def holder(self, container_id: str) -> Holder | None:
        """Return the holder with this container id; None once another took its place."""
        key = self.keys.get(container_id)
        return None if key is None else self.holders[key]

    def blocks(self, key: Key) -> tuple[Block, ...] | None:
        """Return what a container has on the books; None when it has no assignment."""
        return self.books.assignments.get(key[0], {}).get(key[1])

    def with_pod(self, pod: PodSandbox) -> "EngineState":
        """Return the state that knows `pod`."""
        return replace(self, pods={**self.pods, pod.sandbox_id: pod})

    def without_pod(self, sandbox_id: str) -> "EngineState":
        """Return the state that does not know the sandbox."""
        return replace(self, pods=without(self.pods, sandbox_id))

    def with_holder(self, holder: Holder, books: State) -> "EngineState":
        """Return the state with new books, in which `holder` stands alone for its key."""
        old = self.holders.get(holder.key)
        keys = dict(self.keys)
        if old is not None:
            del keys[old.container_id]
        keys[holder.container_id] = holder.key
        return replace(self, books=books, holders={**self.holders, holder.key: holder}, keys=keys)

    def without_holder(self, holder: Holder, books: State) -> "EngineState":
        """Return the state with new books, in which nobody stands for the holder's key."""
        return replace(
            self,
            books=books,
            holders=without(self.holders, holder.key),
            keys=without(self.keys, holder.container_id),
        )


def without(mapping: Mapping[_K, _V], key: _K) -> dict[_K, _V]:
    """Return a copy of `mapping` without `key`, which may be absent."""
    copy = dict(mapping)
    copy.pop(key, None)
    return copy
