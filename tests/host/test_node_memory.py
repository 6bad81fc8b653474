from pathlib import Path

import pytest

from nri_numamem.host.node_memory import read_available
from nri_numamem.host.sysfs import MachineError

KI = 1024
MEMINFO = """\
Node 1 MemTotal:       1000 kB
Node 1 MemFree:         100 kB
Node 1 MemUsed:         900 kB
Node 1 Active(anon):    500 kB
Node 1 Active(file):     20 kB
Node 1 Inactive(file):    3 kB
Node 1 FilePages:        40 kB
Node 1 SReclaimable:      4 kB
"""


def write(root: Path, node: int, text: str) -> Path:
    path = root / f"devices/system/node/node{node}/meminfo"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def test_free_and_reclaimable_bytes(tmp_path: Path) -> None:
    write(tmp_path, 1, MEMINFO)
    write(tmp_path, 0, "Node 0 MemTotal: 5 kB\n")
    assert read_available(tmp_path) == {1: 127 * KI}


def test_a_kernel_without_numa(tmp_path: Path) -> None:
    assert read_available(tmp_path) == {}


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    path = write(tmp_path, 0, "")
    path.unlink()
    path.mkdir()
    with pytest.raises(MachineError, match="meminfo"):
        read_available(tmp_path)
