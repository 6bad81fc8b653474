"""Earmarks in the engine's state: room that is set aside on NUMA nodes, and the pods it is for.

A placement of another pod does not see the room (``memorymanager.earmarks``). What the pods get
that the room is for counts as used, whichever nodes they get, and the rest is set aside. So no
event has to change an earmark: what is left of it is computed from the accounting.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from nri_numamem.engine.core.events import PodSandbox
from nri_numamem.memorymanager import State
from nri_numamem.memorymanager.blocks import sum_blocks
from nri_numamem.memorymanager.earmarks import Room


@dataclass(frozen=True, slots=True)
class Beneficiary:
    """The pods that may use an earmark: one by its uid, or those with labels in a namespace."""

    namespace: str
    uid: str = ""
    """Of the pod, or of a resource claim; "" for the pods with `labels`."""
    name: str = ""
    """Of the pod or the claim, for messages."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """All of them have to match; only without `uid`, and then at least one."""

    def includes(self, pod: PodSandbox) -> bool:
        """Return whether a pod may use it."""
        if self.uid:
            return pod.uid == self.uid
        is_selected = all(pod.labels.get(key) == value for key, value in self.labels.items())
        return pod.namespace == self.namespace and is_selected

    def __str__(self) -> str:
        """Return the text for messages: "ml/train-4", "ml (app=train)"."""
        if self.uid:
            return f"{self.namespace}/{self.name}"
        labels = ",".join(f"{key}={value}" for key, value in sorted(self.labels.items()))
        return f"{self.namespace} ({labels})"


@dataclass(frozen=True, slots=True)
class Earmark:
    """Room that is set aside until a time."""

    uid: str
    room: Room
    beneficiary: Beneficiary
    expires_s: int
    """Unix time."""
    held_before: Mapping[str, Mapping[str, int]] = field(default_factory=dict, compare=False)
    """Uid of a pod of the beneficiary, or of its claim -> resource -> bytes that it had when the
    earmark was made; they do not count as used."""
    begun_before: frozenset[str] = field(default_factory=frozenset, compare=False)
    """Uids of pods that had begun when it was made, and needed more: they may use the room, because
    a pod begins only if its whole limit fits."""
    restored_owners: frozenset[str] = field(default_factory=frozenset, compare=False)
    """The owners in the snapshot that it was restored from; its reader may not know labels."""

    def owners(self, pods: Iterable[PodSandbox]) -> frozenset[str]:
        """Return the uids whose assignments count."""
        if self.beneficiary.uid:
            return frozenset((self.beneficiary.uid,))
        found = frozenset(pod.uid for pod in pods if self.beneficiary.includes(pod))
        return found | self.restored_owners

    def began(
        self, accounting: State, pods: Iterable[PodSandbox], begun: Iterable[str]
    ) -> "Earmark":
        """Return the earmark as it begins: what the beneficiary has now does not count as used.

        `begun` are the uids of pods that have begun and need more.
        """
        held = {uid: held_by(accounting, uid) for uid in sorted(self.owners(pods))}
        before = {uid: sizes for uid, sizes in held.items() if sizes}
        return replace(self, held_before=before, begun_before=frozenset(begun))

    def is_closed_to(self, pod: PodSandbox) -> bool:
        """Return whether a pod must not use the room."""
        return not self.beneficiary.includes(pod) and pod.uid not in self.begun_before

    def left(self, accounting: State, pods: Iterable[PodSandbox]) -> Room:
        """Return what is still set aside; without amounts if all of it is used."""
        used: dict[str, int] = {}
        for uid in self.owners(pods):
            before = self.held_before.get(uid, {})
            for name, size in held_by(accounting, uid).items():
                used[name] = used.get(name, 0) + max(0, size - before.get(name, 0))
        sizes = {name: size - used.get(name, 0) for name, size in self.room.amounts.items()}
        return replace(self.room, amounts={name: size for name, size in sizes.items() if size > 0})


def held_by(accounting: State, uid: str) -> dict[str, int]:
    """Return what a pod or a claim has in the accounting: resource -> bytes."""
    holders = accounting.assignments.get(uid, {}).values()
    return sum_blocks(block for blocks in holders for block in blocks)
