"""The demo's host: its machine, and pods with one container each, in the engine of this process."""

from nri_numamem.cli.demo.steps import CONFIG, PodSpec, RefusedError, Started, machine
from nri_numamem.config.load import load_text
from nri_numamem.config.policy import context_of
from nri_numamem.engine.core.events import (
    Container,
    CreateContainer,
    PodSandbox,
    RunPodSandbox,
    StopPodSandbox,
)
from nri_numamem.engine.engine import Engine
from nri_numamem.memorymanager import QosClass
from nri_numamem.memorymanager.state_json import StateJson, state_json

# The kubelet's cgroups of each QoS class, with the cgroupfs driver.
_PARENTS = {
    QosClass.GUARANTEED: "/kubepods",
    QosClass.BURSTABLE: "/kubepods/burstable",
    QosClass.BEST_EFFORT: "/kubepods/besteffort",
}


class SimulatedHost:
    """A host without a runtime: events go to the engine, and plans are its replies."""

    def __init__(self) -> None:
        self._engine = Engine(context_of(load_text(CONFIG, "demo"), machine()))
        self._pods: dict[str, PodSandbox] = {}
        self.pod_names: dict[str, str] = {}
        """Pod uid -> name of every pod that was started."""

    def accounting(self) -> StateJson:
        """Return the accounting as it is now."""
        return state_json(self._engine.state.accounting)

    def start_pod(self, spec: PodSpec) -> Started:
        """Start a pod with its container; raise RefusedError, without it, if refused."""
        uid = f"{spec.name}-uid"
        self.pod_names[uid] = spec.name
        pod = self._pods[spec.name] = PodSandbox(
            f"{spec.name}-sandbox",
            uid,
            "default",
            spec.name,
            f"{_PARENTS[spec.qos]}/pod{uid}",
            spec.memory_bytes or None,
            spec.hugepages,
        )
        self._engine.apply(RunPodSandbox(pod))
        container = Container(
            f"{spec.name}-id", pod.sandbox_id, spec.container, spec.memory_bytes or None
        )
        plan = self._engine.apply(CreateContainer(pod, container)).plan
        if plan.refusal is not None:
            self.remove_pod(spec)
            raise RefusedError(plan.refusal)
        if plan.adjustment is None:
            return Started()
        return Started(plan.adjustment.cpuset_mems, plan.adjustment.hugepage_limits)

    def remove_pod(self, spec: PodSpec) -> None:
        """Stop a pod with its container."""
        self._engine.apply(StopPodSandbox(self._pods.pop(spec.name)))
