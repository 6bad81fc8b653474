"""Checks of what resource claims need at the API server: the host's slice, classes, CPU driver.

Only with a kubeconfig, because the command connects to nothing by itself. It reads two lists.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nri_numamem.apiserver.access import AccessError
from nri_numamem.apiserver.client import Answer, Client, Request, RequestError
from nri_numamem.apiserver.kubeconfig import read_kubeconfig
from nri_numamem.cli.doctor.findings import Finding, Verdict
from nri_numamem.cli.live.collect import collect_accounting
from nri_numamem.config.errors import UsageError
from nri_numamem.export.claimtemplate import CPU_CAPACITY, CPU_CLASS
from nri_numamem.export.noderesourcetopology import Host
from nri_numamem.export.requests import DROPPED, REMEDIES, FailureKind, cause_of
from nri_numamem.export.resourceslice import (
    API_VERSION,
    CAPACITY,
    DRIVER,
    device_classes,
    keeps_capacity,
    resource_slice,
)
from nri_numamem.numa import MEMORY

_CPU_DRIVER = CPU_CLASS  # dra-driver-cpu names driver and class alike

Object = Mapping[str, Any]
Send = Callable[[Request], Answer]


class _UnreadableError(Exception):
    """A list cannot be read."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.text)
        self.finding = finding


def client(kubeconfig: Path) -> Send:
    """Return what sends requests with the credentials of a kubeconfig."""
    return Client(lambda: read_kubeconfig(kubeconfig)).send


def expected_slice(args: argparse.Namespace, node_name: str) -> Object | None:
    """Return the host's slice as computed from the accounting; None without one."""
    try:
        facts = collect_accounting(args)
    except UsageError:  # another check shows it
        return None
    if facts.context is None or facts.state is None:
        return None
    return resource_slice(Host(node_name, facts.context, facts.state, facts.pool_use))


def check_api_server(send: Send, node_name: str, expected: Object | None) -> Iterator[Finding]:
    """Check the slice of a host, the classes, and the driver of CPUs.

    `expected` is the slice as computed from the accounting; None if there is none.
    """
    try:
        query = f"fieldSelector=spec.nodeName%3D{node_name}"
        slices = _items(send, "claim_slice", f"resourceslices?{query}")
        classes = _items(send, "claim_classes", "deviceclasses")
    except _UnreadableError as error:
        yield error.finding
        return
    own = [each for each in slices if each["spec"].get("driver") == DRIVER]
    yield _check_slice(own, node_name, expected)
    yield _check_classes({each["metadata"]["name"] for each in classes}, expected)
    yield from _check_cpu_driver(slices)


def _items(send: Send, check: str, path: str) -> list[Object]:
    """Return the objects of a list; raise _UnreadableError."""
    name = path.partition("?")[0]
    try:
        answer = send(Request("GET", f"/apis/{API_VERSION}/{path}"))
    except (AccessError, RequestError) as error:
        text, remedy = f"the API server cannot be read: {error}", "name another --kubeconfig"
        raise _UnreadableError(Finding(check, Verdict.UNKNOWN, text, remedy)) from error
    items = answer.document.get("items")
    if answer.status == 404:
        text, remedy = f"the API server does not serve {API_VERSION}", REMEDIES[FailureKind.NO_API]
        raise _UnreadableError(Finding(check, Verdict.FAIL, text, remedy))
    if answer.status != 200 or not isinstance(items, list):
        text = f"{name} cannot be listed: {cause_of(answer.status, answer.document)}"
        remedy = f"name a --kubeconfig whose user may list {name}"
        raise _UnreadableError(Finding(check, Verdict.UNKNOWN, text, remedy))
    return items


def _check_slice(found: list[Object], node_name: str, expected: Object | None) -> Finding:
    if not found:
        text = f"the API server has no slice of {DRIVER} for Node {node_name}: no claim fits here"
        remedy = (
            "name the Node with --node-name if it has another name; else the log of the agent "
            "says why, and the kubelet deletes slices of a driver that it lost"
        )
        return Finding("claim_slice", Verdict.FAIL, text, remedy)
    if not all(map(keeps_capacity, found)):
        text = f"{DROPPED.cause}: the first claim takes a whole NUMA node"
        return Finding("claim_slice", Verdict.FAIL, text, DROPPED.remedy)
    if expected is None:
        text = f"the API server has the slice of Node {node_name}, which cannot be compared"
        return Finding("claim_slice", Verdict.UNKNOWN, text, "start the plugin, and run as root")
    differences = _differences(_sizes(found), _sizes([expected]))
    if differences:
        text = f"the slice of Node {node_name} is not as computed: {', '.join(differences[:3])}"
        remedy = "run this again: the agent writes a change within seconds, or its log says why not"
        return Finding("claim_slice", Verdict.WARN, text, remedy)
    return Finding("claim_slice", Verdict.OK, f"the slice of Node {node_name} is as computed")


def _sizes(slices: list[Object]) -> dict[str, int]:
    """Return device -> bytes."""
    return {
        device["name"]: int(device["capacity"][CAPACITY]["value"])
        for each in slices
        for device in each["spec"].get("devices") or ()
    }


def _differences(found: Mapping[str, int], expected: Mapping[str, int]) -> list[str]:
    names = sorted(found.keys() | expected.keys())
    return [
        f"{name} has {found.get(name, 'no')} bytes instead of {expected.get(name, 'no')}"
        for name in names
        if found.get(name) != expected.get(name)
    ]


def _check_classes(found: set[str], expected: Object | None) -> Finding:
    devices = expected["spec"]["devices"] if expected is not None else ()
    resources = {MEMORY} | {device["attributes"]["resource"]["string"] for device in devices}
    needed: list[Object] = list(device_classes(sorted(resources)))
    missing = [each["metadata"]["name"] for each in needed if each["metadata"]["name"] not in found]
    if missing:
        text = f"the API server has no DeviceClass {', '.join(missing)}"
        remedy = "nri-numamem export --dry-run --resource-slice prints the classes; create them"
        return Finding("claim_classes", Verdict.FAIL, text, remedy)
    text = "the API server has the device classes of this host's resources"
    return Finding("claim_classes", Verdict.OK, text)


def _check_cpu_driver(slices: list[Object]) -> Iterator[Finding]:
    """Check that CPUs are shared devices; without a driver of CPUs there is no finding."""
    devices = [
        device
        for each in slices
        if each["spec"].get("driver") == _CPU_DRIVER
        for device in each["spec"].get("devices") or ()
    ]
    if not devices:
        return
    single = [device for device in devices if CPU_CAPACITY not in device.get("capacity", {})]
    if single:
        text = (
            f"{_CPU_DRIVER} has a device for each of {len(single)} CPUs: the scheduler tries all "
            "combinations for up to 10 s, and a pod that would fit stays Pending"
        )
        remedy = "set cpuDeviceMode: grouped in the configuration of dra-driver-cpu"
        yield Finding("claim_cpu_driver", Verdict.WARN, text, remedy)
    else:
        text = f"{_CPU_DRIVER} has devices that claims share"
        yield Finding("claim_cpu_driver", Verdict.OK, text)
