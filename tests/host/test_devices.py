"""NUMA nodes of devices: the kernel's symlinks as files below a temporary root."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from nri_numamem.host.devices import device_numa_nodes
from nri_numamem.numa import NodeSet

Lay = Callable[[Mapping[str, str | dict[str, str]]], Path]

PCI = "sys/devices/pci0000:17"
# Two network functions for a guest, a GPU, a host adapter and a disk; 17 and 98 are the root
# complexes of two sockets.
TREE: dict[str, str | dict[str, str]] = {
    "sys/devices/pci0000:17/0000:17:01.0/numa_node": "0\n",
    "sys/devices/pci0000:17/0000:17:01.0/0000:18:02.1/numa_node": "0\n",
    "sys/devices/pci0000:98/0000:98:01.0/0000:99:02.1/numa_node": "1\n",
    "sys/devices/virtual/vfio/42/dev": "511:0\n",
    "sys/devices/virtual/vfio/noiommu-43/dev": "511:1\n",
    "sys/devices/virtual/misc/vfio/dev": "10:196\n",
    "sys/devices/virtual/mem/null/dev": "1:3\n",
    "sys/dev/char/511:0": {"symlink": "../../devices/virtual/vfio/42"},
    "sys/dev/char/511:1": {"symlink": "../../devices/virtual/vfio/noiommu-43"},
    "sys/dev/char/10:196": {"symlink": "../../devices/virtual/misc/vfio"},
    "sys/dev/char/1:3": {"symlink": "../../devices/virtual/mem/null"},
    "sys/kernel/iommu_groups/42/devices/0000:18:02.1": {
        "symlink": "../../../../devices/pci0000:17/0000:17:01.0/0000:18:02.1"
    },
    "sys/kernel/iommu_groups/43/devices/0000:99:02.1": {
        "symlink": "../../../../devices/pci0000:98/0000:98:01.0/0000:99:02.1"
    },
    # VFIO's newer interface: a character device below the function itself.
    "sys/devices/pci0000:98/0000:98:01.0/0000:99:02.1/vfio-dev/vfio0/dev": "510:0\n",
    "sys/dev/char/510:0": {
        "symlink": "../../devices/pci0000:98/0000:98:01.0/0000:99:02.1/vfio-dev/vfio0"
    },
    "sys/devices/pci0000:98/0000:98:02.0/0000:9a:00.0/numa_node": "1\n",
    "sys/devices/pci0000:98/0000:98:02.0/0000:9a:00.0/drm/renderD128/dev": "226:128\n",
    "sys/dev/char/226:128": {
        "symlink": "../../devices/pci0000:98/0000:98:02.0/0000:9a:00.0/drm/renderD128"
    },
    "sys/bus/pci/devices/0000:9a:00.0": {
        "symlink": "../../../devices/pci0000:98/0000:98:02.0/0000:9a:00.0"
    },
    "sys/devices/pci0000:17/0000:17:03.0/0000:1a:00.0/numa_node": "0\n",
    "sys/devices/pci0000:17/0000:17:03.0/0000:1a:00.0/infiniband_verbs/uverbs0/dev": "231:192\n",
    "sys/dev/char/231:192": {
        "symlink": "../../devices/pci0000:17/0000:17:03.0/0000:1a:00.0/infiniband_verbs/uverbs0"
    },
    "sys/devices/pci0000:98/0000:98:05.0/0000:9e:00.0/numa_node": "1\n",
    "sys/devices/pci0000:98/0000:98:05.0/0000:9e:00.0/nvme/nvme0/numa_node": "1\n",
    "sys/devices/pci0000:98/0000:98:05.0/0000:9e:00.0/nvme/nvme0/nvme0n1/nvme0n1p1/dev": "259:1\n",
    "sys/dev/block/259:1": {
        "symlink": "../../devices/pci0000:98/0000:98:05.0/0000:9e:00.0/nvme/nvme0/nvme0n1/nvme0n1p1"
    },
    # A disk with two ports: its block device is virtual, its controllers are not.
    "sys/devices/pci0000:17/0000:17:05.0/0000:1e:00.0/nvme/nvme1/numa_node": "0\n",
    "sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1/dev": "259:4\n",
    "sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0": {
        "symlink": "../../../pci0000:98/0000:98:05.0/0000:9e:00.0/nvme/nvme0"
    },
    "sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme1": {
        "symlink": "../../../pci0000:17/0000:17:05.0/0000:1e:00.0/nvme/nvme1"
    },
    "sys/dev/block/259:4": {"symlink": "../../devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1"},
    "sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1/nvme0n1p2/dev": "259:5\n",
    "sys/dev/block/259:5": {
        "symlink": "../../devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1/nvme0n1p2"
    },
    "sys/devices/virtual/block/dm-0/dev": "253:0\n",
    "sys/dev/block/253:0": {"symlink": "../../devices/virtual/block/dm-0"},
    # Firmware reports no node for this device.
    "sys/devices/pci0000:00/0000:00:02.0/numa_node": "-1\n",
    "sys/devices/pci0000:00/0000:00:02.0/drm/card1/dev": "226:1\n",
    "sys/dev/char/226:1": {"symlink": "../../devices/pci0000:00/0000:00:02.0/drm/card1"},
    "sys/devices/virtual/net/tun/dev": "10:200\n",
    "proc/driver/nvidia/gpus/0000:9a:00.0/information": (
        "Model: \t\t NVIDIA A100-SXM4-80GB\n"
        "IRQ:   \t\t 412\n"
        "Bus Type: \t PCIe\n"
        "Bus Location: \t 0000:9a:00.0\n"
        "Device Minor: \t 1\n"
        "GPU Excluded:\t No\n"
    ),
    "proc/driver/nvidia/gpus/0000:ff:00.0/information": "Device Minor: \t 2\n",
}


@pytest.fixture
def lay(tmp_path: Path) -> Lay:
    """Write files and symlinks below a root of their own; return it."""

    def write(tree: Mapping[str, str | dict[str, str]]) -> Path:
        root = tmp_path / "host"
        for name, content in tree.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str):
                path.write_text(content)
            else:
                path.symlink_to(content["symlink"])
        return root

    return write


def nodes(root: Path, kind: str, major: int, minor: int, path: str = "/dev/x") -> str | None:
    found = device_numa_nodes(root / "sys", kind, major, minor, path, root / "proc")
    return None if found is None else str(found)


@pytest.mark.parametrize(
    ("kind", "major", "minor", "path", "expected"),
    [
        pytest.param("c", 511, 0, "/dev/vfio/42", "0", id="vfio"),
        pytest.param("c", 511, 1, "/dev/vfio/noiommu-43", "1", id="vfio-without-iommu"),
        pytest.param("c", 400, 9, "/dev/vfio/43", "1", id="vfio-by-path"),
        pytest.param("c", 10, 196, "/dev/vfio/vfio", None, id="vfio-container"),
        pytest.param("c", 510, 0, "/dev/vfio/devices/vfio0", "1", id="vfio-cdev"),
        pytest.param("c", 226, 128, "/dev/dri/renderD128", "1", id="render-node"),
        pytest.param("u", 231, 192, "/dev/infiniband/uverbs0", "0", id="uverbs"),
        pytest.param("b", 259, 1, "/dev/xvda", "1", id="nvme-partition"),
        pytest.param("b", 259, 4, "/dev/xvdb", "0-1", id="nvme-two-ports"),
        pytest.param("b", 259, 5, "/dev/xvdc", "0-1", id="nvme-two-ports-partition"),
        pytest.param("b", 253, 0, "/dev/xvdd", None, id="device-mapper"),
        pytest.param("c", 195, 1, "/dev/nvidia1", "1", id="nvidia"),
        pytest.param("c", 195, 2, "/dev/nvidia2", None, id="nvidia-gone-from-the-bus"),
        pytest.param("c", 195, 5, "/dev/nvidia5", None, id="nvidia-unknown-minor"),
        pytest.param("c", 195, 255, "/dev/nvidiactl", None, id="nvidiactl"),
        pytest.param("b", 195, 1, "/dev/nvidia1", None, id="no-nvidia"),
        pytest.param("c", 226, 1, "/dev/dri/card1", None, id="firmware-reports-no-node"),
        pytest.param("c", 1, 3, "/dev/null", None, id="null"),
        pytest.param("c", 99, 99, "/dev/other", None, id="unknown"),
        pytest.param("c", -1, -1, "", None, id="no-numbers"),
        pytest.param("p", 0, 0, "/dev/pipe", None, id="fifo"),
        pytest.param("", 0, 0, "", None, id="nothing"),
    ],
)
def test_a_host_with_two_sockets(
    lay: Lay, kind: str, major: int, minor: int, path: str, expected: str | None
) -> None:
    assert nodes(lay(TREE), kind, major, minor, path) == expected


def test_a_group_with_functions_on_two_nodes_is_on_both(lay: Lay) -> None:
    both: dict[str, str | dict[str, str]] = {
        "sys/kernel/iommu_groups/42/devices/0000:99:02.1": {
            "symlink": "../../../../devices/pci0000:98/0000:98:01.0/0000:99:02.1"
        },
        # Counts for nothing: not a symlink to a device.
        "sys/kernel/iommu_groups/42/devices/odd": "x",
    }
    assert nodes(lay({**TREE, **both}), "c", 511, 0) == "0-1"


@pytest.mark.parametrize("text", ["", "many", "1024", "99999", "0 1", "-7"])
def test_an_invalid_node_is_unknown(lay: Lay, text: str) -> None:
    tree = {**TREE, "sys/devices/pci0000:98/0000:98:02.0/0000:9a:00.0/numa_node": text}
    assert nodes(lay(tree), "c", 226, 128) is None


def test_a_directory_in_place_of_a_file_is_not_an_error(lay: Lay) -> None:
    name = "sys/devices/pci0000:98/0000:98:02.0/0000:9a:00.0/numa_node"
    tree = {key: content for key, content in TREE.items() if key != name}
    assert nodes(lay({**tree, f"{name}/x": ""}), "c", 226, 128) is None


def test_another_class_below_vfio_is_not_a_group(lay: Lay) -> None:
    tree: dict[str, str | dict[str, str]] = {
        "sys/devices/virtual/vfio/odd/dev": "",
        "sys/dev/char/5:5": {"symlink": "../../devices/virtual/vfio/odd"},
    }
    assert nodes(lay(tree), "c", 5, 5) is None


def test_symlinks_out_of_the_root_are_ignored(lay: Lay, tmp_path: Path) -> None:
    outside = tmp_path / "devices" / "pci0000:00" / "0000:00:01.0"
    outside.mkdir(parents=True)
    (outside / "numa_node").write_text("3\n")
    root = lay(
        {
            "sys/devices/pci0000:00/dev": "",
            "sys/dev/char/5:0": {"symlink": str(outside)},
            "sys/dev/char/5:1": {
                "symlink": "../../../../devices/pci0000:00/0000:00:01.0",
            },
            "sys/dev/char/5:2": {"symlink": "5:2"},
            "sys/dev/char/5:3": {"symlink": "../../devices"},
            "sys/devices/pci0000:00/up": {"symlink": str(outside)},
            "sys/dev/char/5:4": {"symlink": "../../devices/pci0000:00/up"},
        }
    )
    assert [nodes(root, "c", 5, minor) for minor in range(5)] == [None] * 5


def test_a_group_that_contains_itself_has_no_node(lay: Lay) -> None:
    root = lay(
        {
            "sys/devices/virtual/vfio/1/dev": "",
            "sys/dev/char/5:0": {"symlink": "../../devices/virtual/vfio/1"},
            "sys/kernel/iommu_groups/1/devices/x": {
                "symlink": "../../../../devices/virtual/vfio/1"
            },
        }
    )
    assert nodes(root, "c", 5, 0) is None


def test_the_root_itself_may_be_a_symlink(lay: Lay, tmp_path: Path) -> None:
    root = lay(TREE)
    (tmp_path / "alias").symlink_to(root)
    assert nodes(tmp_path / "alias", "c", 226, 128) == "1"


def test_the_node_of_a_cached_device_is_read_each_time(lay: Lay) -> None:
    """An administrator may correct the node that firmware reports."""
    root = lay(TREE)
    assert nodes(root, "c", 226, 128) == "1"
    (root / "sys/devices/pci0000:98/0000:98:02.0/0000:9a:00.0/numa_node").write_text("0\n")
    assert nodes(root, "c", 226, 128) == "0"


def test_numbers_of_a_replaced_device(lay: Lay) -> None:
    root = lay(TREE)
    link = root / "sys/dev/char/226:128"
    assert nodes(root, "c", 226, 128) == "1"
    link.unlink()
    assert nodes(root, "c", 226, 128) is None
    link.symlink_to("../../devices/pci0000:17/0000:17:03.0/0000:1a:00.0/infiniband_verbs/uverbs0")
    assert nodes(root, "c", 226, 128) == "0"


def test_a_missing_device_is_not_cached(lay: Lay) -> None:
    root = lay({"sys/dev/char/5:0": {"symlink": "../../devices/pci0000:00/late"}})
    assert nodes(root, "c", 5, 0) is None
    late = root / "sys/devices/pci0000:00/late"
    late.mkdir(parents=True)
    (late / "numa_node").write_text("2\n")
    assert nodes(root, "c", 5, 0) == "2"


def test_a_cached_device_whose_node_is_removed_has_none(lay: Lay) -> None:
    root = lay(TREE)
    assert nodes(root, "c", 226, 128) == "1"
    (root / "sys/devices/pci0000:98/0000:98:02.0/0000:9a:00.0/numa_node").unlink()
    assert nodes(root, "c", 226, 128) is None


def test_an_invalid_root_is_not_an_error() -> None:
    assert device_numa_nodes(Path("/no\0path"), "c", 1, 3, "/dev/null") is None


def test_this_hosts_devices_are_readable() -> None:
    found = device_numa_nodes(Path("/sys"), "c", 1, 3, "/dev/null")
    assert found is None or isinstance(found, NodeSet)
