"""What an entry of the history decides, and how often a container was refused in a row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile

from nri_numamem.cli.render.texts import known_time
from nri_numamem.engine.features.burstable_pods import records as burstable_pods
from nri_numamem.engine.features.claims import records as claims
from nri_numamem.engine.features.memory_policies.records import MemoryPolicyRejected
from nri_numamem.engine.records import connection, containers, pods, running
from nri_numamem.engine.records.common import UNPINNED, Decided
from nri_numamem.engine.records.record import Amounts, Record
from nri_numamem.numa import humanize_bytes
from nri_numamem.numa.quantity import MEMORY
from nri_numamem.observe.history.records import Recorded


class Outcome(StrEnum):
    """The result for a container."""

    PLACED = "placed"
    REFUSED = "refused"
    UNPINNED = "unpinned"
    """It runs unpinned, but its pod is Guaranteed, or Burstable and could be pinned."""
    NOT_MANAGED = "not_managed"
    UNKNOWN = "unknown"
    """The history has events of it, but no decision."""


_OUTCOMES: Mapping[type[Record], Outcome] = {
    containers.Admitted: Outcome.PLACED,
    containers.Adopted: Outcome.PLACED,
    containers.PinnedWhileRunning: Outcome.PLACED,
    running.CpusetMemsConflict: Outcome.PLACED,
    running.Resized: Outcome.PLACED,
    running.ResizeRejected: Outcome.PLACED,
    pods.PodAdmitted: Outcome.PLACED,
    pods.PodAdopted: Outcome.PLACED,
    containers.Rejected: Outcome.REFUSED,
    pods.PodRejected: Outcome.REFUSED,
    MemoryPolicyRejected: Outcome.REFUSED,
    claims.ClaimUsed: Outcome.PLACED,
    claims.ClaimResizeRejected: Outcome.PLACED,
    claims.ClaimUseRejected: Outcome.REFUSED,
    containers.UnpinnedNoCapacity: Outcome.UNPINNED,
    containers.RunningUnpinnedNoCapacity: Outcome.UNPINNED,
    burstable_pods.BurstableNotPinned: Outcome.UNPINNED,
    burstable_pods.BurstableUnpinned: Outcome.UNPINNED,
    containers.NotManaged: Outcome.NOT_MANAGED,
}
"""Of the records that always decide the same."""

_CAUSES: Mapping[type[Record], str] = {
    containers.UnpinnedNoCapacity: "whenUnsatisfiable is RunUnpinned, and nothing fits",
    containers.RunningUnpinnedNoCapacity: "it was created while the plugin was away, and nothing "
    "fits",
    containers.UnreportedContainerFound: "the runtime did not report it, and nothing fits",
    connection.RequestTimedOut: "its creation took too long and got an empty reply",
    connection.InternalError: "a bug in the plugin: its creation got an empty reply",
    running.CpusetMemsMissing: "its cgroup has no cpuset.mems",
    running.CpusetMemsConflict: "its cpuset.mems was set later, by the kubelet's Memory "
    "Manager, another plugin or an operator",
}

Considering = Decided | running.Resized | running.ResizeRejected
"""Records of decisions with the node sets that were considered."""
Requesting = Considering | containers.Adopted | pods.PodAdopted
"""Records of decisions on a request, with the free bytes after it."""


@dataclass(frozen=True, slots=True)
class Refusals:
    """How often the last decision was made in a row."""

    count: int
    first_s: float
    last_s: float

    def document(self) -> dict[str, object]:
        """Return the number and the times as in a document."""
        first, last = known_time(self.first_s), known_time(self.last_s)
        return {"count": self.count, "first": first, "last": last}


def outcome_of(entry: Recorded) -> Outcome | None:
    """Return the outcome that an entry decides; None if it decides none."""
    match entry.record:
        case (
            connection.RequestTimedOut(created=connection.Created(qos_class="Guaranteed"))
            | connection.InternalError(created=connection.Created(qos_class="Guaranteed"))
        ):
            return Outcome.UNPINNED
        case containers.UnreportedContainerFound(outcome=outcome):
            return Outcome.UNPINNED if outcome == UNPINNED else Outcome.PLACED
        case running.CpusetMemsMissing(outcome=outcome) if outcome == UNPINNED:
            return Outcome.UNPINNED
        case record:
            return _OUTCOMES.get(type(record))


def cause_of(record: Record) -> str:
    """Return why a container runs unpinned, or has nodes from elsewhere; "" for other records."""
    match record:
        case (
            MemoryPolicyRejected(cause=cause)
            | burstable_pods.BurstableNotPinned(cause=cause)
            | burstable_pods.BurstableUnpinned(cause=cause)
            | containers.Adopted(cause=cause)
            | claims.ClaimUseRejected(cause=cause)
            | claims.ClaimResizeRejected(cause=cause)
        ):
            return cause
        case claims.ClaimUsed() as used:
            return f"chosen by the scheduler: {_claimed(used)}"
        case running.CpusetMemsMissing() if record.cause:
            return record.cause
        case _:
            return _CAUSES.get(type(record), "")


def _claimed(used: claims.ClaimUsed) -> str:
    """Return "claim ns/app-numa, 40Gi memory on node 1"."""
    names = f"claim{'s' if len(used.claims) > 1 else ''} {', '.join(used.claims)}"
    amounts = used.claimed_bytes.items()
    return ", ".join((names, *(f"{amounts_text(each)} on node {node}" for node, each in amounts)))


def repeats(entry: Recorded) -> int:
    """Return how many decisions an entry stands for."""
    match entry.record:
        case (
            containers.Unplaced(repeat_count=count)
            | containers.NotManaged(repeat_count=count)
            | running.ResizeRejected(repeat_count=count)
            | pods.PodRejected(repeat_count=count)
            | MemoryPolicyRejected(repeat_count=count)
        ):
            return 1 + max(0, count or 0)
        case _:
            return 1


def refusals_of(decisions: Sequence[Recorded], outcome: Outcome) -> Refusals | None:
    """Return how often in a row the last decision was made."""
    if not decisions or outcome in (Outcome.PLACED, Outcome.UNKNOWN):
        return None
    row = list(takewhile(lambda entry: outcome_of(entry) is outcome, reversed(decisions)))
    return Refusals(sum(map(repeats, row)), row[-1].time_s, row[0].time_s)


def request_of(entry: Recorded) -> Amounts:
    """Return what the candidates were for: resource -> bytes, without zeros."""
    content = containers.content_of(entry.record)
    request: Amounts = {}
    if isinstance(content, Requesting):
        request = content.request_bytes
    if isinstance(content, containers.Unplaced) and content.pod_request_bytes:
        request = content.pod_request_bytes
    return {name: size for name, size in request.items() if size}


def amounts_text(amounts: Mapping[str, int]) -> str:
    """Return "40Gi memory, 4Gi hugepages-1Gi", memory first."""
    order = sorted(amounts, key=lambda name: (name != MEMORY, name))
    found = [f"{humanize_bytes(amounts[name])} {name}" for name in order if amounts[name]]
    return ", ".join(found) or "nothing"
