"""A CNI plugin that moves network devices of the host into a pod, and what the machine has of them.

The plugin is a shell script for CNI's commands ADD, DEL and VERSION, as host-device of the CNI
project. A file has the devices for the next pods. When a pod's namespace is removed, the kernel
moves its devices back.
This module depends on iproute2 and sysfs, and not on pods or the plugin under test.
"""

import json
from pathlib import Path

from tests.machines.guest.processes import output
from tests.machines.guest.waiting import wait_until

_CONFIGURATION = Path("/etc/cni/net.d/10-e2e.conflist")
_PLUGINS = Path("/opt/cni/bin")
_DEVICES = Path("/run/e2e-devices")
_INTERFACES = Path("/sys/class/net")

# The runtime requires an address of eth0, which pods of these tests do not use.
_SCRIPT = f"""\
#!/bin/sh
exec 2>>/var/log/e2e/cni.log
PATH=/usr/sbin:/usr/bin:/sbin:/bin
cat >/dev/null
name=$(basename "$CNI_NETNS")
case "$CNI_COMMAND" in
VERSION)
  cat <<END
{{"cniVersion": "1.0.0", "supportedVersions": ["0.3.1", "0.4.0", "1.0.0"]}}
END
  ;;
ADD)
  if [ "$CNI_IFNAME" = lo ]; then
    ip -n "$name" link set lo up
  else
    while read -r device address gateway; do
      ip link set "$device" netns "$name" && ip -n "$name" link set "$device" up
      [ -z "$gateway" ] || ip -n "$name" addr add "$address" dev "$device"
      [ -z "$gateway" ] || ip -n "$name" route add default via "$gateway" dev "$device"
    done <{_DEVICES}
  fi
  cat <<END
{{"cniVersion": "1.0.0", "interfaces": [{{"name": "$CNI_IFNAME", "sandbox": "$CNI_NETNS"}}],
 "ips": [{{"address": "10.9.0.2/24", "interface": 0}}]}}
END
  ;;
esac
"""


def install() -> None:
    """Load the cards' driver, and install plugin and configuration; pods get no device."""
    output("modprobe", "virtio_net")  # the machine has no udev
    _PLUGINS.mkdir(parents=True, exist_ok=True)
    for name in ("e2e", "loopback"):
        path = _PLUGINS / name
        path.write_text(_SCRIPT, encoding="ascii")
        path.chmod(0o755)
    document = {"cniVersion": "1.0.0", "name": "e2e", "plugins": [{"type": "e2e"}]}
    _CONFIGURATION.parent.mkdir(parents=True, exist_ok=True)
    give()
    _CONFIGURATION.write_text(json.dumps(document), encoding="ascii")


def give(*devices: str, primary: str = "") -> None:
    """Let the next pods get these devices of the host; `primary` gets a default route."""
    lines = [*devices, *([f"{primary} 10.9.1.2/24 10.9.1.1"] if primary else [])]
    _DEVICES.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")


def device_on(node: int) -> str:
    """Return the name of the host's network device on a NUMA node; wait until it is there."""

    def found() -> str | None:
        for path in sorted(_INTERFACES.iterdir()):
            resolved = path.resolve()
            files = (parent / "numa_node" for parent in resolved.parents)
            file = next((each for each in files if each.exists()), None)
            if file is not None and int(file.read_text(encoding="ascii")) == node:
                return path.name
        return None

    return wait_until(found, f"a network device on node {node}")
