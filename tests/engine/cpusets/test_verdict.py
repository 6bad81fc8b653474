"""The rules for a cgroup that does not have the nodes of the accounting."""

from dataclasses import replace

import pytest

from nri_numamem.engine.core.events import CgroupUse
from nri_numamem.engine.cpusets.verdict import MOVED_BYTES_LIMIT, Verdict, judge, repair_obstacle
from nri_numamem.memorymanager import Block
from nri_numamem.numa import NodeSet

N0, N1, UNSET = NodeSet([0]), NodeSet([1]), NodeSet()
ON_BOTH = CgroupUse(NodeSet([0, 1]), {0: 1 << 40, 1: MOVED_BYTES_LIMIT})
MEMORY = Block(N0, "memory", 5)


@pytest.mark.parametrize(
    ("mems", "effective", "is_unconfirmed", "obstacle", "expected"),
    [
        (N0, None, False, "", Verdict.IN_PLACE),
        (N0, None, True, "devices", Verdict.IN_PLACE),
        (UNSET, N0, False, "", Verdict.IN_PLACE),
        (UNSET, NodeSet([0, 1]), False, "", Verdict.REPAIR),
        (UNSET, None, True, "", Verdict.REPAIR),
        (UNSET, None, True, "devices", Verdict.UNPINNED),
        (N1, N0, False, "", Verdict.CONFLICT),
        (N1, None, True, "", Verdict.REPAIR),
        (N1, None, True, "devices", Verdict.CONFLICT),
    ],
)
def test_the_verdict(
    mems: NodeSet,
    effective: NodeSet | None,
    obstacle: str,
    expected: Verdict,
    *,
    is_unconfirmed: bool,
) -> None:
    use = None if effective is None else CgroupUse(effective)
    found = judge(N0, mems, use, is_unconfirmed=is_unconfirmed, obstacle=obstacle)
    assert found is expected


@pytest.mark.parametrize(
    ("use", "block", "expected"),
    [
        (ON_BOTH, MEMORY, ""),
        (replace(ON_BOTH, memory_bytes={1: MOVED_BYTES_LIMIT + 1}), MEMORY, "268435457 bytes"),
        (ON_BOTH, Block(N0, "hugepages-2Mi", 1), "the container has hugepages"),
        (ON_BOTH, Block(N0, "hugepages-2Mi", 0), ""),
        (replace(ON_BOTH, has_hugepages=True), MEMORY, "the container uses hugepages"),
        (replace(ON_BOTH, memory_bytes=None), MEMORY, "its use of memory is unknown"),
        (None, MEMORY, "its use of memory is unknown"),
    ],
)
def test_what_forbids_a_repair(use: CgroupUse | None, block: Block, expected: str) -> None:
    found = repair_obstacle(N0, use, [block], has_devices=False)
    assert found.startswith(expected)
    assert bool(found) == bool(expected)
    assert repair_obstacle(N0, use, [block], has_devices=True) == "the container has devices"
