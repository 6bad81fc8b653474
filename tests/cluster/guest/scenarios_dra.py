"""Checks of a device that the kubelet's Dynamic Resource Allocation gives to a container.

The kubelet aligns no such device with memory. The machine has a second PCI root bus at the NUMA
node DEVICE_NODE; a virtio console on it has a character device, which stands for an accelerator.
"""

from pathlib import Path

from tests.cluster.guest import dra
from tests.cluster.guest.api_pods import ApiPods
from tests.cluster.guest.host import Host
from tests.cluster.guest.manifests import guaranteed
from tests.cluster.guest.scenarios_placement import block, one_node
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.waiting import wait_until

DEVICE_NODE = 2
PORT = "accelerator"
"""Name of the console's port."""
_PORTS = Path("/sys/class/virtio-ports")
_CLAIM = "accelerator"
_POD = "with-claim"
_USES_THE_DEVICE = f"test -c /dev/{dra.DEVICE} && exec busybox sleep 1000000"


def _memory_follows_the_device_of_a_claim(host: Host) -> str:
    """Run a pod with a claim, and one without, which is placed on another node."""
    assert isinstance(host.pods, ApiPods)
    driver = dra.accelerator(Path("/dev", _port()))
    driver.start()
    try:
        dra.create_claim(host.pods, _CLAIM)
        manifest = guaranteed(_POD, 200, ("/bin/sh", "-c", _USES_THE_DEVICE))
        host.pods.put(dra.with_claim(manifest, _CLAIM))
        dra.allocate(host.pods, _CLAIM, host.pod(_POD))
        host.wait_for_running(_POD)
        expect(_CLAIM in driver.prepared, f"the kubelet prepared {driver.prepared}")
        host.run(guaranteed("without-claim", 200))
        other = one_node(host, "without-claim")
        expect(other != {DEVICE_NODE}, "a pod without a device is on its node too")
        nodes = one_node(host, _POD)
        expect(nodes == {DEVICE_NODE}, f"the device is on {DEVICE_NODE}, the memory on {nodes}")
        blocks = host.assignments(_POD)
        expect(blocks == {"main": [block(nodes, 200)]}, f"the accounting has {blocks}")
        host.remove(_POD)
    finally:
        driver.stop()
        dra.delete_claim(host.pods, _CLAIM)
    return f"with the device on {sorted(nodes)}, without on {sorted(other)}"


def _port() -> str:
    """Return the name of the console's character device."""

    def found() -> str | None:
        for path in _PORTS.iterdir():
            if (path / "name").read_text(encoding="ascii").strip() == PORT:
                return path.name
        return None

    return wait_until(found, f"virtio port {PORT}")


DRA = (Check("memory_follows_the_device_of_a_claim", _memory_follows_the_device_of_a_claim),)
