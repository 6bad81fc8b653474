"""The claims of pods with CPUs and memory on one NUMA node, and the slice of a driver of CPUs."""

from collections.abc import Sequence
from typing import Any

from nri_numamem.export.resourceslice import NUMA_NODE, SEVERAL_NODES, class_name
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


def request(name: str, device_class: str, key: str, amount: int) -> dict[str, Any]:
    """Return a request of an amount of one device."""
    return {
        "name": name,
        "exactly": {
            "deviceClassName": device_class,
            "allocationMode": "ExactCount",
            "count": 1,
            "capacity": {"requests": {key: str(amount)}},
        },
    }


def of_pod(uid: str, memory_bytes: int, cpus: int) -> dict[str, Any]:
    """Return a claim of memory and CPUs on one NUMA node."""
    requests, aligned = _aligned("", class_name("memory"), memory_bytes, cpus)
    return _claim(uid, requests, [aligned])


def of_pod_on_two_nodes(uid: str, memory_bytes: int, cpus: int) -> dict[str, Any]:
    """Return a claim of half of the memory and of the CPUs on each of two NUMA nodes."""
    halves = [
        _aligned(side, class_name("memory") + SEVERAL_NODES, memory_bytes // 2, cpus // 2)
        for side in ("-0", "-1")
    ]
    distinct = {"requests": ["mem-0", "mem-1"], "distinctAttribute": NUMA_NODE}
    requests = [each for requests, _ in halves for each in requests]
    return _claim(uid, requests, [*(aligned for _, aligned in halves), distinct])


def _aligned(
    side: str, memory_class: str, memory_bytes: int, cpus: int
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return requests of memory and CPUs, and the constraint that they are on one NUMA node."""
    memory = request(f"mem{side}", memory_class, "size", memory_bytes)
    found = [memory, request(f"cpus{side}", CPU_DRIVER, CPU_CAPACITY, cpus)]
    return found, {"requests": [each["name"] for each in found], "matchAttribute": NUMA_NODE}


def _claim(
    uid: str, requests: Sequence[dict[str, Any]], constraints: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "metadata": {"name": uid, "namespace": "ns", "uid": uid},
        "spec": {"devices": {"requests": [*requests], "constraints": [*constraints]}},
    }
