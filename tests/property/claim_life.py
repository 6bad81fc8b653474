"""Random lives of a host with claims: pods with and without them, a plugin that is away, restarts.

The kubelet's and the runtime's view is kept here, apart from the engine: which claims are prepared,
and which containers run with which limits. While the plugin is away nothing reaches the engine.
Then a container with a claim does not start, because its hook fails, and others start unpinned.
`python -m tests.property.claim_life 2000` runs 2,000 lives in a minute.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from random import Random

from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.queries.invariants import check_sums
from nri_numamem.memorymanager.claims import Claim
from nri_numamem.memorymanager.holder import HolderKind
from nri_numamem.numa import NodeSet
from tests.engine.conftest import MI
from tests.engine.features.claims.claim_host import WITH_CLAIMS, ClaimHost, claim_of, uses

STEPS = 60
POLICIES = tuple(
    replace(WITH_CLAIMS, topology_manager_policy=policy, topology_manager_scope=scope)
    for policy in ("best-effort", "single-numa-node", "none")
    for scope in ("container", "pod")
)


class Life:
    """One host."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.host = ClaimHost(self.random.choice(POLICIES))
        self.claims: dict[str, Claim] = {}
        """Claims of pods that were not deleted; the kubelet prepared them, or will try again."""
        self.prepared: dict[str, Claim] = {}
        self.is_away = False
        self.number = 0

    def run(self) -> None:
        steps = (
            *(self.new_claim,) * 3,
            *(self.prepare_again, self.end_claim, self.plain_pod, self.end_plain),
            *(self.container_of_claim,) * 4,
            *(self.end_container, self.resize, self.restart),
        )
        for _ in range(STEPS):
            self.random.choice(steps)()
            if not self.is_away:
                self.check()
        self.end()

    def name(self, kind: str) -> str:
        self.number += 1
        return f"{kind}{self.number}"

    # The kubelet.

    def new_claim(self) -> None:
        uid, count = self.name("claim"), self.random.choice([1, 1, 1, 2])
        nodes = self.random.sample(range(4), count)
        size = self.random.choice([50, 150, 400, 900])
        pages = {"hugepages-2Mi": 8} if self.random.random() < 0.3 else {}
        requests = {
            f"m{index}": {node: {"memory": size, **pages}} for index, node in enumerate(nodes)
        }
        self.claims[uid] = claim_of(uid, f"pod-{uid}", **requests)
        self.prepare(uid)

    def prepare(self, uid: str) -> None:
        """Prepare a claim; the kubelet waits while the plugin is away."""
        if self.is_away or uid in self.prepared:
            return
        claim = self.claims[uid]
        if self.host.prepare(claim).refusal is None:
            self.prepared[uid] = claim
            qos = self.random.choice(["", "burstable/", "besteffort/"])
            memory = sum(each["memory"] for each in claim.amounts.values())
            mirrored = None if qos == "besteffort/" else memory
            self.host.run(f"pod-{uid}", qos, memory=mirrored)

    def prepare_again(self) -> None:
        for uid in sorted(self.claims.keys() - self.prepared.keys()):
            self.prepare(uid)

    def end_claim(self) -> None:
        """Delete the pod of a claim: its containers end before the claim is unprepared."""
        if not self.claims:
            return
        uid = self.random.choice(sorted(self.claims))
        claim = self.claims.pop(uid)
        if self.prepared.pop(uid, None) is None:
            return
        self.end_pod_of(uid)
        if not self.is_away:
            self.host.release(claim)

    def of(self, pod: PodSandbox) -> list[Container]:
        containers = self.host.containers.values()
        return [each for each in containers if each.sandbox_id == pod.sandbox_id]

    # Containers.

    def container_of_claim(self) -> None:
        if not self.prepared or self.is_away:  # the hook fails the start
            return
        uid = self.random.choice(sorted(self.prepared))
        claim, pod = self.prepared[uid], self.host.pods[f"sandbox-pod-{uid}"]
        names = self.random.sample(
            sorted(claim.requests), self.random.randint(1, len(claim.requests))
        )
        limit = self.random.choice([None, None, 20 * MI, 100 * MI, 900 * MI])
        name = self.name("c")
        done = self.host.use(pod, name, uses(claim, *names), limit)
        if done.refusal is None:
            assert done.adjustment is not None
            wanted = NodeSet(n for each in names for n in claim.requests[each])
            assert done.adjustment.cpuset_mems == str(wanted)
            assert self.host.newest(name).memory_limit_bytes

    def plain_pod(self) -> None:
        size = self.random.choice([50, 200, 700]) * MI
        uid = self.name("plain")
        if self.is_away:
            pod = PodSandbox(f"sandbox-{uid}", uid, "ns", uid, f"/kubepods/pod{uid}", size)
            self.host.pods[pod.sandbox_id] = pod
            found = Container(f"{uid}-main", pod.sandbox_id, "main", size)
            self.host.containers[found.container_id] = replace(found, cgroup_mems=NodeSet())
            return
        self.host.create(self.host.run(uid, memory=size), memory=size)

    def end_plain(self) -> None:
        plain = [pod for pod in self.host.pods.values() if pod.uid.startswith("plain")]
        if not plain:
            return
        pod = self.random.choice(plain)
        for container in self.of(pod):
            del self.host.containers[container.container_id]
        del self.host.pods[pod.sandbox_id]
        if not self.is_away:
            self.host.stop_pod(pod)

    def end_container(self) -> None:
        found = [each for each in self.host.containers.values() if each.claims]
        if found:
            container = self.random.choice(found)
            del self.host.containers[container.container_id]
            if not self.is_away:
                self.host.stop(container)

    def resize(self) -> None:
        found = [each for each in self.host.containers.values() if each.claims]
        if found and not self.is_away:
            self.host.resize(self.random.choice(found), self.random.choice([10, 60, 300]) * MI)

    def restart(self) -> None:
        """Stop the plugin, or start it again: with its state, without it, or without the files."""
        if not self.is_away:
            self.is_away = True
            return
        kept = self.random.choice(["state", "files", "both"])
        state = restore(snapshot(self.host.engine.state)) if kept != "files" else None
        self.host.engine = Engine(self.host.engine.context, state)
        known = None if kept == "state" else tuple(self.prepared.values())
        self.host.synchronize_with(known)
        self.is_away = False
        if known is None:  # the files are read again
            for uid in sorted(self.host.engine.state.claims.keys() - self.prepared.keys()):
                self.host.release(Claim(uid, "", "", {}))

    # What is true whenever the plugin runs.

    def check(self) -> None:
        state = self.host.engine.state
        assert check_sums(state) == ()
        assert state.claims.keys() == self.prepared.keys()
        charged = {
            uid for uid, names in state.accounting.assignments.items() if HolderKind.CLAIM in names
        }
        assert charged == state.claims.keys()
        users: dict[str, int] = {}
        for each in state.claims.values():
            for user in each.users.values():
                users[user.container_id] = (
                    users.get(user.container_id, 0) + user.held_bytes["memory"]
                )
        running = {
            each.container_id: each.memory_limit_bytes
            for each in self.host.containers.values()
            if each.claims
        }
        assert users == running
        for each in state.claims.values():
            held = sum(user.held_bytes["memory"] for user in each.users.values())
            assert held <= sum(wanted["memory"] for wanted in each.claim.amounts.values())

    def end(self) -> None:
        if self.is_away:
            self.restart()
        for pod in [pod for pod in self.host.pods.values() if pod.uid.startswith("plain")]:
            for container in self.of(pod):
                del self.host.containers[container.container_id]
            self.host.remove_pod(pod)
        self.prepare_again()
        for uid in sorted(self.prepared):
            self.end_pod_of(uid)
            self.host.release(self.claims.pop(uid))
        for claim in self.claims.values():  # no pod waits for ever
            assert self.host.prepare(claim).refusal is None
            self.host.release(claim)
        assert self.host.engine.state.claims == {}
        assert self.host.engine.state.accounting.assignments == {}

    def end_pod_of(self, uid: str) -> None:
        """Let the runtime end the containers of a claim, and the pod."""
        pod = self.host.pods[f"sandbox-pod-{uid}"]
        for container in self.of(pod):
            del self.host.containers[container.container_id]
            if not self.is_away:
                self.host.stop(container)
        del self.host.pods[pod.sandbox_id]
        if not self.is_away:
            self.host.stop_pod(pod)


def play(seed: int) -> None:
    """Run a life; raises AssertionError with its number."""
    try:
        Life(seed).run()
    except Exception as error:
        raise AssertionError(f"life {seed}") from error


def main() -> None:
    """Run many lives; the argument is their number."""
    count = int(sys.argv[1])
    with ProcessPoolExecutor() as pool:
        for _ in pool.map(play, range(count), chunksize=20):
            pass
    print(f"{count} lives with resource claims: no violation")


if __name__ == "__main__":
    main()
