"""Devices of each NUMA node, as the kubelet lists them.

The Topology Manager aligns devices too, so the scheduler plugin has to count them per node. A
device near several nodes counts on each of them, as other exporters of the object count it. Devices
without NUMA nodes are not in the object; the scheduler counts them for the whole host.
"""

from collections.abc import Mapping

from nri_numamem.export.amounts import Amounts
from nri_numamem.kubelet.host_resources import KubeletResources


def device_amounts(resources: KubeletResources) -> Mapping[int, Mapping[str, Amounts]]:
    """Return node id -> resource -> amounts in devices, both ascending."""
    ids: dict[tuple[int, str], set[str]] = {}
    for devices in resources.devices:
        for node_id in devices.nodes if devices.ids else ():
            ids.setdefault((node_id, devices.resource), set()).update(devices.ids)
    found: dict[int, dict[str, Amounts]] = {}
    for (node_id, resource), present in sorted(ids.items()):
        free = sum((resource, device_id) not in resources.used_devices for device_id in present)
        amounts = Amounts(len(present), len(present), free)
        found.setdefault(node_id, {})[resource] = amounts
    return found
