"""Memory of NUMA nodes."""

from tests.machines.guest.node_memory import total_mib, writable_mib_of

_MEMINFO = """\
Node 1 MemTotal:        1031568 kB
Node 1 MemFree:          819200 kB
Node 1 MemUsed:          212368 kB
Node 1 Active(anon):       9000 kB
Node 1 Active(file):      10240 kB
Node 1 Inactive(file):    20480 kB
Node 1 SReclaimable:       4096 kB
Node 1 HugePages_Total:    16
"""


def test_files_can_be_dropped() -> None:
    assert writable_mib_of(_MEMINFO) == 800 + 10 + 20 + 4


def test_this_machine_has_memory() -> None:
    assert total_mib() > 0
