"""Devices of a message are limited in number; a rule for all devices means privileged."""

import pytest

from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.nri.devices import Device, devices_of, is_privileged, no_device_nodes


def test_a_device_has_its_type_numbers_and_path() -> None:
    message = api.LinuxDevice(type="c", major=10, minor=196, path="/dev/vfio/vfio")
    assert list(devices_of([message])) == [Device("c", 10, 196, "/dev/vfio/vfio")]


def test_the_number_of_devices_is_limited() -> None:
    messages = [api.LinuxDevice(path=f"/dev/{number}") for number in range(100)]
    found = list(devices_of(messages))
    assert [device.path for device in found] == [f"/dev/{number}" for number in range(64)]


def test_a_host_without_devices_has_no_nodes() -> None:
    assert no_device_nodes("/kubepods/podu", []) == ()


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
