"""Scenario of `nri-numamem status`: a placed container, and one that runs unpinned.

The unpinned one is created while the plugin is away; when the plugin is back, it is pinned.
"""

import json
from typing import Any

from tests.e2e.guest.scenarios_placement import SMALL
from tests.machines.guest import cgroups
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.host import Host
from tests.machines.guest.kubelet import ContainerSpec, Pod, PodSpec
from tests.machines.guest.waiting import wait_until

_WRITTEN_BYTES = 100_000_000
# The block stays in dd's memory, because sleep never reads from the pipe.
_WRITER = f"busybox dd if=/dev/zero bs={_WRITTEN_BYTES} count=1 | busybox sleep 1000000"
_PLACED = PodSpec("placed", (ContainerSpec("main", SMALL, command=("/bin/sh", "-c", _WRITER)),))
_UNPINNED = PodSpec("unpinned", (ContainerSpec("main", SMALL),))


def _status_shows_a_placed_container(host: Host) -> str:
    pod = host.kubelet.run(_PLACED)
    nodes = sorted(_mems(pod))

    def written() -> dict[str, Any] | None:
        status, document = _status(host)
        expect(status == 0, f"status {status}: {document['problems']}")
        row = _row(document, pod)
        return document if row and (row["privateBytes"] or 0) >= _WRITTEN_BYTES else None

    document = wait_until(written, "resident memory in the status")
    row = _row(document, pod)
    expect(row["condition"] == "running", f"{row}")
    expect(row["pod"] == "placed", f"the pod is {row['pod']}")
    expect(row["nodes"] == nodes, f"nodes {row['nodes']}, and cpuset.mems is {nodes}")
    own = _differences(document, pod)
    expect(not own, f"differences: {own}")
    expect(document["plugin"]["pid"] == host.plugin.pids()[0], f"{document['plugin']}")
    expect(document["runtime"]["connected"], f"{document['runtime']}")
    screen = host.plugin.command("status")
    expect("placed" in screen.stdout, screen.stdout)
    return f"{row['privateBytes']} bytes on {nodes}, {row['remoteBytes']} elsewhere"


def _status_shows_an_unpinned_container(host: Host) -> str:
    with host.without_plugin():
        pod = host.kubelet.run(_UNPINNED)
        status, document = _status(host)
        row, own = _row(document, pod), _differences(document, pod)
    expect(status == 1, f"status {status} without a plugin")
    expect(document["plugin"]["running"] is False, f"{document['plugin']}")
    expect(bool(row) and row["condition"] == "unpinned", f"{document['containers']}")
    expect([each["kind"] for each in own] == ["unpinned"], f"differences: {own}")

    def pinned() -> bool:
        _, later = _status(host)
        found = _row(later, pod)
        return bool(found) and found["condition"] == "running" and not _differences(later, pod)

    wait_until(pinned, "the container without differences, when the plugin is back")
    return str(own[0]["text"])


def _status(host: Host) -> tuple[int, dict[str, Any]]:
    """Return the exit status and the document."""
    result = host.plugin.command("status", "--output", "json")
    expect(result.stdout, f"no output: {result.stderr}")
    return result.returncode, json.loads(result.stdout)


def _row(document: dict[str, Any], pod: Pod) -> dict[str, Any]:
    """Return a pod's container in the document; an empty one if it is not there."""
    container_id = pod.container_ids["main"]
    rows = (row for row in document["containers"] if row["containerId"] == container_id)
    return next(rows, {})


def _differences(document: dict[str, Any], pod: Pod) -> list[dict[str, Any]]:
    container_id = pod.container_ids["main"]
    return [each for each in document["differences"] if each["containerId"] == container_id]


def _mems(pod: Pod) -> frozenset[int]:
    return cgroups.nodes(pod.parent, pod.container_ids["main"])


_EXTERNAL = ("external",)  # a launched plugin ends only with the runtime

STATUS = (
    Check("status_shows_a_placed_container", _status_shows_a_placed_container),
    Check("status_shows_an_unpinned_container", _status_shows_an_unpinned_container, _EXTERNAL),
)
