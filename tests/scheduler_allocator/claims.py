"""The claims of pods with CPUs and memory on one NUMA node, and the slice of a driver of CPUs."""

from collections.abc import Sequence
from typing import Any

from nri_numamem.export.resourceslice import NUMA_NODE, class_name
from nri_numamem.numa import CpuSet, Machine

NODE_NAME = "worker"
CPU_DRIVER = "dra.cpu"
CPU_CAPACITY = "dra.cpu/cpu"


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
    return {
        "metadata": {"name": f"{node_name}-{CPU_DRIVER}"},
        "spec": {
            "driver": CPU_DRIVER,
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def cpu_class() -> dict[str, Any]:
    """Return the class of CPUs."""
    expression = f'device.driver == "{CPU_DRIVER}"'
    return {
        "metadata": {"name": CPU_DRIVER},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def request(name: str, device_class: str, key: str, amount: int, count: int = 1) -> dict[str, Any]:
    """Return a request of `count` devices, each with an amount."""
    return {
        "name": name,
        "exactly": {
            "deviceClassName": device_class,
            "allocationMode": "ExactCount",
            "count": count,
            "capacity": {"requests": {key: str(amount)}},
        },
    }


def claim(uid: str, requests: Sequence[dict[str, Any]], aligned: Sequence[str]) -> dict[str, Any]:
    """Return a claim whose requests `aligned` are on one NUMA node."""
    constraints = [{"requests": [*aligned], "matchAttribute": NUMA_NODE}] if aligned else []
    return {
        "metadata": {"name": uid, "namespace": "ns", "uid": uid},
        "spec": {"devices": {"requests": [*requests], "constraints": constraints}},
    }


def of_pod(uid: str, memory_bytes: int, cpus: int) -> dict[str, Any]:
    """Return a claim of memory and CPUs on one NUMA node."""
    memory = request("mem", class_name("memory"), "size", memory_bytes)
    return claim(uid, [memory, request("cpus", CPU_DRIVER, CPU_CAPACITY, cpus)], ["mem", "cpus"])
