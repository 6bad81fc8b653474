"""The kubelet's PodResources messages."""

import pytest

from nri_numamem.kubelet import podresources_pb2 as api
from nri_numamem.kubelet.host_resources import Devices, HostMemory, KubeletResources, MemoryEntry
from nri_numamem.kubelet.podresources import (
    GET_ALLOCATABLE_RESOURCES,
    PodResourcesError,
    read_resources,
    with_memory_of_allocatable,
    with_memory_of_get,
    with_memory_of_list,
)
from nri_numamem.numa import CpuSet, NodeSet

NIC = "vendor.com/nic"
MEMORY: HostMemory = {
    ("ns", "a"): {
        "main": (MemoryEntry("memory", 1, 300), MemoryEntry("hugepages-2Mi", 1, 4)),
        "init": (MemoryEntry("memory", 1, 7),),
        "ended": (MemoryEntry("memory", 1, 0),),
    },
    ("other", "a"): {"main": (MemoryEntry("memory", 0, 1),)},
    ("ns", "pool"): {"main": (), "": (MemoryEntry("memory", 0, 50),)},
}
# A field that this version does not have: number 99, two bytes.
UNKNOWN = b"\x9a\x06\x02hi"


def topology(*nodes: int) -> api.TopologyInfo:
    return api.TopologyInfo(nodes=[api.NUMANode(ID=node) for node in nodes])


def devices(resource: str, ids: str, *nodes: int) -> api.ContainerDevices:
    return api.ContainerDevices(
        resource_name=resource, device_ids=ids.split(), topology=topology(*nodes)
    )


def pod(name: str, *containers: api.ContainerResources, space: str = "ns") -> api.PodResources:
    return api.PodResources(name=name, namespace=space, containers=containers)


def container(name: str, *memory: api.ContainerMemory) -> api.ContainerResources:
    return api.ContainerResources(name=name, memory=memory)


def block(resource: str, size: int, *nodes: int) -> api.ContainerMemory:
    return api.ContainerMemory(memory_type=resource, size=size, topology=topology(*nodes))


def listed(*pods: api.PodResources) -> bytes:
    return api.ListPodResourcesResponse(pod_resources=pods).SerializeToString()


def test_the_service_has_the_kubelets_name() -> None:
    (service,) = api.DESCRIPTOR.services_by_name.values()
    (method,) = [name for name in service.methods_by_name if name.startswith("GetA")]
    assert f"/{service.full_name}/{method}" == GET_ALLOCATABLE_RESOURCES


def test_resources_are_read() -> None:
    one, other = container("one"), container("other")
    one.devices.extend([devices(NIC, "n1", 1), devices(NIC, "n2", 1)])
    one.cpu_ids.extend([2, 3])
    other.cpu_ids.extend([5])
    with_cpus = pod("b", other)
    with_cpus.cpu_ids.extend([5, 7])
    allocatable = api.AllocatableResourcesResponse(
        devices=[devices(NIC, "n1 n2", 1), devices("vendor.com/fpga", "f", 0, 1)],
        cpu_ids=[7, 6, 5, 4, 3, 2],
    )
    allocatable.devices.append(api.ContainerDevices(resource_name="plain", device_ids=["p"]))
    found = read_resources(listed(pod("a", one), with_cpus), allocatable.SerializeToString())
    assert found == KubeletResources(
        (
            Devices(NIC, frozenset({"n1", "n2"}), NodeSet([1])),
            Devices("vendor.com/fpga", frozenset("f"), NodeSet([0, 1])),
            Devices("plain", frozenset("p"), NodeSet()),
        ),
        frozenset({(NIC, "n1"), (NIC, "n2")}),
        CpuSet(range(2, 8)),
        CpuSet([2, 3, 5, 7]),
    )


def test_empty_replies_are_valid() -> None:
    assert read_resources(b"", b"") == KubeletResources()


@pytest.mark.parametrize(
    ("of_list", "of_allocatable", "reason"),
    [
        (b"\xff", b"", "the kubelet's reply is not a ListPodResourcesResponse"),
        (b"", b"\xff", "the kubelet's reply is not a AllocatableResourcesResponse"),
        (b"", api.AllocatableResourcesResponse(cpu_ids=[-1]).SerializeToString(), "invalid number"),
        (b"", api.AllocatableResourcesResponse(
            devices=[devices(NIC, "n", 1 << 40)]).SerializeToString(), "invalid number"),
    ],
)  # fmt: skip
def test_invalid_replies_are_refused(of_list: bytes, of_allocatable: bytes, reason: str) -> None:
    with pytest.raises(PodResourcesError, match=reason):
        read_resources(of_list, of_allocatable)


def test_list_has_the_memory_of_each_container() -> None:
    given = listed(
        pod("a", container("main"), container("none"), container("ended")),
        pod("a", container("main"), space="other"),
        pod("unknown", container("main")),
    )
    assert with_memory_of_list(given, MEMORY) == listed(
        pod(
            "a",
            container("main", block("memory", 300, 1), block("hugepages-2Mi", 4, 1)),
            container("none"),
            container("ended", block("memory", 0, 1)),
            # The kubelet leaves out init containers; this one still has memory.
            container("init", block("memory", 7, 1)),
        ),
        pod("a", container("main", block("memory", 1, 0)), space="other"),
        pod("unknown", container("main")),
    )


def test_an_init_container_without_memory_is_not_added() -> None:
    given = listed(pod("a", container("main"), container("init")))
    found = api.ListPodResourcesResponse.FromString(with_memory_of_list(given, MEMORY))
    assert [one.name for one in found.pod_resources[0].containers] == ["main", "init"]


def test_memory_of_a_pod_as_a_whole_is_in_the_field_of_the_pod() -> None:
    found = api.ListPodResourcesResponse.FromString(
        with_memory_of_list(listed(pod("pool", container("main"))), MEMORY)
    )
    (one,) = found.pod_resources
    assert [entry.size for entry in one.memory] == [50]
    assert [entry.name for entry in one.containers] == ["main"]


def test_memory_of_the_kubelet_is_replaced() -> None:
    of_kubelet = pod("a", container("main", block("memory", 300, 0, 1)))
    of_kubelet.memory.append(block("memory", 300, 0, 1))
    found = api.ListPodResourcesResponse.FromString(with_memory_of_list(listed(of_kubelet), {}))
    assert found.pod_resources[0] == pod("a", container("main"))


def test_all_other_fields_stay() -> None:
    one = container("main")
    one.devices.append(devices(NIC, "n1", 1))
    one.cpu_ids.append(3)
    # Field 2 of a claim, which this version does not read.
    one.dynamic_resources.append(api.DynamicResource.FromString(b"\x12\x05claim"))
    with_cpus = pod("b", one)
    with_cpus.cpu_ids.append(3)
    given = listed(with_cpus) + UNKNOWN
    assert with_memory_of_list(given, {}) == given
    of_get = api.GetPodResourcesResponse(pod_resources=with_cpus).SerializeToString() + UNKNOWN
    assert with_memory_of_get(of_get, {}) == of_get
    allocatable = api.AllocatableResourcesResponse(devices=[devices(NIC, "n1", 1)], cpu_ids=[1])
    assert with_memory_of_allocatable(allocatable.SerializeToString() + UNKNOWN, ()) == (
        allocatable.SerializeToString() + UNKNOWN
    )


def test_get_has_the_memory_of_the_pod() -> None:
    given = api.GetPodResourcesResponse(pod_resources=pod("a", container("main"), space="other"))
    found = with_memory_of_get(given.SerializeToString(), MEMORY)
    expected = pod("a", container("main", block("memory", 1, 0)), space="other")
    assert api.GetPodResourcesResponse.FromString(found).pod_resources == expected
    assert with_memory_of_get(b"", MEMORY) == b""


def test_allocatable_memory_is_replaced() -> None:
    given = api.AllocatableResourcesResponse(cpu_ids=[1], memory=[block("memory", 9, 0)])
    memory = (MemoryEntry("memory", 0, 100), MemoryEntry("hugepages-1Gi", 1, 200))
    found = with_memory_of_allocatable(given.SerializeToString(), memory)
    assert api.AllocatableResourcesResponse.FromString(found) == api.AllocatableResourcesResponse(
        cpu_ids=[1], memory=[block("memory", 100, 0), block("hugepages-1Gi", 200, 1)]
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda: with_memory_of_list(b"\xff", {}),
        lambda: with_memory_of_get(b"\xff", {}),
        lambda: with_memory_of_allocatable(b"\xff", ()),
    ],
)
def test_a_reply_that_is_no_message_is_refused(change: object) -> None:
    with pytest.raises(PodResourcesError, match="the kubelet's reply is not a "):
        change()  # type: ignore[operator]
