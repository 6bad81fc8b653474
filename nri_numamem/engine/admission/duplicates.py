"""Two running containers of one pod with the same name, in two sandboxes.

The key of an assignment is pod uid and container name, so that a container that is created again
gets its previous assignment. While an earlier sandbox of the pod still runs a container of that
name, both containers use memory. The earlier one is then recorded under its container id, as a
container whose name is unknown; it keeps its nodes until it or its sandbox ends.
"""

from dataclasses import replace

from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.fields import container_names
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.records.containers import DuplicateContainer
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager import rename_container


def separate(
    state: EngineState, pod: PodSandbox, container: Container
) -> tuple[EngineState, Record | None]:
    """Return the state in which the key of a container is not that of another sandbox's container.

    The record is None if no such container runs.
    """
    key = (pod.uid, container.name)
    other = running_duplicate(state, pod, container)
    if other is None:
        return state, None
    renamed = replace(other, key=(pod.uid, other.container_id))
    accounting = rename_container(state.accounting, *key, other.container_id)
    state = state.without_holder(other, state.accounting).with_holder(renamed, accounting)
    record = DuplicateContainer(
        names=container_names(pod, container),
        sandbox_id=pod.sandbox_id,
        other_container_id=other.container_id,
        other_sandbox_id=other.sandbox_id,
    )
    return state, record


def running_duplicate(state: EngineState, pod: PodSandbox, container: Container) -> Holder | None:
    """Return the holder of a container's key if it runs in another sandbox; None otherwise.

    Also None where the key with the container id is in use: the two cannot be separated then. Only
    a runtime that uses one id or name for several containers causes that.
    """
    other = state.holders.get((pod.uid, container.name))
    is_separate = (
        other is None
        or other.ended
        or other.container_id == container.container_id
        or other.sandbox_id == pod.sandbox_id
        or other.sandbox_id not in state.pods
        or (pod.uid, other.container_id) in state.holders
    )
    return None if is_separate else other
