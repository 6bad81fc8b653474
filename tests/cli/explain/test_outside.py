"""Hugepages used outside of pods: ``explain`` of a refused container, from its command line.

The screens are in ``screens``; ``UPDATE_SCREENS=1 pytest`` writes them.
"""

from pathlib import Path
from typing import Any

import pytest

from nri_numamem.engine.core.events import Container, CreateContainer, PodSandbox
from nri_numamem.host.hugepages import PoolDirectories, read_pool_use
from nri_numamem.numa import NodeSet
from tests.cli.explain.shop import Shop
from tests.cli.live.live_host import GI
from tests.cli.screen_files import check_screen

SCREENS = Path(__file__).parent / "screens"
PAGES = "hugepages-1Gi"
NO_NODE = "single-numa-node"


@pytest.fixture(name="shop")
def _shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Each node has four 1Gi pages: two of node 0 are used outside of pods, the rest by pods."""
    monkeypatch.setenv("COLUMNS", "80")
    shop = Shop(tmp_path, f"topologyManagerPolicy: {NO_NODE}\n")
    shop.host.describe()
    assert shop.run("db", 30) == "0"
    for node, uid in enumerate(("upf", "api", "ml"), start=1):
        assert shop.run(uid, 35, pages=4) == str(node)
    shop.host.use_hugepages(0, 2)
    shop.host.start_process(881, "dpdk-testpmd", 2 * GI, "/user.slice/x.scope", {0: 2})
    return shop


def refuse(shop: Shop, pages: int = 4, size: int = 20) -> None:
    shop.refuse("upf2", size, hugepage_limits={GI: pages * GI})


def text_of(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("width", [80, 120])
def test_the_screen(
    shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    refuse(shop)
    assert shop.explain("upf2-x") == 0
    check_screen(capsys.readouterr().out, SCREENS / f"outside-{width}.txt")


def test_the_remedy_names_what_uses_the_pages_and_no_pod(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    refuse(shop)
    found = shop.document("upf2-x", capsys)
    assert found["remedy"] == (
        "free 2 1Gi pages on node 0, used outside of pods by dpdk-testpmd (pid 881, 2 1Gi pages); "
        "the request then fits on node 0"
    )
    assert not any("--without" in command for command in found["commands"])
    assert found["plan"] is None
    assert found["usedOutsideOfPods"] == [
        {
            "nodes": [0],
            "resource": PAGES,
            "bytes": 2 * GI,
            "poolBytes": 4 * GI,
            "processes": [
                {
                    "pid": 881,
                    "name": "dpdk-testpmd",
                    "bytes": 2 * GI,
                    "nodes": {"0": {PAGES: 2 * GI}},
                }
            ],
            "files": [],
        }
    ]


def test_following_the_remedy_admits_the_request(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    refuse(shop)
    assert "fits on node 0" in shop.document("upf2-x", capsys)["remedy"]
    shop.host.use_hugepages(0, 0)
    use = read_pool_use(PoolDirectories.find(shop.host.root / "sys"))
    limits = {GI: 4 * GI}
    pod = PodSandbox("s", "upf2", "shop", "upf2-x", "/kubepods/podupf2", 20 * GI, limits)
    event = CreateContainer(pod, Container("c", "s", "main", 20 * GI, limits), use)
    plan = shop.host.engine.apply(event).plan
    assert plan.adjustment is not None
    assert plan.adjustment.cpuset_mems == "0"


def test_pages_that_were_freed_meanwhile(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    refuse(shop)
    shop.host.use_hugepages(0, 0)
    found = shop.document("upf2-x", capsys)
    assert found["usedOutsideOfPods"] == []
    assert found["remedy"] == "not needed: it fits now, and the kubelet tries again"
    assert found["plan"]["fitsNow"] is True


def test_a_container_that_runs_unpinned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shop = Shop(tmp_path, "whenUnsatisfiable: RunUnpinned\n")
    shop.host.describe()
    for node in range(4):
        shop.host.use_hugepages(node, 4)
    refuse(shop)
    assert shop.document("upf2-x", capsys)["remedy"].startswith("free 4 1Gi pages on node 0, used ")
    shop.host.use_hugepages(1, 0)
    assert shop.document("upf2-x", capsys)["remedy"] == "restart the pod: it fits now"


def test_where_free_pages_do_not_suffice_a_pod_is_named_after_them(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """Node 0 lacks memory too."""
    refuse(shop, size=40)
    assert shop.explain("upf2-x") == 0
    text = text_of(capsys)
    outside = (
        "outside node 0: 2 of 4 1Gi pages are used outside of pods: dpdk-testpmd (pid 881, 2 1Gi"
    )
    assert 0 < text.index(outside) < text.index("remedy end shop/api-x")


def test_only_what_is_necessary_is_named(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """Pages of node 1 are used outside of pods too, and the pod that held the others has ended."""
    shop.end("upf")
    shop.host.use_hugepages(1, 3)
    shop.host.start_process(882, "qemu", 3 * GI, "/machine.slice", {1: 3})
    refuse(shop)
    found = shop.document("upf2-x", capsys)
    assert [use["nodes"] for use in found["usedOutsideOfPods"]] == [[0], [1]]
    assert found["remedy"] == (
        "free 2 1Gi pages on node 0, used outside of pods by dpdk-testpmd (pid 881, 2 1Gi pages); "
        "the request then fits on node 0"
    )


def test_reserved_pages(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """A mapping reserves pages before it uses them; nothing shows whose they are."""
    shop.host.use_hugepages(0, 0)
    system = shop.host.root / "sys/kernel/mm/hugepages/hugepages-1048576kB/resv_hugepages"
    system.write_text("13\n")  # 12 of them are those of the pods
    refuse(shop)
    assert shop.document("upf2-x", capsys)["remedy"] == (
        "free 1 1Gi page, reserved outside of pods; the request then fits on node 0"
    )


def test_a_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shop = Shop(tmp_path)
    assert shop.run("big", 90) == "0-1"
    assert shop.run("other", 80) == "2-3"
    shop.host.use_hugepages(0, 4)
    for node in (2, 3):
        shop.host.use_hugepages(node, 4)
    refuse(shop, pages=6)
    found = shop.document("upf2-x", capsys)
    assert [use["nodes"] for use in found["usedOutsideOfPods"]] == [[0, 1], [2, 3]]
    assert found["remedy"] == (
        "free 4 1Gi pages on nodes 0-1, used outside of pods; the request then fits on nodes 0-1"
    )
    assert shop.explain("upf2-x") == 0
    assert "hugepages-1Gi 2Gi short; hugepages-1Gi 4Gi used outside of pods" in text_of(capsys)


def test_a_host_that_cannot_be_read(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """The record has the remedies that were tried at the refusal."""
    refuse(shop)
    shop.host.state_file.write_text("damaged")
    found = shop.document("upf2-x", capsys)
    assert found["usedOutsideOfPods"] == []
    assert found["remedy"].startswith(
        "free hugepages-1Gi 2Gi on NUMA node 0, used outside of pods, or "
    )


@pytest.mark.parametrize("hint", [{"cpuset_cpus": "1"}, {"device_nodes": (NodeSet([1]),)}])
def test_a_record_of_a_container_that_must_be_elsewhere(
    shop: Shop, capsys: pytest.CaptureFixture[str], hint: dict[str, Any]
) -> None:
    shop.refuse("upf2", 20, hugepage_limits={GI: 4 * GI}, **hint)
    assert "dpdk" not in shop.document("upf2-x", capsys)["remedy"]
    shop.host.state_file.write_text("damaged")
    assert "outside of pods" not in shop.document("upf2-x", capsys)["remedy"]


def test_requests_without_hugepages_ignore_the_pools(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.refuse("big", 40)
    assert shop.document("big-x", capsys)["usedOutsideOfPods"] == []


def test_names_of_processes_are_escaped(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.host.start_process(99, "\x1b[2J", GI, "/x", {0: 1})
    refuse(shop)
    assert shop.explain("upf2-x") == 0
    shown = capsys.readouterr().out
    assert "\\u001b[2J" in shown
    assert shown.replace("\n", "").isprintable()
