"""Random lives of pods with several containers: pods that start in part, and ended containers.

`python -m tests.bench.pods_in_part` prints two tables, in some minutes; they are in
docs/internals/lifecycle.md.

1. Pods of which a container is refused while others of it run. They keep their memory, and the
   kubelet retries the refused one. Each life is played three times: without a rule, with the rule
   that a pod begins only if its whole limit fits (engine/pods/outstanding), and also with the rule
   that of equally good nodes one wins that leaves room for the rest of the pod
   (engine/admission/equal_nodes).
2. Lives whose decisions differ from those of a manager that releases an init container when the
   pod's next container starts, as the kubelet does: with all memory of ended containers kept, and
   with that up to the pod's limit (engine/pods/limit).

A life is a sequence of pod starts and ends on 2, 4 or 8 nodes of different sizes, under one of the
policies. A refused container is created again after each end of a pod. For the first table half of
the containers have CPUs on one node. For the second table none have, lives are shorter, and a pod
starts only if the scheduler would send it: the limits of all pods fit the nodes together. The lives
depend on nothing but their seeds.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from random import Random
from unittest import mock

from nri_numamem.engine.admission import equal_nodes
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import (
    Container,
    CreateContainer,
    PodSandbox,
    RunPodSandbox,
    StopContainer,
    StopPodSandbox,
)
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.pods import limit as pod_limit
from nri_numamem.engine.pods import outstanding
from nri_numamem.memorymanager import Reservation, remove_container
from nri_numamem.numa import CpuSet, Machine, NumaNode
from tests.bench.report import markdown

GI = 1 << 30
POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
SCOPES = ("container", "pod")
LIVES = 200


@dataclass
class Pod:
    """A pod, and how far it has started."""

    sandbox: PodSandbox
    containers: tuple[Container, ...]
    inits: int
    """How many of the containers are init containers."""
    started: int = 0
    is_refused: bool = False


@dataclass
class Life:
    """An engine and its pods. `release` ends init containers as the kubelet does."""

    engine: Engine
    releases_inits: bool = False
    pods: dict[str, Pod] = field(default_factory=dict)
    decisions: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def start(self, pod: Pod) -> None:
        """Start a pod."""
        self.pods[pod.sandbox.uid] = pod
        self.engine.apply(RunPodSandbox(pod.sandbox))
        self.go_on(pod)

    def has_room(self, pod: Pod) -> bool:
        """Return whether the limits of all pods fit the nodes together."""
        limits = [other.sandbox.memory_limit_bytes or 0 for other in (*self.pods.values(), pod)]
        nodes = self.engine.state.accounting.machine_state.values()
        return sum(limits) <= sum(node.table("memory").allocatable for node in nodes)

    def end(self, uid: str) -> None:
        """End a pod, if it is there; then the kubelet retries what was refused."""
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self.engine.apply(StopPodSandbox(pod.sandbox))
            for other in self.pods.values():
                self.go_on(other)

    def go_on(self, pod: Pod) -> None:
        """Create the pod's next containers, until one is refused."""
        while pod.started < len(pod.containers):
            container = pod.containers[pod.started]
            if self.releases_inits:
                self._release_inits(pod)
            plan = self.engine.apply(CreateContainer(pod.sandbox, container)).plan
            nodes = "" if plan.adjustment is None else plan.adjustment.cpuset_mems
            self.decisions.append(f"{container.container_id} {nodes or 'refused'}")
            if plan.refusal is not None:
                self._count_refusal(pod)
                return
            pod.started += 1
            if pod.started <= pod.inits:
                self.engine.apply(StopContainer(pod.sandbox, container))
        self.counts["complete"] += not pod.is_refused

    def _count_refusal(self, pod: Pod) -> None:
        if not pod.is_refused:
            pod.is_refused = True
            self.counts["refused"] += 1
            self.counts["in part"] += pod.started > 0

    def _release_inits(self, pod: Pod) -> None:
        state = self.engine.state
        for container in pod.containers[: min(pod.started, pod.inits)]:
            holder = state.holder(container.container_id)
            if holder is not None:
                accounting = remove_container(state.accounting, *holder.key)
                state = state.without_holder(holder, accounting)
        self.engine = Engine.with_state(self.engine.context, state)


def life(
    seed: int,
    scope: str,
    *,
    with_inits: bool,
    releases_inits: bool = False,
    is_scheduled: bool = False,
    topology_policy: str = "",
) -> Life:
    """Play the life of a seed; `topology_policy` replaces the policy of the seed."""
    steps, cpus_share = (12, 0.0) if is_scheduled else (30, 0.5)
    random = Random(seed)
    machine = _machine(random)
    chosen = random.choice(POLICIES)
    policy = Policy(
        topology_manager_policy=topology_policy or chosen,
        topology_manager_scope=scope,
        reserved_memory=(Reservation(0, {"memory": GI}),),
    )
    played = Life(Engine(Context.of(machine, policy)), releases_inits)
    for number in range(steps):
        pod = _pod(random, machine, number, with_inits=with_inits, cpus_share=cpus_share)
        ending = random.random()
        if ending < 0.45:
            played.end(f"pod-{random.randrange(number + 1)}")
        if not is_scheduled or played.has_room(pod):
            played.start(pod)
    return played


def _machine(random: Random) -> Machine:
    count = random.choice((2, 4, 8))
    return Machine(
        tuple(
            NumaNode(
                node_id=node,
                memory_bytes=random.choice((16, 16, 24)) * GI,
                cpus=CpuSet(range(4 * node, 4 * node + 4)),
                distances={
                    n: 10 if n == node else 12 if n ^ 1 == node else 21 for n in range(count)
                },
            )
            for node in range(count)
        )
    )


def _pod(
    random: Random, machine: Machine, number: int, *, with_inits: bool, cpus_share: float
) -> Pod:
    inits = random.choice((0, 1, 2)) if with_inits else 0
    apps = random.choice((1, 2, 2, 3))
    sizes = [random.choice((1, 2, 3, 5, 8, 12)) * GI for _ in range(inits + apps)]
    limit = max([sum(sizes[inits:]), *sizes[:inits]])
    uid, sandbox_id = f"pod-{number}", f"s{number}"
    sandbox = PodSandbox(sandbox_id, uid, "ns", uid, f"/kubepods/pod{uid}", limit)
    containers: list[Container] = []
    for index, size in enumerate(sizes):
        cpu = 4 * random.randrange(len(machine.nodes))
        cpus = f"{cpu}" if random.random() < cpus_share else ""
        made = Container(f"s{number}-{index}", sandbox_id, f"c{index}", size, cpuset_cpus=cpus)
        containers.append(made)
    return Pod(sandbox, tuple(containers), inits)


@contextmanager
def without(owner: object, name: str, result: object) -> Iterator[None]:
    """Let a function of the engine return `result`."""
    with mock.patch.object(owner, name, return_value=result):
        yield


def pods_in_part(lives: int) -> list[tuple[str, ...]]:
    """Return the table of pods that start in part: how many of the refused ones, by rules."""
    rows: list[tuple[str, ...]] = [
        ("policy", "scope", "init containers", "without rules", "limit", "limit, equal nodes")
    ]
    for policy, scope, with_inits in product(("best-effort", ""), SCOPES, (False, True)):
        play = partial(_sum, lives, scope, policy, with_inits=with_inits)
        with without(equal_nodes, "remaining_request", None):
            limited = play()
            with without(outstanding, "rejection_of_first", None):
                before = play()
        shown = "yes" if with_inits else "no"
        cells = map(_share, (before, limited, play()))
        rows.append((policy or "all", scope, shown, *cells))
    return rows


def _share(counts: Counter[str]) -> str:
    refused, in_part = counts["refused"], counts["in part"]
    return f"{in_part} of {refused} ({100 * in_part / max(1, refused):.1f} %)"


def _sum(lives: int, scope: str, policy: str, *, with_inits: bool) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in range(lives):
        counts += life(seed, scope, with_inits=with_inits, topology_policy=policy).counts
    return counts


def ended_containers(lives: int) -> list[tuple[str, ...]]:
    """Return the table of lives that differ from a release at the next container's start."""

    def decisions(seed: int, *, releases_inits: bool = False) -> list[str]:
        played = life(
            seed,
            "container",
            with_inits=True,
            releases_inits=releases_inits,
            is_scheduled=True,
        )
        return played.decisions

    with without(outstanding, "rejection_of_first", None):
        expected = [decisions(seed, releases_inits=True) for seed in range(lives)]
        limited = _differences(expected, decisions)
        with without(pod_limit, "excess", {}):
            kept = _differences(expected, decisions)
    return [
        ("memory of ended containers", f"lives of {lives} that differ"),
        ("all is kept", f"{kept}"),
        ("kept up to the pod's limit", f"{limited}"),
    ]


def _differences(expected: list[list[str]], decisions: Callable[[int], list[str]]) -> int:
    return sum(decisions(seed) != wanted for seed, wanted in enumerate(expected))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Pods that start in part, and ended containers.")
    parser.add_argument("--lives", type=int, default=LIVES, help="how many (%(default)s)")
    lives = parser.parse_args().lives
    print(f"{markdown(pods_in_part(lives))}\n\n{markdown(ended_containers(lives))}")


if __name__ == "__main__":
    main()
