"""``nri-numamem demo``: run the plugin on a simulated machine, on any host, in seconds.

For each step the demo prints the pod's request, the plugin's reply, and the memory per NUMA node.
This module prints; ``steps`` has the data, and ``sandbox`` runs the plugin.
"""

import argparse
import sys

from rich.console import Console

from nri_numamem.cli.demo.sandbox import DemoSandbox, SandboxError
from nri_numamem.cli.demo.steps import MACHINE_TEXT, STEPS, PodSpec, Step
from nri_numamem.cli.render.screen import Screen, new_console
from nri_numamem.fake_runtime.runtime import PluginRefused
from nri_numamem.nri import api_pb2 as api
from nri_numamem.numa.quantity import format_quantity, hugepages_resource, parse_page_size

EXAMPLES = ("nri-numamem demo",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Set the epilog; the command has no options."""
    parser.epilog = "Needs no container runtime, no NUMA hardware and no root privileges."


def main(_args: argparse.Namespace) -> int:
    """Run the demo; return 0, or 1 after printing an error."""
    try:
        with DemoSandbox() as sandbox:
            play(sandbox, new_console())
    except SandboxError as error:
        print(f"nri-numamem: demo: {error}", file=sys.stderr)
        return 1
    return 0


def play(sandbox: DemoSandbox, console: Console) -> None:
    """Print the machine, then run and print each step."""
    screen = Screen(console)
    screen.heading("A simulated machine; the plugin runs as a separate process")
    screen.text(MACHINE_TEXT)
    accounting = sandbox.accounting()
    screen.accounting(accounting, None, sandbox.pod_names)
    screen.legend()
    for number, step in enumerate(STEPS, start=1):
        screen.heading(f"{number}. {step.title}")
        _play_step(sandbox, screen, step)
        before, accounting = accounting, sandbox.accounting()
        screen.accounting(accounting, before, sandbox.pod_names)
    screen.heading(f"{len(STEPS)} steps, {sandbox.call_count} NRI calls; temporary files removed")


def _play_step(sandbox: DemoSandbox, screen: Screen, step: Step) -> None:
    if step.removes:
        sandbox.remove_pod(step.pod)
        screen.labelled("removed", f"pod {step.pod.name}")
        return
    screen.labelled("request", describe(step.pod))
    try:
        resources = sandbox.start_pod(step.pod)
    except PluginRefused as refused:
        screen.labelled("rejected", refused.text, "red")
        return
    pinning = describe_resources(resources)
    screen.labelled("result", pinning or "cpuset.mems is not set", "green" if pinning else "")


def describe(pod: PodSpec) -> str:
    """Return a pod's request as one line."""
    parts = [f"pod {pod.name}, container {pod.container}: {pod.qos.value}"]
    if pod.memory_bytes:
        parts.append(f"memory {format_quantity(pod.memory_bytes)}")
    for size_bytes, limit_bytes in pod.hugepages.items():
        parts.append(f"{hugepages_resource(size_bytes)} {format_quantity(limit_bytes)}")
    return ", ".join(parts)


def describe_resources(resources: api.LinuxResources) -> str:
    """Return a container's memory nodes and hugepage limits as one line; "" for none."""
    parts = [f"cpuset.mems {resources.cpu.mems}"] if resources.cpu.mems else []
    limits = {limit.page_size: limit.limit for limit in resources.hugepage_limits}
    for key, value in resources.unified.items():
        size = key.removeprefix("hugetlb.").removesuffix(".max")
        if key.startswith("hugetlb.") and not size.endswith(".rsvd"):
            limits[size] = int(value)
    for size, limit_bytes in sorted(limits.items(), key=lambda item: parse_page_size(item[0])):
        parts.append(f"hugetlb.{size}.max {format_quantity(limit_bytes)}")
    return ", ".join(parts)
