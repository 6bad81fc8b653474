"""The plan for a refused container: ``explain`` on a host with pods, from its command line."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from nri_numamem.engine.core.events import Container, CreateContainer
from nri_numamem.numa import NodeSet
from tests.cli.explain.shop import Shop
from tests.cli.live.live_host import CHANGED_S, GI

CONSENT = {"movable.numamem.io": "true"}


@pytest.fixture(name="shop")
def _shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Each of nodes 0-3 has 60 GiB; a pod of 30 GiB or more is on every node."""
    monkeypatch.setenv("COLUMNS", "80")
    shop = Shop(tmp_path)
    for uid, size in (("db", 30), ("api", 32), ("ml", 56), ("web", 50)):
        shop.run(uid, size)
    return shop


def small_and_large(shop: Shop, annotations: Mapping[str, str] = {}) -> None:
    """Leave 0 and 1 with one small pod, on node 1."""
    shop.end("db")
    shop.end("api")
    assert shop.run("filler", 58) == "0"
    assert shop.run("redis", 8, annotations, used=3 * 1024) == "1"
    shop.end("filler")


def test_the_screen(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    small_and_large(shop)
    shop.refuse("big", 90)
    assert shop.explain("big-x") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert (
        "plan would fit on nodes 0-1 if shop/redis-x moved from node 1 to node 3 (3Gi resident of "
        "8Gi); without consent (movable.numamem.io): shop/redis-x the plugin moves nothing: "
        "kubectl cordon the node, delete these pods, wait until the refused container runs, "
        "kubectl uncordon"
    ) in shown


def test_with_the_setting_the_room_can_be_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shop = Shop(tmp_path, "earmarks: {enabled: true}\n")
    for uid, size in (("gone", 58), ("small", 5), ("other", 54), ("large", 58), ("p3", 40)):
        shop.run(uid, size)
    for uid in ("gone", "other"):
        shop.end(uid)
    shop.refuse("big", 90)
    shop.host.describe()
    assert shop.explain("big-x") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert (
        "the plugin moves nothing: nri-numamem rebalance shop/big-x --apply restarts these pods, "
        "and keeps the room for the refused one"
    ) in shown


def test_the_remedies_are_tried_on_the_host_as_it_is(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.refuse("new", 40)
    shop.end("ml")
    shop.host.save()
    assert shop.explain("new-x") == 0
    assert "not needed: it fits now" in capsys.readouterr().out
    shop.refuse("big", 61)
    assert shop.explain("big-x") == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    at = next(n for n, line in enumerate(lines) if line.startswith("remedy"))
    assert lines[at : at + 3] == [
        "remedy end shop/db-x",
        "or end the pods on NUMA nodes 0,2",
        "or request at most 61415Mi",
    ]
    assert "nri-numamem simulate --now --without shop/db-x pod.yaml" in lines


def test_the_document(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    small_and_large(shop, CONSENT)
    shop.refuse("big", 90)
    assert shop.plan("shop/big-x", capsys) == {
        "fitsNow": False,
        "nodes": [0, 1],
        "moves": [
            {
                "namespace": "shop",
                "pod": "redis-x",
                "podUid": "redis",
                "containers": ["main"],
                "from": 1,
                "to": 3,
                "residentBytes": 3 * GI,
                "assignedBytes": 8 * GI,
                "consented": True,
            }
        ],
        "moveBytes": 3 * GI,
        "blocking": [],
        "complete": True,
        "text": "would fit on nodes 0-1 if shop/redis-x moved from node 1 to node 3 (3Gi resident "
        "of 8Gi)",
    }


def test_the_plan_is_what_happens(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """The named pod ends, the refused one starts, and the named one starts again."""
    small_and_large(shop)
    shop.refuse("big", 90)
    (move,) = shop.plan("big-x", capsys)["moves"]
    shop.end(move["podUid"])
    assert shop.run("big", 90) == "0-1"
    assert shop.run("redis2", 8) == str(move["to"])


def test_room_was_made_meanwhile(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.refuse("big", 40)
    shop.end("ml")
    shop.host.save()
    plan = shop.plan("big-x", capsys)
    assert (plan["fitsNow"], plan["nodes"], plan["moves"]) == (True, [2], [])
    assert plan["text"] == "fits now on node 2: nothing has to move"


def test_nothing_helps(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.refuse("big", 59)
    assert shop.plan("big-x", capsys)["text"] == "none with at most 2 moves"
    assert shop.explain("big-x") == 0
    shown = capsys.readouterr().out
    assert "  plan      none with at most 2 moves\n" in shown
    assert "rebalancing.md" not in shown


def test_a_node_that_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    shop = Shop(tmp_path, 'memoryNodes: {override: {"2-3": cpuless}}\n')
    assert shop.run("db", 40) == "0"
    shop.refuse("big", 130)
    shop.host.describe()
    assert shop.explain("big-x") == 0
    text = "  left out  nodes 2-3: no container is placed there, because "
    assert text in capsys.readouterr().out


def test_pods_that_must_not_move(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    small_and_large(shop)
    for uid in ("redis", "web"):
        (shop.container(uid) / "cpuset.cpus").write_text("3\n")
    shop.refuse("big", 90)
    plan = shop.plan("big-x", capsys)
    assert [(one["pod"], one["obstacle"]) for one in plan["blocking"]] == [
        ("redis-x", "CPUs of its own")
    ]
    assert plan["text"] == (
        "none with at most 2 moves of pods that may move; in the way: shop/redis-x on node 1 "
        "(CPUs of its own)"
    )


@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize("has_cgroup", [True, False])
def test_hints_and_hugepages_of_the_refused_container(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], scope: str, *, has_cgroup: bool
) -> None:
    config = f"topologyManagerPolicy: single-numa-node\ntopologyManagerScope: {scope}\n"
    shop = Shop(tmp_path, config)
    shop.host.describe()
    assert shop.run("first", 40) == "0"
    assert shop.run("second", 30) == "1"
    near = {"device_nodes": (NodeSet([1]),), "cpuset_cpus": "1"}
    shop.refuse("gpu", 40, has_cgroup, hugepage_limits={GI: GI}, **near)
    plan = shop.plan("gpu-x", capsys)
    assert (plan["nodes"], [(m["pod"], m["to"]) for m in plan["moves"]]) == (
        [1],
        [("second-x", 2)],
    )


def test_a_container_that_runs_has_no_plan(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    pod = shop.host.sandbox("late", GI)
    applied = shop.host.engine.apply(
        CreateContainer(pod, Container(shop.host.new_id(), pod.sandbox_id, "main", GI))
    )
    for record in applied.records:
        shop.writer.append(CHANGED_S + 1, record)
    shop.writer.write()
    shop.host.save()
    assert shop.plan("late-x", capsys) is None


def test_a_host_that_cannot_be_read(
    shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    shop.refuse("big", 59)
    shop.host.state_file.write_text("damaged")
    assert shop.plan("big-x", capsys) is None
    assert shop.explain("big-x") == 0
    assert "  plan      unknown:" in capsys.readouterr().out
    shop.host.state_file.unlink()
    assert shop.explain("big-x") == 0
    assert "  plan      " not in capsys.readouterr().out
    shop.host.save()
    (shop.container("db") / "memory.numa_stat").unlink(missing_ok=True)
    (shop.container("db") / "memory.numa_stat").mkdir()
    assert shop.explain("big-x") == 0
    assert "Is a directory" in capsys.readouterr().out
