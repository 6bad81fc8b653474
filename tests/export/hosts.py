"""Small machines, and states of the plugin on them."""

from collections.abc import Mapping
from dataclasses import replace

from nri_numamem.engine.core.events import Container, CreateContainer, PodSandbox
from nri_numamem.engine.core.plan import Plan
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import PoolUse, Reservation
from nri_numamem.numa import CpuSet, Machine, NodeSet, NumaNode

MI = 1 << 20
GI = 1 << 30
PAGE = 2 * MI

SINGLE = Policy(
    topology_manager_policy="single-numa-node",
    reserved_memory=tuple(Reservation(node, {"memory": 64 * MI}) for node in range(2)),
)


def two_nodes(**changes: object) -> Machine:
    """1 GiB, 16 pages of 2Mi and four CPUs each; `changes` are those of node 1."""
    nodes = [
        NumaNode(
            node,
            GI,
            {PAGE: 16},
            CpuSet(range(4 * node, 4 * node + 4)),
            {node: 10, 1 - node: 21},
        )
        for node in range(2)
    ]
    return Machine((nodes[0], replace(nodes[1], **changes)))  # type: ignore[arg-type]


def allocatable() -> int:
    """Return the bytes that pods may use of each of the two nodes."""
    return GI - 64 * MI - 16 * PAGE


def new_engine(policy: Policy = SINGLE, machine: Machine | None = None) -> Engine:
    return Engine(new_context(machine or two_nodes(), policy))


def pod_of(
    uid: str, memory: int | None = None, hugepages: Mapping[int, int] | None = None
) -> PodSandbox:
    return PodSandbox(
        f"s-{uid}", uid, "ns", f"pod-{uid}", f"/kubepods/pod{uid}", memory, hugepages or {}
    )


def create(
    engine: Engine,
    uid: str,
    memory: int,
    *,
    pages: int = 0,
    node: int | None = None,
    limit: int | None = None,
    pool_use: PoolUse | None = None,
) -> Plan:
    """Create the first container of a pod, beside a device of a node if one is given."""
    hugepages = {PAGE: pages * PAGE} if pages else {}
    pod = pod_of(uid, memory if limit is None else limit, hugepages)
    devices = () if node is None else (NodeSet([node]),)
    container = Container(
        f"c-{uid}", pod.sandbox_id, "main", memory, hugepages, device_nodes=devices
    )
    return engine.apply(CreateContainer(pod, container, pool_use)).plan
