"""What happens to a pod's sandbox: run, stopped, removed.

A pod's end releases what its containers held; only where that was is kept, for a pod that comes
back under its uid. It is the sandbox that ends, not the uid: a pod
whose sandbox is made anew keeps its uid, and the old sandbox may be removed after the new one's
containers were created.
"""

from nri_numamem.engine import podscope, records
from nri_numamem.engine.context import Context
from nri_numamem.engine.events import (
    PodCgroupGone,
    PodSandbox,
    RemovePodSandbox,
    RunPodSandbox,
    StopPodSandbox,
)
from nri_numamem.engine.plan import Plan
from nri_numamem.engine.state import EngineState
from nri_numamem.memorymanager import remove_container

Outcome = tuple[EngineState, Plan]


def run_pod_sandbox(context: Context, state: EngineState, event: RunPodSandbox) -> Outcome:
    """Note the pod; in pod scope also place it. Never refused: some runtimes do not survive it."""
    state, found = podscope.start(context, state.with_pod(event.pod), event.pod, event.pool_use)
    return state, Plan(records=found)


def stop_pod_sandbox(_context: Context, state: EngineState, event: StopPodSandbox) -> Outcome:
    """Release everything that the sandbox's containers hold."""
    return end_sandbox(state, event.pod)


def remove_pod_sandbox(_context: Context, state: EngineState, event: RemovePodSandbox) -> Outcome:
    """Do the same where the stop was never told; else nothing."""
    return end_sandbox(state, event.pod)


def pod_cgroup_gone(_context: Context, state: EngineState, event: PodCgroupGone) -> Outcome:
    """Release a sandbox whose end nobody told."""
    return end_sandbox(state, event.pod)


def end_sandbox(state: EngineState, pod: PodSandbox) -> Outcome:
    """Release the sandbox; containers of the same pod in another sandbox keep theirs."""
    ended = [h for h in state.holders.values() if h.sandbox_id == pod.sandbox_id]
    if not ended and pod.sandbox_id not in state.pods:
        return state, Plan()
    next_state = state.without_pod(pod.sandbox_id, state.homes_with(ended))
    for holder in ended:
        books = remove_container(next_state.books, *holder.key)
        next_state = next_state.without_holder(holder, books)
    if not ended:
        return next_state, Plan()
    return next_state, Plan(records=(records.released(next_state, pod, ended),))
