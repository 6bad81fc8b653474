"""Carries out a rebalancing plan: sets the room aside, evicts pods, waits for the refused one.

The pods are evicted one after the other, each when the one before has ended. Room is set aside
before the first eviction, so no pod that starts meanwhile gets it: for the refused pod, and for the
replacements of the evicted ones on the NUMA nodes that the plan has for them. The earmarks are
renewed while there is progress, and while a pod may take to end. A plan ends in one of three ways:

- done: the refused pod runs, and the earmark is dropped. For a pod that does not exist yet the room
  is free, and stays set aside.
- refused: a pod must not be evicted, the API server or the plugin refuses, or the refused pod was
  deleted. The earmark is dropped, unless pods were evicted and the refused pod waits.
- expired: nothing has changed for some time; the earmark ends by itself.

This module knows no API server, no files and no clock of its own: the command gives it functions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol
from zlib import crc32

from nri_numamem.engine.core.earmarks import Beneficiary, Earmark
from nri_numamem.export.evictions import Evicted, Outcome
from nri_numamem.memorymanager.earmarks import Room
from nri_numamem.numa import MEMORY, NodeSet

LOOK_S = 1.0
"""Between two looks at the host."""
MARGIN_S = 60.0
"""How much longer than a plan waits its earmark lasts."""
BUSY_S = 5.0
"""Between two requests for an eviction that is not allowed yet."""


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod to be restarted."""

    uid: str
    namespace: str
    name: str
    source: int
    """NUMA node id."""
    target: int
    """NUMA node id of this host, where it fits again."""
    size_bytes: int = 0
    """Memory, for its replacement."""

    def __str__(self) -> str:
        """Return the name for messages."""
        return f"{self.namespace}/{self.name}"


def earmarks_of(
    uid: str,
    room: Room,
    beneficiary: Beneficiary,
    expires_s: int,
    replacements: Mapping[Victim, Mapping[str, str]],
) -> Sequence[Earmark]:
    """Return the earmark `uid` for the refused pod, then those for replacements by their labels.

    The labels are those of the evicted pod; without labels there is no earmark for a replacement.
    """
    found = [Earmark(uid, room, beneficiary, expires_s)]
    for victim, labels in replacements.items():
        if labels and victim.size_bytes:
            size = Room(NodeSet([victim.target]), {MEMORY: victim.size_bytes})
            who = Beneficiary(victim.namespace, labels=labels)
            found.append(Earmark(replacement_uid(uid, victim), size, who, expires_s))
    return found


def replacement_uid(uid: str, victim: Victim) -> str:
    """Return the uid of the earmark for the replacement of a pod."""
    return f"{uid}-{crc32(victim.uid.encode()):08x}"


class Result(Enum):
    """How a plan ended."""

    DONE = "done"
    REFUSED = "refused"
    EXPIRED = "expired"


class Surroundings(Protocol):
    """What a plan needs."""

    waits_s: float
    """How long the plan waits for a change."""

    def obstacle(self, victim: Victim) -> str:
        """Return why a pod must not be evicted; "" if it may."""

    def evict(self, victim: Victim) -> Evicted:
        """Request an eviction."""

    def is_gone(self, victim: Victim) -> bool:
        """Return whether the pod has no cgroup on this host any more."""

    def grace_s(self, victim: Victim) -> float:
        """Return how long a pod may take to end."""

    def runs(self) -> bool:
        """Return whether the refused pod runs."""

    def waits(self) -> bool:
        """Return whether the refused pod still exists."""

    def set_aside(self) -> str:
        """Make or renew the earmarks, for MARGIN_S more than `waits_s`.

        Returns why the plugin refuses that of the refused pod, "" if it does not.
        """

    def drop(self) -> None:
        """End the earmark of the refused pod, and those for pods that were not evicted."""

    def now_s(self) -> float:
        """Return a monotonic time."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class _EndedError(Exception):
    """The plan has ended before its last step."""

    def __init__(self, result: Result, cause: str) -> None:
        super().__init__(cause)
        self.result = result


class Plan:
    """One plan; `say` gets a line for each step."""

    def __init__(
        self,
        victims: Sequence[Victim],
        around: Surroundings,
        say: Callable[[str], None],
        *,
        waits_for_pod: bool = True,
    ) -> None:
        self._waits_for_pod = waits_for_pod
        self._victims = victims
        self._around = around
        self._say = say
        self.evicted: list[Victim] = []
        """The pods that were evicted, or had gone by themselves; the last one may still end."""
        self.cause = ""
        """Why it ended early."""
        self._renewed_s = 0.0
        self._progress_s = 0.0

    def carry_out(self) -> Result:
        """Carry the plan out; return how it ended."""
        try:
            self._check()
            self._set_aside()
            for victim in self._victims:
                self._evict(victim)
                self._wait_for_end(victim)
            if self._waits_for_pod:
                self._wait_for_refused()
        except _EndedError as end:
            self.cause = str(end)
            if end.result is Result.REFUSED and not (self.evicted and self._around.waits()):
                self._around.drop()
            return end.result
        if self._waits_for_pod:
            self._around.drop()
        return Result.DONE

    def _check(self) -> None:
        for victim in self._victims:
            obstacle = self._around.obstacle(victim)
            if obstacle:
                raise _EndedError(Result.REFUSED, f"{victim} is not evicted: {obstacle}")

    def _set_aside(self) -> None:
        refusal = self._around.set_aside()
        if refusal:
            raise _EndedError(Result.REFUSED, f"the room cannot be set aside: {refusal}")
        self._renewed_s = self._progress_s = self._around.now_s()

    def _evict(self, victim: Victim) -> None:
        """Request the eviction until it is done, or the pod has gone."""
        said = ""
        while True:
            found = self._around.evict(victim)
            if found.outcome is Outcome.FAILED:
                raise _EndedError(Result.REFUSED, f"{victim} is not evicted: {found.cause}")
            if found.outcome not in (Outcome.WAIT, Outcome.UNANSWERED):
                self._progressed()
                self._say(f"evicted {victim}; waiting until it ends")
                return
            if found.cause != said:
                said = found.cause
                self._say(f"{victim} cannot be evicted yet: {said}")
            self._pause(BUSY_S, f"{victim} can be evicted")

    def _wait_for_end(self, victim: Victim) -> None:
        self.evicted.append(victim)
        grace_s = self._around.grace_s(victim)
        while not self._around.is_gone(victim):
            self._pause(LOOK_S, f"{victim} ends", grace_s)
        self._progressed()
        self._say(f"{victim} has ended")

    def _wait_for_refused(self) -> None:
        while not self._around.runs():
            if not self._around.waits():
                raise _EndedError(Result.REFUSED, "the refused pod was deleted")
            self._pause(LOOK_S, "the refused pod runs")

    def _progressed(self) -> None:
        self._progress_s = self._around.now_s()

    def _pause(self, seconds: float, what: str, grace_s: float = 0.0) -> None:
        """Wait, and renew the earmark if it is time; end the plan if nothing has changed.

        `grace_s` is a time without a change that is to be expected.
        """
        now_s, waits_s = self._around.now_s(), self._around.waits_s
        idle_s = now_s - self._progress_s
        if idle_s >= waits_s + grace_s:
            raise _EndedError(Result.EXPIRED, f"waited {idle_s:.0f} s until {what}")
        is_progress = self._progress_s > self._renewed_s or idle_s < grace_s
        if is_progress and now_s - self._renewed_s >= waits_s / 3:
            refusal = self._around.set_aside()
            if refusal:
                raise _EndedError(Result.REFUSED, f"the room cannot be kept: {refusal}")
            self._renewed_s = now_s
        self._around.sleep(seconds)
