"""Limits in resource messages: units, absent values, and values out of range."""

import pytest

from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.nri.limits import (
    cpu_limit_millicores,
    hugepage_limits,
    memory_limit,
    unified_hugepages,
)

MI = 1 << 20
GI = 1 << 30
MAX = (1 << 63) - 1


@pytest.mark.parametrize(("limit", "expected"), [(0, None), (-1, None), (5, 5), (MAX, MAX)])
def test_memory_limits(limit: int, expected: int | None) -> None:
    resources = api.LinuxResources()
    resources.memory.limit.value = limit
    assert memory_limit(resources) == expected


def test_an_absent_memory_limit() -> None:
    assert memory_limit(api.LinuxResources()) is None


@pytest.mark.parametrize(
    ("quota", "period", "expected"),
    [
        (0, 100_000, None),
        (-1, 100_000, None),
        (5, 0, None),
        (50_000, 100_000, 500),
        (250_000, 100_000, 2500),
        (MAX, 1, MAX),
    ],
)
def test_cpu_limits(quota: int, period: int, expected: int | None) -> None:
    cpu = api.LinuxCPU()
    cpu.quota.value, cpu.period.value = quota, period
    assert cpu_limit_millicores(cpu) == expected
    assert cpu_limit_millicores(api.LinuxCPU()) is None


def test_hidden_hugepage_limits() -> None:
    assert hugepage_limits([]) is None


def test_hugepage_limits() -> None:
    entries = [
        api.HugepageLimit(page_size="2MB", limit=(1 << 64) - 1),
        api.HugepageLimit(page_size="1GB", limit=0),
        api.HugepageLimit(page_size="many", limit=7),
    ]
    assert hugepage_limits(entries) == {2 * MI: MAX, GI: 0}


def test_only_so_many_hugepage_limits_are_read() -> None:
    resources = api.LinuxResources()
    for _ in range(64):
        resources.hugepage_limits.add(page_size="none", limit=1)
    resources.hugepage_limits.add(page_size="2MB", limit=1)
    assert hugepage_limits(resources.hugepage_limits) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        (" 5\n", 5),
        ("9" * 20, MAX),
        ("9" * 21, None),
        ("9" * 1_000_000, None),
        (" " * 1_000_000, None),
        ("-1", None),
        ("1_0", None),
        ("max", None),
        ("", None),
        ("\u0665", None),
    ],
)
def test_values_of_unified_keys(text: str, expected: int | None) -> None:
    found = {} if expected is None else {2 * MI: expected}
    assert unified_hugepages({"hugetlb.2MB.max": text}) == found


def test_unified_keys() -> None:
    resources = api.LinuxResources()
    keys = ("hugetlb.64KB.max", "hugetlb.1GB.max", "hugetlb.16GB.max")
    others = ("hugetlb.2MB.rsvd.max", "hugetlb.3MB.max", "memory.min", "hugetlb..max")
    resources.unified.update(dict.fromkeys((*keys, *others), "7"))
    resources.unified.update({f"key {number}": "1" for number in range(1000)})
    before = len(resources.unified)
    assert unified_hugepages(resources.unified) == {64 << 10: 7, GI: 7, 16 * GI: 7}
    assert len(resources.unified) == before
