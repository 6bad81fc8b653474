"""A small host on which room is set aside."""

from dataclasses import replace

from nri_numamem.engine.core import events
from nri_numamem.engine.core.earmarks import Beneficiary, Earmark
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.features.earmarks.events import (
    DropEarmark,
    EndExpiredEarmarks,
    MakeEarmark,
)
from nri_numamem.memorymanager.earmarks import Room
from nri_numamem.numa import NodeSet
from tests.engine.conftest import MI, SETTINGS, Answer
from tests.engine.features.claims.claim_host import ClaimHost

WITH_EARMARKS = replace(SETTINGS, claims=True, earmarks_percent=60)


def earmark(
    uid: str, nodes: str, size: int, *, to: str = "", labels: str = "", expires: int = 1000
) -> Earmark:
    """Return an earmark of `size` MiB for the pod `to`, or for the pods with the label `app`."""
    who = Beneficiary("ns", to, f"pod-{to}") if to else Beneficiary("ns", labels={"app": labels})
    return Earmark(uid, Room(NodeSet.parse(nodes), {"memory": size * MI}), who, expires)


class EarmarkHost(ClaimHost):
    """A host of four nodes with 928Mi each for pods."""

    def __init__(self, policy: Policy = WITH_EARMARKS) -> None:
        super().__init__(policy)

    def make(self, made: Earmark) -> Answer:
        """Set room aside."""
        return self.handle(MakeEarmark(made))

    def drop(self, uid: str) -> Answer:
        """Drop an earmark."""
        return self.handle(DropEarmark(uid))

    def pass_time(self, now_s: float) -> Answer:
        """End what has expired."""
        return self.handle(EndExpiredEarmarks(now_s))

    def left(self, uid: str) -> int:
        """Return the MiB of memory that an earmark has left."""
        state = self.engine.state
        room = state.earmarks[uid].left(state.accounting, state.pods.values())
        return room.amounts.get("memory", 0) // MI

    def place(self, uid: str, size: int, *, app: str = "", name: str = "main") -> str:
        """Start a pod if it is new, and create a container; return its nodes, or the refusal."""
        known = next((pod for pod in self.pods.values() if pod.uid == uid), None)
        pod = known or self.run(uid, labels={"app": app} if app else {})
        return placed(self.create(pod, name, memory=size * MI))

    def end(self, uid: str) -> None:
        """End a pod."""
        pod = self.pods.pop(f"sandbox-{uid}")
        self.containers = {
            key: each for key, each in self.containers.items() if each.sandbox_id != pod.sandbox_id
        }
        self.handle(events.StopPodSandbox(pod))
        self.handle(events.RemovePodSandbox(pod))


def placed(answer: Answer) -> str:
    """Return the nodes that a reply sets, or its refusal."""
    if answer.refusal is not None:
        return answer.refusal
    return answer.adjustment.cpuset_mems if answer.adjustment else ""
