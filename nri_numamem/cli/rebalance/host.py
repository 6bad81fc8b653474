"""The host, the plugin and the API server, as a plan uses them."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nri_numamem.cli.earmark import Target
from nri_numamem.cli.live import earmark_requests
from nri_numamem.cli.rebalance.carry_out import MARGIN_S, Victim, earmarks_of, replacement_uid
from nri_numamem.cli.rebalance.cluster import Cluster
from nri_numamem.cli.rebalance.followed import Followed
from nri_numamem.config.errors import UsageError
from nri_numamem.engine.core.earmarks import Earmark
from nri_numamem.export.evictions import Evicted, Outcome
from nri_numamem.host.pod_cgroups import guaranteed_pods, other_pods
from nri_numamem.memorymanager.earmarks import Room
from nri_numamem.memorymanager.rebalance import Rebalancing


@dataclass(slots=True)
class Host:
    """The ``carry_out.Surroundings`` of a plan."""

    cgroup_root: Path
    directory: Path
    target: Target
    uid: str
    """Of the earmark."""
    cluster: Cluster | None
    followed: Followed
    waits_s: float
    victims: Sequence[Victim]
    say: Callable[[str], None] = lambda _line: None
    evicted: set[Victim] = field(default_factory=set)
    earmarks: list[str] = field(default_factory=list)
    """The uids of what is set aside."""

    def obstacle(self, victim: Victim) -> str:
        """Return why a pod must not be evicted; "" if it may."""
        return "" if self.cluster is None else self.cluster.obstacle(victim)

    def grace_s(self, victim: Victim) -> float:
        """Return how long a pod may take to end."""
        return 0.0 if self.cluster is None else self.cluster.grace_s(victim)

    def evict(self, victim: Victim) -> Evicted:
        """Request an eviction; without an API server, print the command."""
        if self.cluster is None:
            self.say(f"now run: kubectl delete pod --namespace {victim.namespace} {victim.name}")
            return Evicted(Outcome.DONE)
        found = self.cluster.evict(victim)
        if found.outcome in (Outcome.DONE, Outcome.UNANSWERED):
            self.evicted.add(victim)
        return found

    def is_gone(self, victim: Victim) -> bool:
        """Return whether the pod has no cgroup any more."""
        pods = guaranteed_pods(self.cgroup_root).keys() | other_pods(self.cgroup_root).keys()
        return victim.uid not in pods

    def runs(self) -> bool:
        """Return whether the refused pod runs, or the claim is charged."""
        return bool(self.followed.nodes())

    def waits(self) -> bool:
        """Return whether it still exists."""
        return self.followed.waits()

    def set_aside(self) -> str:
        """Make or renew the earmarks; return why the plugin refuses that of the target."""
        room = Room(self.target.nodes, self.target.amounts)
        expires_s = int(time.time() + self.waits_s + MARGIN_S)
        labels = {victim: self._labels(victim) for victim in self.victims}
        own, *others = earmarks_of(self.uid, room, self.target.beneficiary, expires_s, labels)
        refusal = self._make(own)
        for each in () if refusal else others:
            self._make(each)  # refused if too much would be set aside: the plan goes on without it
        return refusal

    def _make(self, earmark: Earmark) -> str:
        refusal = earmark_requests.set_aside(self.directory, earmark)
        if not refusal and earmark.uid not in self.earmarks:
            self.earmarks.append(earmark.uid)
        return refusal

    def _labels(self, victim: Victim) -> Mapping[str, str]:
        return {} if self.cluster is None else self.cluster.labels(victim.uid)

    def drop(self) -> None:
        """End the earmark, and those for pods that were not evicted."""
        kept = {replacement_uid(self.uid, victim) for victim in self.evicted}
        earmark_requests.end(self.directory, [uid for uid in self.earmarks if uid not in kept])
        self.earmarks = [uid for uid in self.earmarks if uid in kept]

    def now_s(self) -> float:
        """Return a monotonic time."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


def victims_of(found: Rebalancing, target: Target) -> Sequence[Victim]:
    """Return the pods of a plan; raise UsageError for one whose name is unknown."""
    victims: list[Victim] = []
    for move in found.moves:
        uid = move.share.uid
        if uid not in target.pods:
            raise UsageError(f"the name of the pod {uid} is unknown; restart it by hand")
        names, size = target.pods[uid], move.assigned_bytes
        victims.append(Victim(uid, *names, move.share.node_id, move.target, size))
    return victims
