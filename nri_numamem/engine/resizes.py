"""What is said of a running container whose memory limit is changed: done, or refused.

A refusal makes the runtime fail the resize, and nothing else: the container runs on as it was.
The kubelet shows the text in the pod's condition, and tries again.
"""

from nri_numamem.engine.events import PodSandbox
from nri_numamem.engine.free import free
from nri_numamem.engine.plan import Record
from nri_numamem.engine.providers import words_for
from nri_numamem.engine.records import PREFIX, Fields, which
from nri_numamem.engine.state import EngineState, Holder
from nri_numamem.memorymanager import MEMORY, Block, Resized, humanize_bytes


def resized(
    state: EngineState,
    pod: PodSandbox,
    holder: Holder,
    before: tuple[Block, ...],
    done: Resized,
) -> Record:
    """Record a running container whose memory limit changed; `state` has it already."""
    fields: Fields = {
        **_who(pod, holder, before),
        "request": {block.type: block.size for block in state.blocks(holder.key) or ()},
        "nodes_before": str(before[0].numa_affinity),
        "nodes": str(done.nodes),
        "free": free(state, (MEMORY,)),
    }
    if done.shortfall:
        fields["does_not_fit"] = dict(done.shortfall)
    return Record("resized", "warning" if done.shortfall else "info", fields)


def refused(
    state: EngineState,
    pod: PodSandbox,
    holder: Holder,
    before: tuple[Block, ...],
    done: Resized,
) -> Record:
    """Record one whose new limit has no room; `state` stays, `done` is what it would have been."""
    fields: Fields = {
        **_who(pod, holder, before),
        "request": {block.type: block.size for block in done.state.blocks(*holder.key) or ()},
        "nodes": str(before[0].numa_affinity),
        "does_not_fit": dict(done.shortfall),
        "free": free(state, (MEMORY,)),
    }
    return Record("resize refused", "warning", fields)


def refusal_text(
    state: EngineState, pod: PodSandbox, holder: Holder, new_bytes: int, done: Resized
) -> str:
    """Return what the runtime is told, and with it the pod's owner."""
    rest = "; ".join(
        f"NUMA node {node_id} has {humanize_bytes(node.table(MEMORY).free)} free"
        for node_id, node in state.books.machine_state.items()
        if node_id in done.nodes
    )
    short = humanize_bytes(done.shortfall[MEMORY], round_up=True)
    return (
        f"{PREFIX}container {holder.key[1]} of pod {pod.namespace}/{pod.name} cannot be resized to "
        f"memory {humanize_bytes(new_bytes, round_up=True)}: {short} too much for "
        f"{words_for(done.nodes)} ({rest}), and no larger set of nodes may be used"
    )


def _who(pod: PodSandbox, holder: Holder, before: tuple[Block, ...]) -> Fields:
    return {
        **which(pod),
        "container": holder.key[1],
        "container_id": holder.container_id,
        "memory_before": {block.type: block.size for block in before}.get(MEMORY),
    }
