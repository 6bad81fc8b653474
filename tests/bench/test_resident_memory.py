"""Resident memory step by step."""

import sys
from pathlib import Path

from tests.bench import resident_memory


def test_each_step_is_resident_on_top_of_the_one_before() -> None:
    found = resident_memory.measure(Path(sys.executable))
    assert tuple(found) == resident_memory.STEPS
    sizes = list(found.values())
    assert sizes == sorted(sizes)
    assert sizes[0] > 1 << 20


def test_the_table_is_in_mib() -> None:
    assert resident_memory.rows({"x": 3 << 19})[1] == ("x", "1.5 MiB")
