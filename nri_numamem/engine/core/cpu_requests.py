"""The CPU requests of the containers that have an assignment, per NUMA node, in millicores.

NRI has no CPU requests, but `cpu.shares`: 1,024 for each requested CPU, which is exact to the
millicore. Without shares a CPU limit counts, which is the request of a Guaranteed container. If
neither is known, the request counts as 0.

The request of a container on several nodes is divided in proportion to the CPUs of its nodes, since
the kernel runs it on any of them. Ended containers and the pools of pods do not count.

The sums are computed from the holders when a decision needs them. A holder has its request from the
container's creation, its updates, and each Synchronize.
Source: kubelet pkg/kubelet/cm, MilliCPUToShares (rounds down; 2 to 262,144 shares).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import Container, UpdateContainer
from nri_numamem.engine.core.state import EngineState
from nri_numamem.numa import CpuSet, Machine

if TYPE_CHECKING:
    from nri_numamem.numa.preferences import Balance

MILLICORES = 1000
"""Of one CPU."""

_SHARES_PER_CPU = 1024
_SHARES_WITHOUT_REQUEST = 2
_MAX_SHARES = 262_144


def requested_millicores(container: Container) -> int:
    """Return the CPU request of a container; 0 if it is unknown."""
    shares = container.cpu_shares
    return container.cpu_limit_millicores or 0 if shares is None else millicores_of(shares)


def millicores_of(shares: int) -> int:
    """Return the CPU request that the kubelet expresses by these shares."""
    if shares <= _SHARES_WITHOUT_REQUEST:
        return 0
    return -(-min(shares, _MAX_SHARES) * MILLICORES // _SHARES_PER_CPU)


def shares_of(millicores: int) -> int:
    """Return the shares by which the kubelet expresses a CPU request."""
    shares = millicores * _SHARES_PER_CPU // MILLICORES
    return min(max(shares, _SHARES_WITHOUT_REQUEST), _MAX_SHARES)


def cpu_requests(state: EngineState, machine: Machine) -> dict[int, int]:
    """Return the sum of CPU requests for each node of the machine, in millicores."""
    cpus = {node.node_id: len(node.cpus) for node in machine.nodes}
    found = dict.fromkeys(cpus, 0)
    for nodes, millicores in _requests(state):
        if len(nodes) == 1:
            if nodes[0] in found:
                found[nodes[0]] += millicores
            continue
        for node_id, share in split_by_cpus(millicores, {n: cpus.get(n, 0) for n in nodes}).items():
            found[node_id] += share
    return found


def unusable_cpus(context: Context) -> CpuSet:
    """Return the CPUs that containers must not share: reserved, or without load balancing."""
    return context.policy.reserved_cpus | context.host_cpus.isolated


def usable_millicores(context: Context) -> dict[int, int]:
    """Return node -> the CPUs that containers may share, in millicores."""
    unusable = unusable_cpus(context)
    return {node.node_id: MILLICORES * len(node.cpus - unusable) for node in context.machine.nodes}


def balance_of(
    context: Context,
    state: EngineState,
    container: Container | None,
    requests: Mapping[int, int] | None,
) -> "Balance":
    """Return the CPU requests that a choice between equally close nodes compares.

    Without a container, as in pod scope, the CPU request of the pod is unknown and counts as 0.
    `requests` are the sums by node, in millicores, if `state` is only a part of the state.
    """
    from nri_numamem.numa.preferences import Balance  # noqa: PLC0415 - only for features that are on

    added = 0 if container is None else requested_millicores(container)
    sums = cpu_requests(state, context.machine) if requests is None else requests
    return Balance(usable_millicores(context), sums, added)


class RunningSums:
    """The sums of ``cpu_requests`` while the state is changed pod by pod (``bulk_update``)."""

    def __init__(self, state: EngineState, machine: Machine) -> None:
        self.sums: Mapping[int, int] = cpu_requests(state, machine)
        self._machine = machine

    def replace(self, before: EngineState, after: EngineState) -> None:
        """Replace the view `before` of one pod by the view `after` of the same pod."""
        old, new = cpu_requests(before, self._machine), cpu_requests(after, self._machine)
        self.sums = {
            node_id: size - old[node_id] + new[node_id] for node_id, size in self.sums.items()
        }


def _requests(state: EngineState) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield nodes and millicores of each live container that has a request and nodes."""
    for key, holder in state.holders.items():
        if holder.cpu_millicores and not holder.ended:
            blocks = state.blocks(key)
            if blocks:
                yield tuple(blocks[0].numa_affinity), holder.cpu_millicores


def split_by_cpus(millicores: int, cpus: Mapping[int, int]) -> dict[int, int]:
    """Divide a request among nodes in proportion to their CPUs, by node id, without remainder.

    Nodes without CPUs get nothing; the result is empty if no node has CPUs.
    """
    shares: dict[int, int] = {}
    total = sum(cpus.values())
    end = count = 0
    for node_id, each in cpus.items():
        if each:
            start, count = end, count + each
            end = millicores * count // total
            shares[node_id] = end - start
    return shares


def updated(state: EngineState, event: UpdateContainer) -> EngineState:
    """Return the state with the CPU request that an update sets, if it sets one."""
    if event.cpu_shares is None:
        return state
    holder = state.holder(event.container.container_id)
    millicores = millicores_of(event.cpu_shares)
    if holder is None or holder.ended or holder.cpu_millicores == millicores:
        return state
    holders = {**state.holders, holder.key: replace(holder, cpu_millicores=millicores)}
    return state.with_all(state.accounting, holders, state.keys)
