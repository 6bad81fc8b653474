"""The contract of `status --pages --output json`; docs/residency.md documents the same keys."""

import json
from pathlib import Path

import pytest

from nri_numamem.cli.main import main
from tests.cli.live.live_host import GI, LiveHost
from tests.cli.status.pages_host import add_pages

DOCUMENTATION = Path(__file__).parents[3] / "docs/residency.md"


def test_the_document(host: LiveHost, capsys: pytest.CaptureFixture[str]) -> None:
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
        assert f"`{key}`" in DOCUMENTATION.read_text(), key


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
