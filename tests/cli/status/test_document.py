import json
from pathlib import Path

import pytest
import yaml

from nri_numamem.cli.main import main
from tests.cli.live.live_host import GI, LiveHost
from tests.cli.status.pages_host import add_pages

DOCUMENTATION = Path(__file__).parents[3] / "docs/status.md"


def test_the_document(running_host: LiveHost, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--output", "json", *running_host.arguments()]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["version"] == 1
    assert document["plugin"] == {
        "running": True,
        "pid": 2114,
        "since": "2026-09-19T12:00:00Z",
        "startedAs": "launched by containerd",
        "version": "1.2.3",
        "mode": "launched",
        "ended": None,
        "commandVersion": "1.2.3",
    }
    assert document["runtime"] == {
        "name": "containerd",
        "version": "2.1.9",
        "nriVersion": "0.11.0",
        "connected": True,
        "connectionChanged": "2026-09-21T14:13:19Z",
    }
    assert document["state"]["changed"] == "2026-09-21T14:13:20Z"
    memory = document["nodes"][0]["resources"]["memory"]
    assert memory == {
        "total": 64 * GI,
        "systemReserved": 2 * GI,
        "hugepagePools": 4 * GI,
        "usedOutsideOfPods": 0,
        "assigned": 40 * GI,
        "keptForPods": 8 * GI,
        "free": 10 * GI,
    }
    assert document["nodes"][3]["group"] == [2, 3]
    assert document["largestRequest"]["memory"] == {
        "oneNode": {"bytes": 36 * GI, "nodes": [1]},
        "severalNodes": {"bytes": 30 * GI, "nodes": [2, 3]},
    }
    containers = {each["container"]: each for each in document["containers"]}
    assert containers["backup"]["condition"] == "ended"
    assert containers["dpdk"]["nodes"] == [1]
    assert containers["dpdk"]["pod"] == "upf-7-x"
    assert containers["dpdk"]["since"] == "2026-09-21T14:13:20Z"
    assert containers["dpdk"]["resources"] == {"memory": 24 * GI, "hugepages-1Gi": 2 * GI}
    figures = [containers["dpdk"][f"{name}Bytes"] for name in ("private", "file", "remote")]
    assert figures == [9 * GI, 0, 3 * GI]
    assert document["notManagedPods"] == {"Burstable": 2, "BestEffort": 1}
    (difference,) = document["differences"]
    assert difference["kind"] == "remote_memory"
    assert difference["containerId"] == containers["dpdk"]["containerId"]
    assert document["problems"] == []


def test_yaml_is_the_same_document(
    running_host: LiveHost, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["status", "--output", "json", *running_host.arguments()])
    expected = json.loads(capsys.readouterr().out)
    main(["status", "--output", "yaml", *running_host.arguments()])
    shown = capsys.readouterr().out
    assert "&" not in shown
    assert yaml.safe_load(shown) == expected


def test_unknown_values_are_null(host: LiveHost, capsys: pytest.CaptureFixture[str]) -> None:
    host.config.write_text("topologyManagerPolicy: single-numa-node\n")
    arguments = [word if word != str(host.state_file) else "" for word in host.arguments()]
    assert main(["status", "--output", "json", *arguments]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["plugin"]["running"] is None
    assert document["plugin"]["pid"] is None
    assert document["runtime"] is None
    assert document["state"] == {"path": None, "changed": None}
    assert document["largestRequest"]["memory"]["severalNodes"] is None
    assert len(document["problems"]) == 1
    unpinned = document["containers"][0]
    assert (unpinned["condition"], unpinned["container"]) == ("unpinned", None)


def test_each_key_is_documented(running_host: LiveHost, capsys: pytest.CaptureFixture[str]) -> None:
    running_host.start_process(9, "dpdk", GI, "/user.slice")
    running_host.use_hugepages(0, 1)
    main(["status", "--output", "json", *running_host.arguments()])
    document = json.loads(capsys.readouterr().out)
    text = DOCUMENTATION.read_text()

    def keys(value: object) -> set[str]:
        if isinstance(value, list):
            return set().union(*map(keys, value))
        if not isinstance(value, dict):
            return set()
        return set(value).union(*map(keys, value.values()))

    names = {"memory", "hugepages-1Gi"}
    assert [key for key in sorted(keys(document) - names) if f"`{key}`" not in text] == []


RESIDENCY = Path(__file__).parents[3] / "docs/residency.md"


def test_the_document_of_pages(host: LiveHost, capsys: pytest.CaptureFixture[str]) -> None:
    add_pages(host)
    assert main(["status", "--pages", "--output", "json", *host.arguments()]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["version"], document["time"]) == (1, "2026-09-23T21:46:40Z")
    containers = {each["container"]: each for each in document["containers"]}
    dpdk = containers["dpdk"]
    assert dpdk["pages"] == [
        {"node": 0, "anonymous": 0, "shared": GI, "hugetlb": 0, "cache": 2 * GI},
        {"node": 1, "anonymous": 6 * GI, "shared": 0, "hugetlb": 2 * GI, "cache": GI},
    ]
    known = ("pod", "podUid", "assigned", "nodes", "cpusetMems", "effectiveMems", "remoteBytes")
    assert [dpdk[key] for key in known] == ["shop/upf-7-x", "upf-7", True, [1], [1], [1], GI]
    assert document["nodes"][1] == {
        "id": 1,
        "bytes": 8 * GI,
        "remoteBytes": 0,
        "cacheBytes": GI,
        "availableBytes": 64 * GI,
        "unfaultedBytes": 17 * GI,
    }
    assert (document["short"], document["problems"]) == ([], [])
    for key in (*document, *dpdk, *dpdk["pages"][0], *document["nodes"][0]):
        assert f"`{key}`" in RESIDENCY.read_text(), key


def test_what_is_unknown(host: LiveHost, capsys: pytest.CaptureFixture[str]) -> None:
    container = host.engine.state.holders["upf-7", "dpdk"].container_id
    (host.directory("upf-7", container) / "memory.numa_stat").unlink()
    assert main(["status", "--pages", "upf-7", "--output", "json", *host.arguments()]) == 0
    (row,) = json.loads(capsys.readouterr().out)["containers"]
    assert (row["pages"], row["remoteBytes"]) == (None, None)


def test_nodes_that_are_short(host: LiveHost, capsys: pytest.CaptureFixture[str]) -> None:
    text = "Node 1 MemTotal: 67108864 kB\nNode 1 MemFree: 7340032 kB\n"
    (host.root / "sys/devices/system/node/node1/meminfo").write_text(text)
    assert main(["status", "--pages", "--output", "json", *host.arguments()]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["short"] == [{"nodes": [1], "bytes": 8 * GI}]


def test_an_unknown_pod(host: LiveHost, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--pages", "nothing", *host.arguments()]) == 1
    assert "no running container" in capsys.readouterr().out
