import argparse
import io

import pytest
from rich.console import Console

from nri_numamem.cli import demo
from nri_numamem.cli.demo import (
    CONFIG,
    GI,
    PAGE_1GI,
    PAGE_2MI,
    STEPS,
    PodSpec,
    RefusedError,
    SimulatedHost,
    Started,
    machine,
)
from nri_numamem.config import load as configuration
from nri_numamem.memorymanager import QosClass
from nri_numamem.numa.quantity import parse_quantity
from tests.cli.demo_results import results_in

_TITLE = "A simulated machine"


def _played(width: int, encoding: str = "utf-8") -> list[str]:
    raw = io.BytesIO()
    console = Console(
        file=io.TextIOWrapper(raw, encoding=encoding),
        width=width,
        highlight=False,
        color_system=None,
    )
    demo.play(SimulatedHost(), console, _TITLE)
    console.file.flush()
    return raw.getvalue().decode(encoding).splitlines()


@pytest.mark.parametrize("width", [80, 100, 120])
def test_lines_fit_the_width_and_are_complete(width: int) -> None:
    lines = _played(width)
    assert max(len(line.rstrip()) for line in lines) <= width
    words = " ".join(" ".join(lines).split())
    assert words.startswith(_TITLE)
    for number, step in enumerate(STEPS, start=1):
        assert f"{number}. {step.title}" in words
    assert "result cpuset.mems 0" in words
    assert "result cpuset.mems is not set" in words
    assert "removed pod analytics" in words
    assert words.count("nodes unchanged") == 3
    assert not [line for line in lines if line != line.rstrip()]


def test_a_terminal_without_unicode_gets_ascii() -> None:
    assert all(line.isascii() for line in _played(80, "ascii"))


def test_a_request_as_one_line() -> None:
    pod = PodSpec("router", "dpdk", QosClass.GUARANTEED, 16 * GI, {PAGE_1GI: 4 * GI})
    assert demo.describe(pod) == (
        "pod router, container dpdk: Guaranteed, memory 16Gi, hugepages-1Gi 4Gi"
    )
    assert demo.describe(PodSpec("b", "job", QosClass.BEST_EFFORT)) == (
        "pod b, container job: BestEffort"
    )


def test_what_a_container_got_as_one_line() -> None:
    started = Started("2-3", {PAGE_1GI: 4 * GI, PAGE_2MI: 0})
    assert demo.describe_started(started) == (
        "cpuset.mems 2-3, hugetlb.2MB.max 0, hugetlb.1GB.max 4Gi"
    )
    assert demo.describe_started(Started()) == ""


def test_the_command_decides_as_in_the_titles(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    demo.add_arguments(parser)
    assert demo.main(parser.parse_args([])) == 0
    shown, error = capsys.readouterr()
    assert error == ""
    assert results_in(shown) == [
        "result cpuset.mems 0",
        "result cpuset.mems 2-3",
        "result cpuset.mems 1, hugetlb.1GB.max 4Gi",
        "result cpuset.mems is not set",
        "result cpuset.mems is not set",
        "rejected",
        "result cpuset.mems 2",
    ]
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 80


_SMALL = PodSpec("small", "server", QosClass.GUARANTEED, GI, {PAGE_1GI: GI})


def test_pods_start_and_end() -> None:
    host = SimulatedHost()
    empty = host.accounting()
    assert empty["entries"] == {}
    assert host.start_pod(_SMALL) == Started("0", {PAGE_1GI: GI})
    with pytest.raises(RefusedError, match="requested memory 900Gi"):
        host.start_pod(PodSpec("big", "big", QosClass.GUARANTEED, 900 * GI))
    assert sorted(host.pod_names.values()) == ["big", "small"]
    assert list(host.accounting()["entries"]) == ["small-uid"]
    host.remove_pod(_SMALL)
    assert host.accounting() == empty


@pytest.mark.parametrize("qos", [QosClass.BURSTABLE, QosClass.BEST_EFFORT])
def test_other_classes_are_not_pinned(qos: QosClass) -> None:
    host = SimulatedHost()
    assert host.start_pod(PodSpec("web", "nginx", qos, GI)) == Started()
    assert host.accounting()["entries"] == {}


def test_the_reservations_add_up_as_the_kubelet_requires() -> None:
    settings = configuration.load_text(CONFIG, "demo")
    reserved = sum(entry.limits["memory"] for entry in settings.reserved_memory)
    expected = [settings.kube_reserved["memory"], settings.system_reserved["memory"]]
    expected.append(settings.eviction_hard["memory.available"])
    assert reserved == sum(parse_quantity(text) for text in expected)


def test_the_machine_has_near_and_far_nodes() -> None:
    made = machine()
    assert [made.nodes[0].distance_to(node) for node in range(4)] == [10, 12, 21, 21]
    assert [made.nodes[3].distance_to(node) for node in range(4)] == [21, 21, 12, 10]


def test_only_started_pods_are_removed() -> None:
    started: set[str] = set()
    for step in STEPS:
        if step.removes:
            started.remove(step.pod.name)
        started.add(step.pod.name)
