"""Scenario of a CDI device: memory follows the NUMA node of a device that a container requests.

The machine has a second PCI root bus at the NUMA node DEVICE_NODE. A virtio console on it has a
character device, which stands for an accelerator. A CDI specification in /etc/cdi names that
character device, and a container requests it by the field CDI_devices of the CRI, as the kubelet
does for devices of DRA and of device plugins. Without the device a container gets node 0, the
lowest one.
"""

import json
from pathlib import Path
from typing import Any

from tests.e2e.guest.scenarios_placement import MEDIUM, MIB, SMALL
from tests.machines.guest import cgroups
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.host import Host
from tests.machines.guest.kubelet import ContainerSpec, Pod, PodSpec
from tests.machines.guest.waiting import wait_until

DEVICE_NODE = 2
PORT = "accelerator"
"""Name of the console's port."""

_NAME = "example.com/accelerator=0"
_SPECIFICATION = Path("/etc/cdi/accelerator.json")
_PORTS = Path("/sys/class/virtio-ports")
_IN_CONTAINER = "/dev/accelerator0"
_WRITTEN_BYTES = 100_000_000
# The block stays in dd's memory, because sleep never reads from the pipe.
_WRITER = (
    f"test -c {_IN_CONTAINER} && "
    f"busybox dd if=/dev/zero bs={_WRITTEN_BYTES} count=1 | busybox sleep 1000000"
)

_WITH_DEVICE = ContainerSpec(
    "main", SMALL, command=("/bin/sh", "-c", _WRITER), cdi_devices=(_NAME,)
)


def _device_has_a_node(host: Host) -> str:
    """Write the specification; the device's NUMA node is that of its PCI device."""
    port = _port()
    device = (_PORTS / port).resolve()
    numbers = (device / "dev").read_text(encoding="ascii").strip()
    pci = next(parent for parent in device.parents if (parent / "numa_node").exists())
    node = int((pci / "numa_node").read_text(encoding="ascii"))
    expect(node == DEVICE_NODE, f"{pci} is on node {node}")
    link = Path("/sys/dev/char", numbers).resolve()
    expect(link == device, f"{numbers} leads to {link}, not to {device}")
    edits = {"deviceNodes": [{"path": _IN_CONTAINER, "hostPath": f"/dev/{port}"}]}
    kind, _, name = _NAME.partition("=")
    devices = [{"name": name, "containerEdits": edits}]
    _SPECIFICATION.parent.mkdir(parents=True, exist_ok=True)
    document = {"cdiVersion": "0.6.0", "kind": kind, "devices": devices}
    _SPECIFICATION.write_text(json.dumps(document), encoding="ascii")
    return f"{_NAME} is {numbers} at {pci.name}, node {node}"


def _container_without_the_device_is_elsewhere(host: Host) -> str:
    nodes = host.nodes(host.kubelet.run(PodSpec("plain", (ContainerSpec("main", SMALL),))))
    expect(nodes == {0}, f"it is on {sorted(nodes)}")
    record = _admitted(host, "plain")
    expect("devices" not in record["hints"], f"{record}")
    return f"node {sorted(nodes)}"


def _memory_follows_the_device(host: Host) -> str:
    pod = host.kubelet.run(PodSpec("with-device", (_WITH_DEVICE,)))
    nodes = host.nodes(pod)
    expect(nodes == {DEVICE_NODE}, f"it is on {sorted(nodes)}")

    def written() -> dict[int, int] | None:
        anonymous = cgroups.anonymous_bytes(pod.parent, pod.container_ids["main"])
        return anonymous if sum(anonymous.values()) >= _WRITTEN_BYTES else None

    anonymous = wait_until(written, "100 MB of anonymous memory, after the test of the device")
    elsewhere = sum(size for node, size in anonymous.items() if node != DEVICE_NODE)
    expect(elsewhere < MIB, f"{elsewhere} bytes are on other nodes: {anonymous}")
    return f"{anonymous}"


def _record_names_the_device(host: Host) -> str:
    record = _admitted(host, "with-device")
    expect(record["hints"].get("devices") == [str(DEVICE_NODE)], f"{record}")
    screen = host.plugin.command("explain", "with-device")
    expect("device" in screen.stdout, screen.stdout + screen.stderr)
    return f"{record['hints']}"


def _restart_keeps_the_place(host: Host) -> str:
    """Restart the runtime; the plugin's new connection shows no devices."""
    before, accounting = host.running(), host.plugin.accounting()
    host.restart_runtime(killed=False)
    expect(host.running() == before, f"from {before} to {host.running()}")
    after = host.plugin.accounting()
    expect(after == accounting, f"from {accounting} to {after}")
    return f"{sorted(before)}"


def _restarted_container_follows_the_device(host: Host) -> str:
    pod = host.kubelet.pod("with-device")
    host.kubelet.client.stop_container(pod.container_ids["main"])
    host.kubelet.run_container(pod, "main")
    nodes = host.nodes(pod)
    expect(nodes == {DEVICE_NODE}, f"it is on {sorted(nodes)}")
    return f"node {sorted(nodes)}"


def _full_node_is_reported(host: Host) -> str:
    """Fill the device's node: under best-effort the container runs elsewhere, and is reported."""
    full = PodSpec("full", (ContainerSpec("main", MEDIUM - SMALL, cdi_devices=(_NAME,)),))
    expect(_nodes(host.kubelet.run(full)) == {DEVICE_NODE}, "the node has no room for the pod full")
    late = host.kubelet.run(PodSpec("late", (_WITH_DEVICE,)))
    nodes = _nodes(late)
    expect(nodes and DEVICE_NODE not in nodes, f"it is on {sorted(nodes)}")
    record = next(
        each for each in reversed(host.plugin.records("misaligned")) if each["pod"] == "late"
    )
    expect(record["misaligned"] == {"devices": [str(DEVICE_NODE)]}, f"{record}")
    return f"{record}"


def _port() -> str:
    """Return the name of the console's character device."""
    for path in _PORTS.iterdir():
        if (path / "name").read_text(encoding="ascii").strip() == PORT:
            return path.name
    raise LookupError(f"the machine has no virtio port {PORT}")


def _nodes(pod: Pod) -> frozenset[int]:
    return cgroups.nodes(pod.parent, pod.container_ids["main"])


def _admitted(host: Host, pod: str) -> dict[str, Any]:
    """Return the record of a pod's placement; it is written after the container was created."""

    def found() -> dict[str, Any] | None:
        records = [each for each in host.plugin.records("admitted") if each["pod"] == pod]
        return records[-1] if records else None

    return wait_until(found, f"the record of {pod}")


CDI = (
    Check("device_has_a_node", _device_has_a_node),
    Check("container_without_the_device_is_elsewhere", _container_without_the_device_is_elsewhere),
    Check("memory_follows_the_device", _memory_follows_the_device),
    Check("record_names_the_device", _record_names_the_device),
    Check("restart_keeps_the_place", _restart_keeps_the_place),
    Check("restarted_container_follows_the_device", _restarted_container_follows_the_device),
    Check("full_node_is_reported", _full_node_is_reported),
)
