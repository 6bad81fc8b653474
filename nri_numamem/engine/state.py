"""The engine's state: the books and who is on them, as one frozen value.

An event makes the next state from the last; nothing is changed in place, so a plan that fails
half-way leaves nothing to undo. The books themselves belong to the memory manager and are keyed
by pod uid and container name; here stands which sandbox and which container id hold them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from itertools import islice
from typing import TypeAlias, TypeVar

from nri_numamem.engine.events import PodSandbox
from nri_numamem.memorymanager import Block, NodeSet, State
from nri_numamem.memorymanager.state import copy_of
from nri_numamem.values import valueclass

_K = TypeVar("_K")
_V = TypeVar("_V")

Key: TypeAlias = tuple[str, str]
"""Pod uid and container name: the key of an assignment, so that a container that is created
again takes its old place."""

# Pods that ended and may come back: static pods after a restart of their sandbox. Several times
# the pods of a large host, for which the kubelet's default limit is 110.
HOMES_LIMIT = 1024

NO_HOME = NodeSet()


@valueclass(frozen=True, slots=True)
class Holder:
    """The newest container under its pod uid and name."""

    container_id: str
    sandbox_id: str
    key: Key
    ended: bool = False
    """Stopped: its pod keeps what it held, for the pod's next containers."""


@valueclass(frozen=True, slots=True)
class EngineState:
    """Everything that the engine knows."""

    books: State
    pods: Mapping[str, PodSandbox] = field(default_factory=dict)
    """Sandbox id -> pod, while the sandbox exists and was not stopped."""
    holders: Mapping[Key, Holder] = field(default_factory=dict)
    keys: Mapping[str, Key] = field(default_factory=dict)
    """Container id -> key, for each holder; should two have one id, for the newer one."""
    homes: Mapping[str, Mapping[str, NodeSet]] = field(default_factory=dict)
    """Pod uid -> container name -> nodes, of pods that ended; at most HOMES_LIMIT, oldest first."""
    pending: frozenset[str] = frozenset()
    """Ids of containers whose nodes on the books the runtime has yet to be told."""
    former: "EngineState | None" = None
    """What an earlier process knew, until the first Synchronize says what of it is still so."""

    def holder(self, container_id: str) -> Holder | None:
        """Return the holder with this container id; None once another took its place."""
        key = self.keys.get(container_id)
        return None if key is None else self.holders[key]

    def blocks(self, key: Key) -> tuple[Block, ...] | None:
        """Return what a container has on the books; None when it has no assignment."""
        return self.books.assignments.get(key[0], {}).get(key[1])

    def home(self, key: Key) -> NodeSet:
        """Return the nodes that a container had when its pod ended; empty when unknown."""
        return self.homes.get(key[0], {}).get(key[1], NO_HOME)

    def homes_with(self, ended: Iterable[Holder]) -> dict[str, Mapping[str, NodeSet]]:
        """Return the homes together with those of holders that are about to lose theirs."""
        homes = copy_of(self.homes)
        for holder in ended:
            uid, name = holder.key
            blocks = self.blocks(holder.key)
            if blocks:
                homes[uid] = {**homes.pop(uid, {}), name: blocks[0].numa_affinity}
        for uid in list(islice(homes, max(0, len(homes) - HOMES_LIMIT))):
            del homes[uid]
        return homes

    def with_pod(self, pod: PodSandbox) -> "EngineState":
        """Return the state that knows `pod`."""
        if self.pods.get(pod.sandbox_id) == pod:
            return self
        pods = copy_of(self.pods)
        pods[pod.sandbox_id] = pod
        return EngineState(
            self.books, pods, self.holders, self.keys, self.homes, self.pending, self.former
        )

    def without_pod(
        self, sandbox_id: str, homes: Mapping[str, Mapping[str, NodeSet]]
    ) -> "EngineState":
        """Return the state that does not know the sandbox, but where its pod was."""
        pods = without(self.pods, sandbox_id)
        return EngineState(
            self.books, pods, self.holders, self.keys, homes, self.pending, self.former
        )

    def with_books(self, books: State) -> "EngineState":
        """Return the state with new books."""
        return self.with_all(books, self.holders, self.keys)

    def with_holder(self, holder: Holder, books: State) -> "EngineState":
        """Return the state with new books, in which `holder` stands alone for its key."""
        holders, keys = copy_of(self.holders), copy_of(self.keys)
        old = holders.get(holder.key)
        if old is not None:
            _let_go(keys, old)
        holders[holder.key] = holder
        keys[holder.container_id] = holder.key
        return self.with_all(books, holders, keys)

    def without_holder(self, holder: Holder, books: State) -> "EngineState":
        """Return the state with new books, in which nobody stands for the holder's key."""
        keys = copy_of(self.keys)
        _let_go(keys, holder)
        return self.with_all(books, without(self.holders, holder.key), keys)

    def with_all(
        self, books: State, holders: Mapping[Key, Holder], keys: Mapping[str, Key]
    ) -> "EngineState":
        """Return the state with all that containers make of it."""
        # Here and above not replace(): it takes three times as long, and requests come in a row.
        return EngineState(books, self.pods, holders, keys, self.homes, self.pending, self.former)


def _let_go(keys: dict[str, Key], holder: Holder) -> None:
    # A runtime gives out each id once; should it not, the id is that of its newest holder.
    if keys.get(holder.container_id) == holder.key:
        del keys[holder.container_id]


def without(mapping: Mapping[_K, _V], key: _K) -> dict[_K, _V]:
    """Return a copy of `mapping` without `key`, which may be absent."""
    copy = copy_of(mapping)
    copy.pop(key, None)
    return copy
