"""Records of CPUs that follow memory."""

from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.fields import Fields, container_fields
from nri_numamem.engine.core.plan import Record
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.records.events import EventName
from nri_numamem.numa import CpuSet, NodeSet


def chosen(
    pod: PodSandbox, container: Container, nodes: NodeSet, cpus: CpuSet, cause: str
) -> Record:
    """Record the CPUs of a container on `nodes`; none if `cause` is an obstacle."""
    fields: Fields = {**container_fields(pod, container), "nodes": str(nodes)}
    if cpus:
        fields["cpus"] = str(cpus)
    if cause:
        fields["cause"] = cause
    return Record(EventName.CPUS_SET if cpus else EventName.CPUS_NOT_SET, fields)


def changed(state: EngineState, holder: Holder, cpus: CpuSet) -> Record:
    """Record other CPUs for a container that runs."""
    uid, name = holder.key
    pod = state.pods.get(holder.sandbox_id)
    blocks = state.blocks(holder.key)
    fields: Fields = {
        **({} if pod is None else {"pod": pod.name, "namespace": pod.namespace}),
        "container": name,
        "pod_uid": uid,
        "container_id": holder.container_id,
        "nodes": str(blocks[0].numa_affinity) if blocks else "",
        "cpus": str(cpus),
        "previous_cpus": str(holder.cpus),
    }
    return Record(EventName.CPUS_SET, fields)


def left_to_kubelet(*, is_static: bool) -> Record:
    """Record that the setting has no effect beside a static CPU manager, or has one again."""
    event = EventName.CPUS_LEFT_TO_KUBELET if is_static else EventName.CPUS_FOLLOW_MEMORY
    return Record(event)
