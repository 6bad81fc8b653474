"""``nri-numamem demo``: show placement on a simulated machine, on any host, in a second.

For each step the demo prints the pod's request, the decision, and the memory per NUMA node. The
engine that serves a runtime decides, in this process. This module prints; ``steps`` has the data,
and ``simulated_host`` the engine. ``make run`` plays the same steps through a plugin process.
"""

import argparse

from rich.console import Console

from nri_numamem.cli.demo.simulated_host import SimulatedHost
from nri_numamem.cli.demo.steps import (
    MACHINE_TEXT,
    STEPS,
    Host,
    PodSpec,
    RefusedError,
    Started,
    Step,
)
from nri_numamem.cli.render.screen import Screen, new_console
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
