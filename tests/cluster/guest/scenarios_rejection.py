"""Checks of a pod that fits nowhere: what the kubelet shows, and how it tries again."""

import re
from itertools import pairwise

from tests.cluster.guest.host import Host, container_status
from tests.cluster.guest.manifests import Manifest, guaranteed
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.waiting import wait_until

_PAIR_MIB = 1229  # fits two nodes, and no single one
_NEAR_PAIRS = (frozenset({0, 1}), frozenset({2, 3}))
_REASON = "CreateContainerError"
_ATTEMPTS = 4
# A line of the kubelet's log: "E1123 03:12:45.678901  1234 pod_workers.go:1338] ...".
_FAILED = re.compile(
    r'^E\d{4} (\S+) .*"Error syncing pod.*CreateContainerError.*late-', re.MULTILINE
)


def _large_pods_get_near_pairs(host: Host) -> str:
    found = []
    for name in ("first", "second"):
        host.run(guaranteed(name, _PAIR_MIB))
        found.append(host.nodes(name))
    expect(set(found) == set(_NEAR_PAIRS), f"{found}")
    return str([sorted(nodes) for nodes in found])


def _rejection_is_in_the_status(host: Host) -> str:
    host.pods.put(guaranteed("late", _PAIR_MIB))

    def waiting() -> Manifest | None:
        pod = (host.pods.found() or {}).get("late")
        found: Manifest = (
            container_status(pod, "main").get("state", {}).get("waiting") if pod else {}
        )
        return found if found and found.get("reason") == _REASON else None

    found = wait_until(waiting, f"reason {_REASON}")
    text = found["message"]
    for words in ("numamem", "memory", "node 0", "node 1", "node 2", "node 3"):
        expect(words in text, f"{words} is not in {text}")
    pod = host.pod("late")
    expect(pod["status"]["phase"] == "Pending", str(pod["status"]))
    expect(container_status(pod, "main")["restartCount"] == 0, str(pod["status"]))
    expect(host.plugin.records("rejected"), "the plugin logged no record of the rejection")
    return f"{_REASON}: {text}"


def _kubelet_tries_again(host: Host) -> str:
    """Wait for some attempts, and return the seconds between them."""

    def times() -> list[str] | None:
        found = _FAILED.findall(host.kubelet.log())
        return found if len(found) >= _ATTEMPTS else None

    moments_s = [_seconds(each) for each in wait_until(times, "attempts")]
    between_s = [round((b - a) % 86400, 1) for a, b in pairwise(moments_s)]
    return f"seconds between attempts: {between_s}"


def _seconds(time: str) -> float:
    hours, minutes, seconds = time.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


def _retry_succeeds_on_freed_nodes(host: Host) -> str:
    freed, uid = host.nodes("first"), host.pod("late")["metadata"]["uid"]
    host.remove("first")
    found = host.wait_for_running("late")
    nodes = host.nodes("late")
    expect(nodes == freed, f"it is on {sorted(nodes)}, not on {sorted(freed)}")
    expect(found["metadata"]["uid"] == uid, "it is another pod")
    return f"{sorted(nodes)}"


REJECTION = (
    Check("large_pods_get_near_pairs", _large_pods_get_near_pairs),
    Check("rejection_is_in_the_status", _rejection_is_in_the_status),
    Check("kubelet_tries_again", _kubelet_tries_again),
    Check("retry_succeeds_on_freed_nodes", _retry_succeeds_on_freed_nodes),
)
