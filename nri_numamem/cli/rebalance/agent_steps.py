"""The steps of a plan of the agent: those of ``rebalance``, with the agent's rules and Events."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event

from nri_numamem.cli.rebalance.carry_out import Victim
from nri_numamem.cli.rebalance.cluster import Cluster
from nri_numamem.cli.rebalance.history_file import EvictionHistoryFile
from nri_numamem.cli.rebalance.host import Host
from nri_numamem.cli.render.texts import format_time
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.export.evictions import ClusterPod, Evicted, Outcome
from nri_numamem.export.podevents import PodEvent
from nri_numamem.export.rebalancing import Rules


class StoppedError(Exception):
    """The agent stops."""


@dataclass(slots=True)
class AgentSteps(Host):
    """The steps of a plan, which follow the rules."""

    cluster: Cluster
    rules: Rules = field(kw_only=True)
    history: EvictionHistoryFile = field(kw_only=True)
    refused: ClusterPod = field(kw_only=True)
    is_over: Event = field(kw_only=True)
    post: Callable[[PodEvent], None] = field(kw_only=True)

    def obstacle(self, victim: Victim) -> str:
        """Return why a pod must not be evicted, also by the rules; "" if it may."""
        found = self.cluster.obstacle(victim)
        if found:
            return found
        pod, now_s = self.cluster.pod(victim.uid), time.time()
        return self.history.read().why_not_evicted(self.rules, now_s, self.refused, pod)

    def evict(self, victim: Victim) -> Evicted:
        """Record and request an eviction; a budget that forbids it ends the plan."""
        pod = self.cluster.pod(victim.uid)
        self.history.write(self.history.read().evicted(time.time(), pod, self.rules))
        found = Host.evict(self, victim)
        if found.outcome is Outcome.WAIT:
            return Evicted(Outcome.FAILED, found.cause)
        if found.outcome is Outcome.DONE:
            message = (
                f"evicted to make room on {format_nodes(self.target.nodes)} for {self.refused}; "
                f"it fits on node {victim.target} of this host"
            )
            self.post(pod_event(pod, self.uid, message))
        return found

    def sleep(self, seconds: float) -> None:
        """Wait; raise StoppedError if the agent stops."""
        if self.is_over.wait(seconds):
            raise StoppedError


def pod_event(pod: ClusterPod, key: str, message: str, *, is_warning: bool = False) -> PodEvent:
    """Return an Event of now."""
    now_s, kind = time.time(), "Warning" if is_warning else "Normal"
    names, reason = (pod.namespace, pod.name, pod.uid), "NUMAMemoryRebalanced"
    return PodEvent(*names, key, reason, message, format_time(now_s), now_s, type=kind)
