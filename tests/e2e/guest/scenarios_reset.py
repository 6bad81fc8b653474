"""Scenario of an uninstall: `nri-numamem reset` gives a pinned container all nodes back.

An external plugin ends first. A resize of the container's CPUs afterwards shows that the runtime
stored the update: otherwise its next update would write the plugin's nodes again.
"""

import json

from tests.e2e.guest.scenarios_placement import SMALL
from tests.machines.guest import cgroups
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.host import Host
from tests.machines.guest.kubelet import ContainerSpec, Pod, PodSpec

_PINNED = PodSpec("pinned", (ContainerSpec("main", SMALL),))
_ALL = frozenset(range(5))  # with the node without CPUs


def _reset_is_refused_while_the_plugin_runs(host: Host) -> str:
    host.plugin.wait_for_empty_accounting()
    nodes = _mems(host.kubelet.run(_PINNED))
    expect(len(nodes) == 1, f"the container is on {sorted(nodes)}")
    result = host.plugin.command("reset")
    expect(result.returncode == 2, f"status {result.returncode}: {result.stdout}")
    expect("the plugin runs: pid " in result.stderr, result.stderr)
    expect(_mems(host.kubelet.pod("pinned")) == nodes, "the nodes have changed")
    return result.stderr.strip()


def _reset_gives_all_nodes_back(host: Host) -> str:
    pod = host.kubelet.pod("pinned")
    with host.without_plugin():
        result = host.plugin.command("reset", "--output", "json")
        after = _mems(pod)
        host.kubelet.resize_cpu(pod, "main", 1100)
        resized = _mems(pod)
        host.kubelet.remove_all()  # its nodes would be adopted
    expect(result.returncode == 0, f"status {result.returncode}: {result.stdout}{result.stderr}")
    outcomes = [entry["outcome"] for entry in json.loads(result.stdout)["containers"]]
    expect(outcomes == ["done"], f"outcomes {outcomes}")
    expect(after == _ALL, f"cpuset.mems is {sorted(after)}")
    expect(resized == _ALL, f"after an update by the runtime it is {sorted(resized)}")
    return f"cpuset.mems {sorted(after)}"


def _mems(pod: Pod) -> frozenset[int]:
    return cgroups.nodes(pod.parent, pod.container_ids["main"])


_EXTERNAL = ("external",)  # a launched plugin ends only with the runtime

RESET = (
    Check(
        "reset_is_refused_while_the_plugin_runs", _reset_is_refused_while_the_plugin_runs, _EXTERNAL
    ),
    Check("reset_gives_all_nodes_back", _reset_gives_all_nodes_back, _EXTERNAL),
)
