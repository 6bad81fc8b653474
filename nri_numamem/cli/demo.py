"""``nri-numamem demo``: the plugin at work on a simulated machine, on any host, in seconds.

Shows for each pod what was asked, what the plugin answered, and the machine afterwards. This
file only shows; what is played is in demo_story, and who plays it in demo_stage.
"""

import argparse
import sys

from rich.console import Console

from nri_numamem.cli.demo_stage import Stage, StageError
from nri_numamem.cli.demo_story import MACHINE_TEXT, STEPS, PodSpec, Step
from nri_numamem.cli.screen import Screen, new_console
from nri_numamem.memorymanager.quantity import (
    format_quantity,
    hugepages_resource,
    parse_page_size,
)
from nri_numamem.nri import api_pb2 as api
from nri_numamem.nri.runtime import PluginRefused


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options: there are none."""
    parser.epilog = "Needs no container runtime, no NUMA hardware and no root."


def main(_args: argparse.Namespace) -> int:
    """Play the demo; return 0, or 1 after saying what went wrong."""
    try:
        with Stage() as stage:
            play(stage, new_console())
    except StageError as error:
        print(f"nri-numamem: demo: {error}", file=sys.stderr)
        return 1
    return 0


def play(stage: Stage, console: Console) -> None:
    """Show the machine, then each step with the machine after it."""
    screen = Screen(console)
    screen.heading("A simulated machine, and the plugin as a process of its own")
    screen.text(MACHINE_TEXT)
    books = stage.books()
    screen.books(books, None, stage.pod_names)
    screen.legend()
    for number, step in enumerate(STEPS, start=1):
        screen.heading(f"{number}. {step.title}")
        _play_step(stage, screen, step)
        before, books = books, stage.books()
        screen.books(books, before, stage.pod_names)
    screen.heading(f"{len(STEPS)} steps, {stage.call_count} calls over NRI; nothing is left behind")


def _play_step(stage: Stage, screen: Screen, step: Step) -> None:
    if step.removes:
        stage.remove_pod(step.pod)
        screen.labelled("removed", f"pod {step.pod.name}")
        return
    screen.labelled("asked", describe(step.pod))
    try:
        given = stage.start_pod(step.pod)
    except PluginRefused as refused:
        screen.labelled("refused", refused.text, "red")
        return
    answer = describe_answer(given)
    screen.labelled("given", answer or "nothing: it runs wherever the kernel likes", "green")


def describe(pod: PodSpec) -> str:
    """Return what a pod asks for, as one line."""
    parts = [f"pod {pod.name}, container {pod.container}: {pod.qos.value}"]
    if pod.memory_bytes:
        parts.append(f"memory {format_quantity(pod.memory_bytes)}")
    for size_bytes, limit_bytes in pod.hugepages.items():
        parts.append(f"{hugepages_resource(size_bytes)} {format_quantity(limit_bytes)}")
    return ", ".join(parts)


def describe_answer(given: api.LinuxResources) -> str:
    """Return the memory nodes and hugepage limits that a container was given; "" for none."""
    parts = [f"cpuset.mems {given.cpu.mems}"] if given.cpu.mems else []
    limits = {limit.page_size: limit.limit for limit in given.hugepage_limits}
    for key, value in given.unified.items():
        size = key.removeprefix("hugetlb.").removesuffix(".max")
        if key.startswith("hugetlb.") and not size.endswith(".rsvd"):
            limits[size] = int(value)
    for size, limit_bytes in sorted(limits.items(), key=lambda item: parse_page_size(item[0])):
        parts.append(f"hugetlb.{size}.max {format_quantity(limit_bytes)}")
    return ", ".join(parts)
