"""Refused pods by the history, as it grows."""

import shutil
from pathlib import Path

from nri_numamem.cli.rebalance.refused_pods import RefusedPods
from nri_numamem.engine.core.events import Container, CreateContainer
from tests.cli.explain.shop import Shop
from tests.cli.live.live_host import CHANGED_S, GI


def _create(shop: Shop, uid: str, size: int) -> None:
    """Let the kubelet create a container again, with its record in the history."""
    pod = shop.host.sandbox(uid, size * GI)
    container = Container(shop.host.new_id(), pod.sandbox_id, "main", size * GI)
    for record in shop.host.engine.apply(CreateContainer(pod, container)).records:
        shop.writer.append(CHANGED_S + 2, record)
    shop.writer.write()


def test_a_pod_is_refused_until_it_is_placed_or_gone(tmp_path: Path) -> None:
    shop, found = Shop(tmp_path), RefusedPods()
    file, cgroups = shop.host.state_file, shop.host.cgroups
    assert found.read(file, cgroups) == []
    for uid in ("a", "b", "c", "d"):
        shop.run(uid, 57)
    for uid in ("x", "y"):
        shop.refuse(uid, 50)
    assert [names.pod for names in found.read(file, cgroups)] == ["x-x", "y-x"]
    assert [names.pod for names in found.read(file, cgroups)] == ["x-x", "y-x"]
    shop.end("a")
    _create(shop, "x", 50)
    assert [names.pod for names in found.read(file, cgroups)] == ["y-x"]
    shutil.rmtree(shop.host.directory("y"))
    assert found.read(file, cgroups) == []


def test_another_state_file_has_another_history(tmp_path: Path) -> None:
    shop, found = Shop(tmp_path), RefusedPods()
    shop.refuse("x", 300)
    assert [names.pod for names in found.read(shop.host.state_file, shop.host.cgroups)] == ["x-x"]
    other = shop.host.state_file.with_name("other")
    assert found.read(other, shop.host.cgroups) == []
