"""Partitions in the document and on the screen of `status`."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from nri_numamem.cli.live.collect import collect
from nri_numamem.cli.main import main
from nri_numamem.cli.status.judge import judge
from nri_numamem.cli.status.screen import show
from tests.cli.live.live_host import GI, LiveHost, four_nodes

CONFIG = """\
partitions:
- {name: inference-one, nodes: 2-3, selector: {app: llm}, exclusive: all, confine: true}
- {name: jobs, count: 1, namespaces: [shop]}
- {name: far, nodes: "7,9", namespaces: [far]}
reservedMemory: [{numaNode: 0, limits: {memory: 4Gi}}]
"""


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> LiveHost:
    """Run a pod of 40 GiB in the partition jobs, which has node 0."""
    return host_of(tmp_path, CONFIG)


def host_of(root: Path, config: str) -> LiveHost:
    host = LiveHost(root, four_nodes(), config)
    host.run("db-1", "postgres", 40 * GI)
    host.save()
    host.describe()
    return host


def screen(host: LiveHost, columns: int) -> list[str]:
    """Return the lines from the partitions to the containers."""
    file = io.StringIO()
    with host.running():
        show(judge(collect(host.parsed())), Console(file=file, width=columns, highlight=False))
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    starts = [line.partition(" ")[0] for line in lines]
    return lines[starts.index("Partitions") + 1 : starts.index("Containers") - 1]


def document(host: LiveHost, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    with host.running():
        assert main(["status", "--output", "json", *host.arguments()]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["partitions"]
    return found


def test_the_screen(host: LiveHost) -> None:
    assert screen(host, 80) == [
        "  partition      nodes  resource       free            fits now",
        "  inference-one  2-3    memory         120Gi of 120Gi  60Gi on node 2, 120Gi on",
        "                                                       nodes 2-3",
        "                        hugepages-1Gi  8Gi of 8Gi      4Gi on node 2, 8Gi on",
        "                                                       nodes 2-3",
        "  jobs           0      memory         16Gi of 56Gi    16Gi on node 0",
        "                        hugepages-1Gi  4Gi of 4Gi      4Gi on node 0",
        "  far            -                                     unusable: NUMA nodes 7,9",
        "                                                       cannot be used on this",
        "                                                       machine",
        "  default        0-1    memory         76Gi of 116Gi   60Gi on node 1",
        "                        hugepages-1Gi  8Gi of 8Gi      4Gi on node 0",
    ]


@pytest.mark.parametrize("columns", [60, 70, 80, 100, 120, 160])
def test_names_and_amounts_are_whole_at_any_width(host: LiveHost, columns: int) -> None:
    lines = screen(host, columns)
    assert max(map(len, lines)) <= columns
    words = " ".join(lines).split()
    assert [word for word in words if word in {"inference-one", "jobs", "far", "default"}] == [
        "inference-one",
        "jobs",
        "far",
        "default",
    ]
    assert words.count("hugepages-1Gi") == 3
    assert {"120Gi", "76Gi", "unusable:", "machine"} <= set(words)


def test_a_long_name_is_folded_so_that_amounts_stay_whole(tmp_path: Path) -> None:
    name = "a-very-long-name-of-a-partition-with-many-words"
    host = host_of(tmp_path, CONFIG.replace("inference-one", name))
    lines = screen(host, 80)
    assert name not in " ".join(lines)
    first = [line[2:].partition(" ")[0] for line in lines[1:]]
    assert "".join(first[: first.index("jobs")]) == name
    assert {"120Gi", "hugepages-1Gi"} <= set(" ".join(lines).split())
    assert name in " ".join(screen(host, 200))


def test_the_document(host: LiveHost, capsys: pytest.CaptureFixture[str]) -> None:
    inference, jobs, far, rest = document(host, capsys)
    assert [each["name"] for each in (inference, jobs, far, rest)] == [
        "inference-one",
        "jobs",
        "far",
        "default",
    ]
    assert [each["nodes"] for each in (inference, jobs, far, rest)] == [[2, 3], [0], [], [0, 1]]
    assert (inference["exclusive"], inference["confine"]) == ("all", True)
    assert (jobs["exclusive"], jobs["confine"], jobs["problem"]) == ("none", False, None)
    memory = jobs["resources"]["memory"]
    assert memory == {
        "total": 64 * GI,
        "systemReserved": 4 * GI,
        "hugepagePools": 4 * GI,
        "usedOutsideOfPods": 0,
        "assigned": 40 * GI,
        "keptForPods": 0,
        "free": 16 * GI,
    }
    assert rest["resources"]["memory"]["free"] == 76 * GI
    assert inference["largestRequest"]["memory"] == {
        "oneNode": {"bytes": 60 * GI, "nodes": [2]},
        "severalNodes": {"bytes": 120 * GI, "nodes": [2, 3]},
    }


def test_an_unusable_partition_in_the_document(
    host: LiveHost, capsys: pytest.CaptureFixture[str]
) -> None:
    far = document(host, capsys)[2]
    assert far["problem"] == "NUMA nodes 7,9 cannot be used on this machine"
    assert far["resources"] == {}
    assert far["largestRequest"]["memory"]["oneNode"] == {"bytes": 0, "nodes": []}


def test_hugepages_used_outside_of_pods_are_not_free_in_a_partition(
    host: LiveHost, capsys: pytest.CaptureFixture[str]
) -> None:
    host.use_hugepages(2, 3)
    inference, jobs, *_ = document(host, capsys)
    pages = inference["resources"]["hugepages-1Gi"]
    assert (pages["usedOutsideOfPods"], pages["free"]) == (3 * GI, 5 * GI)
    largest = inference["largestRequest"]["hugepages-1Gi"]["oneNode"]
    assert largest == {"bytes": 4 * GI, "nodes": [3]}
    assert jobs["resources"]["hugepages-1Gi"]["free"] == 4 * GI


@pytest.mark.parametrize("config", ["{}", f"{CONFIG}memoryManagerPolicy: None\n"])
def test_without_the_setting_or_its_effect_there_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], config: str
) -> None:
    host = LiveHost(tmp_path, four_nodes(), config)
    host.save()
    host.describe()
    assert document(host, capsys) == []
