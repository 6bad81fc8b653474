"""``nri-numamem demo``: show placement on a simulated machine, on any host, in a second.

For each step the demo prints the pod's request, the decision, and the memory per NUMA node. The
engine that serves a runtime decides, in this process; ``steps`` has the data. ``make run`` plays
the same steps through a plugin process.
"""

import argparse

from rich.console import Console

from nri_numamem.cli.demo.steps import (
    CONFIG,
    MACHINE_TEXT,
    STEPS,
    Host,
    PodSpec,
    RefusedError,
    Started,
    Step,
    machine,
)
from nri_numamem.cli.render.screen import Screen, new_console
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
from nri_numamem.numa.quantity import format_page_size, format_quantity, hugepages_resource

EXAMPLES = ("nri-numamem demo",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Set the epilog; the command has no options."""
    parser.epilog = "Needs no container runtime, no NUMA hardware and no root privileges."


def main(_args: argparse.Namespace) -> int:
    """Run the demo; return 0."""
    play(SimulatedHost(), new_console(), "A simulated machine; no container is started")
    return 0


def play(host: Host, console: Console, title: str) -> None:
    """Print the machine below `title`, then run and print each step."""
    screen = Screen(console)
    screen.heading(title)
    screen.text(MACHINE_TEXT)
    accounting = host.accounting()
    screen.accounting(accounting, None, host.pod_names)
    screen.legend()
    for number, step in enumerate(STEPS, start=1):
        screen.heading(f"{number}. {step.title}")
        _play_step(host, screen, step)
        before, accounting = accounting, host.accounting()
        screen.accounting(accounting, before, host.pod_names)


def _play_step(host: Host, screen: Screen, step: Step) -> None:
    if step.removes:
        host.remove_pod(step.pod)
        screen.labelled("removed", f"pod {step.pod.name}")
        return
    screen.labelled("request", describe(step.pod))
    try:
        started = host.start_pod(step.pod)
    except RefusedError as refused:
        screen.labelled("rejected", str(refused), "red")
        return
    pinning = describe_started(started)
    screen.labelled("result", pinning or "cpuset.mems is not set", "green" if pinning else "")


def describe(pod: PodSpec) -> str:
    """Return a pod's request as one line."""
    parts = [f"pod {pod.name}, container {pod.container}: {pod.qos.value}"]
    if pod.memory_bytes:
        parts.append(f"memory {format_quantity(pod.memory_bytes)}")
    for size_bytes, limit_bytes in pod.hugepages.items():
        parts.append(f"{hugepages_resource(size_bytes)} {format_quantity(limit_bytes)}")
    return ", ".join(parts)


def describe_started(started: Started) -> str:
    """Return a container's memory nodes and hugepage limits as one line; "" for none."""
    parts = [f"cpuset.mems {started.cpuset_mems}"] if started.cpuset_mems else []
    for size_bytes, limit_bytes in sorted(started.hugepage_limits.items()):
        size = format_page_size(size_bytes)
        parts.append(f"hugetlb.{size}.max {format_quantity(limit_bytes)}")
    return ", ".join(parts)


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
