"""How often a claim is late: the scheduler allocated room that a pod without a claim has taken.

A host with four NUMA nodes of 112 GiB on a virtual clock. Pods come at random, about seven in a
minute, and are more than fit. The scheduler knows the host's slice as it was a moment ago, and its
own claims; it takes the first device that fits. Of pods without claims it knows their sum only, so
some of them are refused on the host. Slices, claims and placements are those of the plugin.

    python -m tests.property.late_claims

prints the shares for each kind of host.
"""

import heapq
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count, product
from random import Random
from typing import Any

from nri_numamem.engine.core.policy import Policy
from nri_numamem.export.noderesourcetopology import Host as ExportedHost
from nri_numamem.export.resourceslice import resource_slice
from nri_numamem.memorymanager.claims import Claim
from nri_numamem.numa import MEMORY, CpuSet, Machine, NumaNode
from nri_numamem.numa.preferences import Strategy
from tests.engine.features.claims.claim_host import WITH_CLAIMS, ClaimHost

GI = 1 << 30
NODES = 4
NODE_BYTES = 112 * GI
ARRIVALS_S = 60 / 7
LARGEST_GI = 40
# On average the pods that come would fill the host.
LIFE_S = ARRIVALS_S * NODES * 112 / ((LARGEST_GI + 1) / 2)
SLICE_S = 1.5
"""From a change of the accounting until the scheduler knows the slice."""
PREPARE_S = 0.2
"""From the binding of a pod until the plugin gets its claim."""
CREATE_S = 1.0
"""From the binding of a pod until the plugin gets its container."""


@dataclass(slots=True)
class Counts:
    """Pods of one kind."""

    come: int = 0
    bound: int = 0
    refused: int = 0
    """On the host, after the binding."""


@dataclass
class Cluster:
    """The scheduler, and one host."""

    policy: Policy
    plain_share: float
    random: Random
    now_s: float = 0.0
    claims: Counts = field(default_factory=Counts)
    plain: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        nodes = tuple(
            NumaNode(
                n, NODE_BYTES, {}, CpuSet([n]), {o: 10 if o == n else 21 for o in range(NODES)}
            )
            for n in range(NODES)
        )
        self.host = ClaimHost(self.policy, Machine(nodes))
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.numbers = count()
        self.allocated: dict[str, tuple[int, int]] = {}
        """Claim -> NUMA node and bytes, as the scheduler knows."""
        self.requests: dict[str, int] = {}
        """Pods that are bound -> bytes."""
        self.devices = self._devices()
        nodes_of_pods = self.host.engine.state.accounting.machine_state.values()
        self.allocatable = sum(node.table(MEMORY).allocatable for node in nodes_of_pods)

    def run(self, pods: int) -> None:
        """Let pods come, and wait until all have ended."""
        at_s = 0.0
        for _ in range(pods):
            at_s += self.random.expovariate(1 / ARRIVALS_S)
            self._later(at_s, self._arrive)
        while self.events:
            self.now_s, _number, happen = heapq.heappop(self.events)
            happen()

    def _later(self, delay_s: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self.events, (self.now_s + delay_s, next(self.numbers), happen))

    def _devices(self) -> list[tuple[int, int]]:
        """Return NUMA node and size of the devices that the agent publishes now."""
        engine = self.host.engine
        document: Any = resource_slice(ExportedHost("n", engine.context, engine.state))
        return [
            (int(device["name"].rpartition("-")[2]), int(device["capacity"]["size"]["value"]))
            for device in document["spec"]["devices"]
        ]

    def _changed(self) -> None:
        devices = self._devices()
        self._later(SLICE_S, lambda: setattr(self, "devices", devices))

    def _arrive(self) -> None:
        size = self.random.randint(1, LARGEST_GI) * GI
        uid = f"pod-{next(self.numbers)}"
        is_plain = self.random.random() < self.plain_share
        counts = self.plain if is_plain else self.claims
        counts.come += 1
        if sum(self.requests.values()) + size > self.allocatable:
            return
        node_id = 0 if is_plain else self._allocate(size)
        if node_id is None:
            return
        counts.bound += 1
        self.requests[uid] = size
        if is_plain:
            self._later(CREATE_S, lambda: self._start_plain(uid, size))
        else:
            self.allocated[uid] = (node_id, size)
            self._later(PREPARE_S, lambda: self._prepare(uid))

    def _allocate(self, size: int) -> int | None:
        """Return the NUMA node of the first device that fits."""
        for node_id, offered in self.devices:
            taken = sum(held for where, held in self.allocated.values() if where == node_id)
            if offered - taken >= size:
                return node_id
        return None

    def _prepare(self, uid: str) -> None:
        node_id, size = self.allocated[uid]
        claim = Claim(uid, "ns", uid, {"mem": {node_id: {"memory": size}}})
        if self.host.prepare(claim).refusal is None:
            self._later(self.random.expovariate(1 / LIFE_S), lambda: self._end_claim(claim))
            self._changed()
        else:
            self.claims.refused += 1
            del self.allocated[uid], self.requests[uid]

    def _end_claim(self, claim: Claim) -> None:
        self.host.release(claim)
        del self.allocated[claim.uid], self.requests[claim.uid]
        self._changed()

    def _start_plain(self, uid: str, size: int) -> None:
        pod = self.host.run(uid, memory=size)
        if self.host.create(pod, memory=size).refusal is None:
            self._later(self.random.expovariate(1 / LIFE_S), lambda: self._end_plain(uid))
        else:
            self.plain.refused += 1
            self._end_plain(uid)
        self._changed()

    def _end_plain(self, uid: str) -> None:
        pod = self.host.pods.pop(f"sandbox-{uid}")
        self.host.stop_pod(pod)
        self.requests.pop(uid, None)
        self._changed()


def run(plain_share: float, strategy: Strategy, pods: int, seed: int = 1, **more: int) -> Cluster:
    """Return a host after a random life."""
    policy = replace(
        WITH_CLAIMS,
        topology_manager_policy="single-numa-node",
        placement_strategy=strategy,
        **more,  # type: ignore[arg-type]
    )
    cluster = Cluster(policy, plain_share, Random(seed))
    cluster.run(pods)
    return cluster


def main(pods: int) -> None:
    """Print a line for each kind of host."""
    print("plain  strategy    share  claims: bound  late    plain: bound  refused")
    kinds = (("lowest-ids", 0), ("spread", 0), ("lowest-ids", 50))
    for plain_share, (strategy, percent) in product((0.2, 0.5, 0.8), kinds):
        found = run(plain_share, Strategy(strategy), pods, claims_share_percent=percent)
        values = []
        for kind in (found.claims, found.plain):
            values += [kind.bound / kind.come, kind.refused / kind.bound]
        shown = "  ".join(f"{value:8.2%}" for value in values)
        print(f"{plain_share:5.0%}  {strategy:10}  {percent:3} %  {shown}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
