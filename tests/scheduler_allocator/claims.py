"""Claims as `nri-numamem claim` writes them, and the slice of a driver of CPUs."""

import json
from typing import Any

from nri_numamem.export.claimtemplate import CPU_CAPACITY, CPU_CLASS, Needs, claim_spec
from nri_numamem.export.resourceslice import NUMA_NODE
from nri_numamem.numa import CpuSet, Machine

NODE_NAME = "worker"


def cpu_slice(machine: Machine, reserved: CpuSet, node_name: str = NODE_NAME) -> dict[str, Any]:
    """Return a slice as that of dra-driver-cpu, with one device for each NUMA node."""
    devices = [
        {
            "name": f"cpudevnuma{node.node_id:03}",
            "allowMultipleAllocations": True,
            "attributes": {NUMA_NODE: {"int": node.node_id}},
            "capacity": {CPU_CAPACITY: {"value": str(len(node.cpus - reserved))}},
        }
        for node in machine.nodes
    ]
    return slice_of(CPU_CLASS, node_name, devices)


def slice_of(driver: str, node_name: str, devices: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the slice of a driver."""
    return {
        "metadata": {"name": f"{node_name}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def class_of(driver: str) -> dict[str, Any]:
    """Return the class of all devices of a driver, with its name."""
    expression = f'device.driver == "{driver}"'
    return {
        "metadata": {"name": driver},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def claim_of(uid: str, needs: Needs) -> dict[str, Any]:
    """Return a claim of the template, with the defaults of the API server."""
    spec: dict[str, Any] = json.loads(json.dumps(claim_spec(needs)))
    for request in spec["devices"]["requests"]:
        for wanted in request.get("firstAvailable") or [request["exactly"]]:
            wanted.setdefault("allocationMode", "ExactCount")
            wanted.setdefault("count", 1)
    return {"metadata": {"name": uid, "namespace": "ns", "uid": uid}, "spec": spec}
