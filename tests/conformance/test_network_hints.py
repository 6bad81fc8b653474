"""Network hints: NRI's Go runtime side sends network devices of a container since 0.11."""

from pathlib import Path

import pytest

from tests.conformance.bench import Bench
from tests.conformance.go_runtime import numbers_of
from tests.laboratory import objects
from tests.simulated_host import GI


@pytest.mark.scenario(73)
def test_memory_follows_a_network_device_where_nri_has_them(version: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("networkHints: secondary\n")
    device = tmp_path / "sys/devices/pci0000:17/0000:18:00.0"
    (device / "net/eth1").mkdir(parents=True)
    (device / "numa_node").write_text("1\n")
    (tmp_path / "sys/class/net").mkdir(parents=True)
    (tmp_path / "sys/class/net/eth1").symlink_to(device / "net/eth1")
    with Bench(version, tmp_path, "--config", str(path)) as bench:
        bench.connected()
        pod = objects.pod("db", memory_limit_bytes=GI)
        container = objects.container(pod, "server", memory_limit_bytes=GI)
        container.linux.net_devices["eth1"].name = "net1"
        nodes = bench.create(pod, container).adjust.linux.resources.cpu.mems
        assert nodes == ("1" if numbers_of(version) >= (0, 11, 0) else "0")
