"""What a plan waits for: the refused pod runs, or the refused claim is charged."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nri_numamem.cli.earmark import Target
from nri_numamem.cli.rebalance.cluster import Cluster
from nri_numamem.engine.core.json_fields import SnapshotError
from nri_numamem.engine.core.snapshot import restore
from nri_numamem.numa import NodeSet
from nri_numamem.observe import claim_files


class Followed(Protocol):
    """The pod or the claim for which a plan is."""

    def nodes(self) -> NodeSet:
        """Return its nodes; empty while it has none."""

    def waits(self) -> bool:
        """Return whether it still exists."""


@dataclass(frozen=True, slots=True)
class RefusedPod:
    """Follows the container that was refused."""

    state_file: Path
    target: Target
    cluster: Cluster | None

    def nodes(self) -> NodeSet:
        """Return the nodes of the container."""
        try:
            state = restore(self.state_file.read_bytes())
        except (OSError, SnapshotError):  # the plugin may start just now
            return NodeSet()
        uid, container = self.target.beneficiary.uid, self.target.container
        return NodeSet(
            node_id
            for key, holder in state.holders.items()
            if key[0] == uid and container in ("", key[1]) and not holder.ended
            for block in state.blocks(key) or ()
            for node_id in block.numa_affinity
        )

    def waits(self) -> bool:
        """Return whether the API server has the pod.

        True without an API server, and for a pod that does not exist yet: it has no uid.
        """
        who, cluster = self.target.beneficiary, self.cluster
        return cluster is None or not who.uid or cluster.exists(who.namespace, who.name, who.uid)


@dataclass(frozen=True, slots=True)
class LateClaim:
    """Follows a claim until the kubelet has tried it again, and the plugin has charged it."""

    state_file: Path
    target: Target

    def nodes(self) -> NodeSet:
        """Return the nodes of the claim; empty while it is not charged."""
        replies = claim_files.read_answers(claim_files.directory_of(self.state_file))
        reply = replies.get(self.target.beneficiary.uid)
        return NodeSet() if reply is None or reply.refusal else self.target.nodes

    def waits(self) -> bool:
        """Return whether the kubelet still wants it."""
        directory = claim_files.directory_of(self.state_file)
        return self.target.beneficiary.uid in claim_files.read_intents(directory).uids
