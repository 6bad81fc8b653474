"""What messages show: units, absent values, values out of range, and limits of their number."""

from collections.abc import Mapping

import pytest

from nri_numamem.engine.records.plain import fields_of
from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.nri.host_facts import Device
from nri_numamem.nri.messages import (
    cpu_limit_millicores,
    created,
    devices_of,
    hugepage_limits,
    is_privileged,
    memory_limit,
    namespace_path,
    reserved_bytes,
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


def test_a_device_has_its_type_numbers_and_path() -> None:
    message = api.LinuxDevice(type="c", major=10, minor=196, path="/dev/vfio/vfio")
    assert list(devices_of([message])) == [Device("c", 10, 196, "/dev/vfio/vfio")]


def test_the_number_of_devices_is_limited() -> None:
    messages = [api.LinuxDevice(path=f"/dev/{number}") for number in range(100)]
    found = list(devices_of(messages))
    assert [device.path for device in found] == [f"/dev/{number}" for number in range(64)]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (api.LinuxDeviceCgroup(allow=True), True),
        (api.LinuxDeviceCgroup(allow=True, type="a"), True),
        (api.LinuxDeviceCgroup(allow=False, type="a"), False),
        (api.LinuxDeviceCgroup(allow=True, type="c"), False),
        (api.LinuxDeviceCgroup(allow=True, major=api.OptionalInt64(value=1)), False),
        (api.LinuxDeviceCgroup(allow=True, minor=api.OptionalInt64(value=1)), False),
    ],
)
def test_a_rule_for_all_devices_means_privileged(
    rule: api.LinuxDeviceCgroup, expected: bool
) -> None:
    other = api.LinuxDeviceCgroup(allow=True, type="b", major=api.OptionalInt64(value=8))
    assert is_privileged(api.LinuxResources(devices=[other, rule])) is expected


@pytest.mark.parametrize(
    ("unified", "expected"),
    [
        ({}, None),
        ({"memory.high": "5"}, None),
        ({"memory.low": "0"}, None),
        ({"memory.low": "max"}, None),
        ({"memory.low": " 7\n"}, 7),
        ({"memory.min": "9"}, 9),
        ({"memory.low": "7", "memory.min": "9"}, 9),
        ({"memory.min": "9" * 20}, 2**63 - 1),
        ({"memory.min": "9" * 21}, None),
        ({"memory.min": "-1"}, None),
    ],
)
def test_the_reservation(unified: Mapping[str, str], expected: int | None) -> None:
    resources = api.LinuxResources(unified=unified)
    assert reserved_bytes(resources) == expected
    assert dict(resources.unified) == unified


def test_the_path_is_that_of_the_network_namespace() -> None:
    def path_in(*namespaces: tuple[str, str]) -> str:
        pod = api.PodSandbox()
        for kind, path in namespaces:
            pod.linux.namespaces.add(type=kind, path=path)
        return namespace_path(pod)

    of_pod = "/run/netns/cni-1"
    assert path_in(("ipc", "/proc/1/ns/ipc"), ("network", of_pod)) == of_pod
    for path in ("", "run/netns/a", "/" * 4096):
        assert not path_in(("network", path))
    assert not path_in(("ipc", "/proc/1/ns/ipc"))


@pytest.mark.parametrize(
    ("parent", "qos"),
    [
        ("/kubepods/podu", "Guaranteed"),
        ("/kubepods/burstable/podu", "Burstable"),
        ("", "Unknown"),
    ],
)
def test_the_names_of_a_created_container(parent: str, qos: str) -> None:
    pod = api.PodSandbox(id="s", name="db", namespace="ns", uid="u")
    pod.linux.cgroup_parent = parent
    container = api.Container(id="c", pod_sandbox_id="s", name="app")
    found = created(api.CreateContainerRequest(pod=pod, container=container))
    assert fields_of(found) == {
        "pod": "db",
        "namespace": "ns",
        "container": "app",
        "pod_uid": "u",
        "container_id": "c",
        "sandbox_id": "s",
        "qos_class": qos,
    }
