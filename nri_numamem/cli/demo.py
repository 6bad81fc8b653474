"""``nri-numamem demo``: the plugin at work on a simulated machine, on any host, in seconds.

Shows for each pod what was asked, what the plugin answered, and the machine afterwards. This
file only shows; what is played is in demo_story, and who plays it in demo_stage.
"""

import argparse
import sys

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from nri_numamem.cli.demo_stage import Stage, StageError
from nri_numamem.cli.demo_story import MACHINE_TEXT, STEPS, PodSpec, Step
from nri_numamem.cli.tables import Books, legend, node_table
from nri_numamem.memorymanager.quantity import (
    format_quantity,
    hugepages_resource,
    parse_page_size,
)
from nri_numamem.nri import api_pb2 as api
from nri_numamem.nri.runtime import PluginRefused

# Beyond this, lines are hard to follow with the eye.
_MAX_WIDTH = 120
_INDENT = 2
_LABEL_WIDTH = 7


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options: there are none."""
    parser.epilog = "Needs no container runtime, no NUMA hardware and no root."


def main(_args: argparse.Namespace) -> int:
    """Play the demo; return 0, or 1 after saying what went wrong."""
    console = Console(highlight=False)
    console.width = min(console.width, _MAX_WIDTH)
    try:
        with Stage() as stage:
            play(stage, console)
    except StageError as error:
        print(f"nri-numamem: demo: {error}", file=sys.stderr)
        return 1
    return 0


def play(stage: Stage, console: Console) -> None:
    """Show the machine, then each step with the machine after it."""
    screen = _Screen(console)
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


def _play_step(stage: Stage, screen: "_Screen", step: Step) -> None:
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


class _Screen:
    """Prints the demo's few kinds of lines, indented, without blanks at line ends."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._ascii_only = console.options.ascii_only
        self._lines = 0

    def heading(self, title: str) -> None:
        """Print a title with a rule, after an empty line."""
        if self._lines:
            self._console.print()
        rule = "-" if self._ascii_only else "─"
        title_text = Text(title, "bold")
        self._print(Rule(title_text, align="left", characters=rule, style="dim"))

    def text(self, text: str) -> None:
        """Print a paragraph."""
        self._print_indented(Text(text))

    def labelled(self, label: str, text: str, style: str = "") -> None:
        """Print a label, and beside it a text that wraps under itself."""
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="dim", width=_LABEL_WIDTH)
        grid.add_column()
        grid.add_row(label, Text(text, style))
        self._print_indented(grid)

    def books(self, books: Books, before: Books | None, pod_names: dict[str, str]) -> None:
        """Print the node table, unless it is the same as before."""
        if before is not None and before["machineState"] == books["machineState"]:
            self.labelled("nodes", "as before")
            return
        self._console.print()
        self._print_indented(
            node_table(
                books,
                width=self._console.width - _INDENT,
                pod_names=pod_names,
                before=before,
                ascii_only=self._ascii_only,
            )
        )

    def legend(self) -> None:
        """Print what the bars mean."""
        self._console.print()
        self._print_indented(legend(ascii_only=self._ascii_only))

    def _print_indented(self, what: RenderableType) -> None:
        self._print(Padding(what, (0, 0, 0, _INDENT), expand=False))

    def _print(self, what: RenderableType) -> None:
        # rich fills every line up with blanks, which is ugly in a file or a pasted terminal.
        for line in self._console.render_lines(what, pad=False):
            self._console.print(_without_trailing_blanks(line))
            self._lines += 1


def _without_trailing_blanks(line: list[Segment]) -> Segments:
    """Return the line without blanks at its end, and with the end of line."""
    while line and not line[-1].text.strip():
        line = line[:-1]
    last = [Segment(segment.text.rstrip(), segment.style) for segment in line[-1:]]
    return Segments([*line[:-1], *last, Segment.line()])
