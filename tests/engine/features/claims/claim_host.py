"""Claims on the small machine: a kubelet that prepares them, and containers that use them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nri_numamem.engine.core import events
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.features.claims.events import ClaimPrepared, ClaimReleased
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager.claims import Claim, ClaimAmounts, ClaimUse
from nri_numamem.numa import Machine
from tests.engine.conftest import MI, SETTINGS, Answer, Host, four_nodes

WITH_CLAIMS = replace(SETTINGS, claims=True)


def claim_of(uid: str, *pods: str, **requests: Mapping[int, Mapping[str, int]]) -> Claim:
    """Return a claim; each request is node -> resource -> MiB."""
    amounts: dict[str, ClaimAmounts] = {
        name: {
            node: {each: size * MI for each, size in wanted.items()}
            for node, wanted in found.items()
        }
        for name, found in requests.items()
    }
    return Claim(uid, "ns", f"claim-{uid}", amounts, frozenset(pods))


def memory_claim(uid: str, node: int, size: int, *pods: str) -> Claim:
    """Return a claim of one request, `mem`, in MiB."""
    return claim_of(uid, *pods, mem={node: {"memory": size}})


def uses(claim: Claim, *requests: str) -> tuple[ClaimUse, ...]:
    """Return the use of some requests of a claim, by default of all."""
    return tuple(
        ClaimUse(claim.uid, name, claim.requests[name], str(claim))
        for name in requests or sorted(claim.requests)
    )


class ClaimHost(Host):
    """A host whose containers can use claims; it keeps the claims that are prepared."""

    def __init__(self, policy: Policy = WITH_CLAIMS, machine: Machine | None = None) -> None:
        super().__init__(Engine(new_context(machine or four_nodes(), policy)))
        self.prepared: dict[str, Claim] = {}

    def prepare(self, claim: Claim) -> Answer:
        """Let the kubelet prepare a claim."""
        answer = self.handle(ClaimPrepared(claim))
        if answer.refusal is None:
            self.prepared[claim.uid] = claim
        return answer

    def release(self, claim: Claim) -> Answer:
        """Let the kubelet unprepare a claim."""
        self.prepared.pop(claim.uid, None)
        return self.handle(ClaimReleased(claim.uid))

    def use(
        self,
        pod: events.PodSandbox,
        name: str,
        used: Sequence[ClaimUse],
        memory: int | None = None,
        **more: object,
    ) -> Answer:
        """Create a container with claims; `memory` is its limit in bytes."""
        container = events.Container(
            f"{pod.sandbox_id}-{name}-{len(self.containers)}",
            pod.sandbox_id,
            name,
            memory,
            claims=tuple(used),
            **more,  # type: ignore[arg-type]
        )
        answer = self.handle(events.CreateContainer(pod, container))
        if answer.refusal is None and answer.adjustment is not None:
            given = answer.adjustment
            self.containers[container.container_id] = replace(
                container,
                cpuset_mems=given.cpuset_mems or container.cpuset_mems,
                memory_limit_bytes=given.memory_limit_bytes or memory,
                hugepages_unified=dict(given.hugepage_limits) or container.hugepages_unified,
            )
        return answer

    def synchronize_with(self, claims: tuple[Claim, ...] | None) -> Answer:
        """Report all pods and containers, and these claims as prepared."""
        pods, containers = tuple(self.pods.values()), tuple(self.containers.values())
        return self.handle(events.Synchronize(pods, containers, claims=claims))


def mems(answer: Answer) -> str:
    """Return the nodes that a reply sets, or its refusal."""
    if answer.refusal is not None:
        return answer.refusal
    return answer.adjustment.cpuset_mems if answer.adjustment else ""


def limit(answer: Answer) -> int | None:
    """Return the memory limit in MiB that a reply sets."""
    found = answer.adjustment.memory_limit_bytes if answer.adjustment else None
    return None if found is None else found // MI
