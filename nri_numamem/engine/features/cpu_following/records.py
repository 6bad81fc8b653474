"""Records of CPUs that follow memory."""

from typing import Annotated

from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.fields import container_names, holder_names
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.records.common import Cause, ContainerNames, Nodes
from nri_numamem.engine.records.record import Record, event
from nri_numamem.numa import CpuSet, NodeSet


@event("cpus_set", kept=True)
class CpusSet(Record):
    """A container gets the CPUs of its NUMA nodes (cpuFollowsMemory)."""

    names: ContainerNames
    nodes: Nodes
    cpus: Annotated[CpuSet, "CPUs that it shares with others, in the kernel's list format"]
    previous_cpus: Annotated[CpuSet | None, "of a container that runs: the CPUs that it had"] = None
    cause: Annotated[str, "with `require`: why these CPUs may be too few"] = ""


@event("cpus_not_set", kept=True)
class CpusNotSet(Record):
    """A pinned container gets no CPUs and runs on any (cpuFollowsMemory)."""

    names: ContainerNames
    nodes: Nodes
    cause: Cause


def chosen(
    pod: PodSandbox, container: Container, nodes: NodeSet, cpus: CpuSet, cause: str
) -> CpusSet | CpusNotSet:
    """Record the CPUs of a container on `nodes`; none if `cause` is an obstacle."""
    names = container_names(pod, container)
    if not cpus:
        return CpusNotSet(names=names, nodes=nodes, cause=cause)
    return CpusSet(names=names, nodes=nodes, cpus=cpus, cause=cause)


def changed(state: EngineState, holder: Holder, cpus: CpuSet) -> CpusSet:
    """Record other CPUs for a container that runs."""
    blocks = state.blocks(holder.key)
    return CpusSet(
        names=holder_names(state, holder),
        nodes=blocks[0].numa_affinity if blocks else NodeSet(),
        cpus=cpus,
        previous_cpus=holder.cpus,
    )
