"""Devices of each node."""

from nri_numamem.export.amounts import Amounts
from nri_numamem.export.devices import device_amounts
from nri_numamem.kubelet.host_resources import Devices, KubeletResources
from nri_numamem.numa import NodeSet

NIC, GPU = "vendor.com/nic", "vendor.com/gpu"


def devices(resource: str, ids: str, *nodes: int) -> Devices:
    return Devices(resource, frozenset(ids.split()), NodeSet(nodes))


def test_devices_count_on_their_node() -> None:
    present = (
        devices(NIC, "n0", 0), devices(NIC, "n1 n2", 0), devices(NIC, "n3", 1),
        devices(GPU, "g0", 1),
    )  # fmt: skip
    used = frozenset({(NIC, "n1"), (NIC, "n3"), (GPU, "n0")})
    found = device_amounts(KubeletResources(present, used))
    assert found == {
        0: {NIC: Amounts(3, 3, 2)},
        1: {GPU: Amounts(1, 1, 1), NIC: Amounts(1, 1, 0)},
    }
    assert [list(of_node) for of_node in found.values()] == [[NIC], [GPU, NIC]]


def test_a_device_near_two_nodes_counts_on_both() -> None:
    resources = KubeletResources((devices(NIC, "a b", 0, 1),), frozenset({(NIC, "a")}))
    assert device_amounts(resources) == {n: {NIC: Amounts(2, 2, 1)} for n in (0, 1)}


def test_a_device_that_is_listed_twice_counts_once() -> None:
    resources = KubeletResources((devices(NIC, "a", 0), devices(NIC, "a", 0)))
    assert device_amounts(resources) == {0: {NIC: Amounts(1, 1, 1)}}


def test_devices_without_nodes_and_used_devices_that_are_gone_do_not_count() -> None:
    resources = KubeletResources((devices(NIC, "a"), devices(NIC, "", 1)), frozenset({(NIC, "b")}))
    assert device_amounts(resources) == {}
