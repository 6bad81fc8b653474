"""A second driver for claims: its devices are the CPUs of NUMA nodes, which claims share.

Class, attributes and capacity are those of dra-driver-cpu in its grouped mode. It publishes them
and prepares claims, and sets no `cpuset.cpus`.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.guest.api_pods import ApiPods
from tests.cluster.guest.dra import Driver
from tests.cluster.guest.kubelet import HOST_NAME

NAME = "dra.cpu"
_RESOURCES = "/apis/resource.k8s.io/v1"
_NODES = Path("/sys/devices/system/node")


@contextlib.contextmanager
def running(pods: ApiPods) -> Iterator[Driver]:
    """Publish class and slice, and serve the kubelet."""
    driver = Driver(NAME)
    selector = {"cel": {"expression": f'device.driver == "{NAME}"'}}
    pods.request(
        "POST",
        f"{_RESOURCES}/deviceclasses",
        {"metadata": {"name": NAME}, "spec": {"selectors": [selector]}},
    )
    driver.start()
    name = f"{HOST_NAME}-{NAME}"
    spec = {
        "driver": NAME,
        "nodeName": HOST_NAME,
        "pool": {"name": HOST_NAME, "generation": 1, "resourceSliceCount": 1},
        "devices": [_device(number) for number in _nodes_with_cpus()],
    }
    pods.request("POST", f"{_RESOURCES}/resourceslices", {"metadata": {"name": name}, "spec": spec})
    try:
        yield driver
    finally:
        pods.request("DELETE", f"{_RESOURCES}/resourceslices/{name}")
        pods.request("DELETE", f"{_RESOURCES}/deviceclasses/{NAME}")
        driver.stop()


def _nodes_with_cpus() -> list[int]:
    # Each has one CPU.
    found = [path for path in _NODES.glob("node[0-9]*") if list(path.glob("cpu[0-9]*"))]
    return sorted(int(path.name.removeprefix("node")) for path in found)


def _device(node: int) -> dict[str, object]:
    return {
        "name": f"cpudevnuma{node:03}",
        "allowMultipleAllocations": True,
        "attributes": {"resource.kubernetes.io/numaNode": {"int": node}},
        "capacity": {f"{NAME}/cpu": {"value": "1"}},
    }
