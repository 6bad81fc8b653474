"""Scenarios of network hints: memory follows the NUMA node of a pod's network devices.

The machine has two network cards on PCI root buses of their own, on the nodes PRIMARY_NODE and
SECONDARY_NODE. A CNI plugin moves them into pods before the sandbox starts, and a CDI
specification lets the OCI runtime move one into a container. Without a device a container gets
node 0, the lowest one.
"""

import json
from pathlib import Path
from typing import Any

from tests.features.guest import cni, memory
from tests.features.guest.feature import Phase, restart_with
from tests.features.guest.memory import MIB
from tests.machines.guest import systemd
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.forms import UNIT
from tests.machines.guest.host import Host
from tests.machines.guest.kubelet import ContainerSpec, Pod, PodSpec
from tests.machines.guest.waiting import wait_until

PRIMARY_NODE, SECONDARY_NODE = 3, 2

_MEMORY = 128 * MIB
_WRITTEN_MIB = 48
_ANNOTATION = "network-hints.numamem.io"
_CDI_NAME = "example.com/nic=0"
_CDI = Path("/etc/cdi/nic.json")
# As docs/network-hints.md has it. A system call outside of the unit's filter ends the plugin.
_DROP_IN = """\
[Service]
Restart=no
SystemCallErrorNumber=kill
CapabilityBoundingSet=CAP_SYS_ADMIN
RestrictNamespaces=net
SystemCallFilter=capset
"""
_PROBE = ContainerSpec("probe", 16 * MIB)
_MAIN = ContainerSpec("main", _MEMORY, command=memory.writer(_WRITTEN_MIB))


def _card(name: str, node: int, bus: int) -> tuple[str, ...]:
    """Return QEMU's arguments for a network card of a NUMA node, without a cable."""
    return (
        *("-device", f"pxb,id={name},bus=pci.0,bus_nr={bus},numa_node={node}"),
        *("-device", f"virtio-net-pci,bus={name},romfile="),
    )


def _without_the_capability_pods_are_not_read(host: Host) -> str:
    """Run under the shipped unit, which does not permit it: a record, and the lowest node."""
    cni.install()
    cni.give(cni.device_on(SECONDARY_NODE))
    (record,) = host.plugin.records("network_namespaces_closed")
    pod = _run(host, "closed")
    expect(host.nodes(pod) == {0}, f"it is on {sorted(host.nodes(pod))}")
    host.kubelet.remove(pod)
    done = host.plugin.command("doctor")
    expect("RestrictNamespaces=net" in "".join(done.stdout.split()), done.stdout)
    return str(record["event"])


def _drop_in_permits_it(host: Host) -> str:
    with host.without_plugin():
        systemd.write_drop_in(UNIT, _DROP_IN)
        systemd.systemctl("daemon-reload")
    done = host.plugin.command("doctor")
    text = " ".join(done.stdout.split())
    expect("permits the plugin to enter network namespaces" in text, done.stdout)
    return systemd.show(UNIT, "CapabilityBoundingSet")


def _memory_follows_the_pods_card(host: Host) -> str:
    device = cni.device_on(SECONDARY_NODE)
    cni.give(device)
    pod = _run(host, "secondary", has_card=True)
    return _expect_on(host, pod, SECONDARY_NODE, {device: str(SECONDARY_NODE)})


def _restart_keeps_it_and_reads_the_namespace_again(host: Host) -> str:
    """Create the container again after a restart of the plugin: it follows the card too."""
    with host.without_plugin():
        pass
    pod = host.kubelet.pod("secondary")
    host.kubelet.client.stop_container(pod.container_ids["main"])
    _wait_until_read(host, pod)
    host.kubelet.run_container(pod, "main")
    expect(host.nodes(pod) == {SECONDARY_NODE}, f"it is on {sorted(host.nodes(pod))}")
    return f"cpuset.mems {SECONDARY_NODE}"


def _explain_names_the_interface(host: Host) -> str:
    done = host.plugin.command("explain", "e2e/secondary")
    text = " ".join(done.stdout.split())
    (device,) = host.plugin.records("network_hints_found")[0]["interfaces"]
    expect(f"network interface {device} on node {SECONDARY_NODE}" in text, done.stdout)
    host.kubelet.remove(host.kubelet.pod("secondary"))
    return f"network interface {device} on node {SECONDARY_NODE}"


def _primary_interface_does_not_count(host: Host) -> str:
    """Give a pod a card with a default route, which is back on the host after the pod's end."""
    primary, secondary = cni.device_on(PRIMARY_NODE), cni.device_on(SECONDARY_NODE)
    cni.give(secondary, primary=primary)
    pod = _run(host, "both", has_card=True)
    found = _expect_on(host, pod, SECONDARY_NODE, {secondary: str(SECONDARY_NODE)})
    host.kubelet.remove(pod)
    expect(cni.device_on(PRIMARY_NODE) == primary, "the card has another name")
    return found


def _annotation_switches_it_off(host: Host) -> str:
    cni.give(cni.device_on(SECONDARY_NODE))
    pod = _run(host, "off", {_ANNOTATION: "false"})
    expect(host.nodes(pod) == {0}, f"it is on {sorted(host.nodes(pod))}")
    host.kubelet.remove(pod)
    return "node 0"


def _pods_without_a_card_are_as_before(host: Host) -> str:
    cni.give()
    pod = _run(host, "veth")
    expect(host.nodes(pod) == {0}, f"it is on {sorted(host.nodes(pod))}")
    # A slow machine may also record that the namespace is not read yet.
    found = [each for each in host.plugin.records("network_hints_found") if each["pod"] == "veth"]
    expect(not found, f"{found}")
    host.kubelet.remove(pod)
    return "node 0"


def _memory_follows_a_device_of_the_oci_runtime(host: Host) -> str:
    """Let a CDI specification add `linux.netDevices`, which NRI shows as `net_devices`."""
    device = cni.device_on(SECONDARY_NODE)
    edits = {"netDevices": [{"hostInterfaceName": device, "name": "net1"}]}
    devices = [{"name": "0", "containerEdits": edits}]
    document = {"cdiVersion": "1.1.0", "kind": "example.com/nic", "devices": devices}
    _CDI.parent.mkdir(parents=True, exist_ok=True)
    _CDI.write_text(json.dumps(document), encoding="ascii")
    main = ContainerSpec("main", _MEMORY, command=_MAIN.command, cdi_devices=(_CDI_NAME,))
    pod = host.kubelet.run(PodSpec("net-devices", (main,), has_network=True))
    found = _expect_on(host, pod, SECONDARY_NODE, {device: str(SECONDARY_NODE)})
    (pid, *_) = memory.pids(pod)
    names = Path(f"/proc/{pid}/net/dev").read_text(encoding="ascii")
    expect("net1:" in names, names)
    host.kubelet.remove(pod)
    return found


def _all_counts_the_primary_interface(host: Host) -> str:
    restart_with(host, "networkHints: all\n")
    primary = cni.device_on(PRIMARY_NODE)
    cni.give(primary=primary)
    pod = _run(host, "primary", has_card=True)
    found = _expect_on(host, pod, PRIMARY_NODE, {primary: str(PRIMARY_NODE)})
    host.kubelet.remove(pod)
    return found


def _run(
    host: Host, name: str, annotations: dict[str, str] | None = None, *, has_card: bool = False
) -> Pod:
    """Start a pod with a network namespace; with `has_card`, "main" when the namespace is read."""
    spec = PodSpec(name, (_PROBE, _MAIN), annotations=annotations or {}, has_network=True)
    pod = host.kubelet.run_sandbox(spec)
    if has_card:
        _wait_until_read(host, pod)
    host.kubelet.run_container(pod, "main")
    return pod


def _wait_until_read(host: Host, pod: Pod) -> None:
    """Create the container "probe" until a record shows the pod's interfaces."""

    def is_read() -> bool:
        seen = len(_records(host))
        host.kubelet.run_container(pod, _PROBE.name)
        record = wait_until(lambda: _records(host)[seen:], "the record of the container")[0]
        host.kubelet.client.stop_container(pod.container_ids[_PROBE.name])
        return bool(record["event"] == "network_hints_found")

    wait_until(is_read, f"the network namespace of {pod.spec.name}")


def _expect_on(host: Host, pod: Pod, node: int, interfaces: dict[str, str]) -> str:
    """Expect the memory of a container on a node, and the record of its interfaces."""

    def found() -> dict[str, Any] | None:
        records = _records(host)
        names = pod.spec.name, "main"
        return next((each for each in records if (each["pod"], each["container"]) == names), None)

    record = wait_until(found, f"the record of {pod.spec.name}")
    expect(record["event"] == "network_hints_found", f"{record}")
    expect(record["interfaces"] == interfaces, f"{record}")
    nodes = host.nodes(pod)
    expect(nodes == {node}, f"it is on {sorted(nodes)}")
    written = memory.wait_for_written(pod, _WRITTEN_MIB)
    elsewhere = sum(size for each, size in written.items() if each != node)
    expect(elsewhere < 1, f"{written}")
    return f"{record['interfaces']}, cpuset.mems {node}, {written}"


def _records(host: Host) -> list[dict[str, Any]]:
    """Return the records of network hints of containers."""
    names = ("network_hints_found", "network_hints_incomplete")
    records = [each for name in names for each in host.plugin.records(name)]
    return sorted(records, key=lambda record: str(record["ts"]))


_CHECKS = (
    Check("without_the_capability_pods_are_not_read", _without_the_capability_pods_are_not_read),
    Check("drop_in_permits_it", _drop_in_permits_it),
    Check("memory_follows_the_pods_card", _memory_follows_the_pods_card),
    Check(
        "restart_keeps_it_and_reads_the_namespace_again",
        _restart_keeps_it_and_reads_the_namespace_again,
    ),
    Check("explain_names_the_interface", _explain_names_the_interface),
    Check("primary_interface_does_not_count", _primary_interface_does_not_count),
    Check("annotation_switches_it_off", _annotation_switches_it_off),
    Check("pods_without_a_card_are_as_before", _pods_without_a_card_are_as_before),
    Check(
        "memory_follows_a_device_of_the_oci_runtime", _memory_follows_a_device_of_the_oci_runtime
    ),
    Check("all_counts_the_primary_interface", _all_counts_the_primary_interface),
)

PHASES = (
    Phase(
        name="network-hints",
        scenarios=(_CHECKS,),
        settings="networkHints: secondary\n",
        devices=(*_card("nic2", SECONDARY_NODE, 64), *_card("nic3", PRIMARY_NODE, 96)),
    ),
)
