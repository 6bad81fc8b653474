"""Scenario of `nri-numamem explain`: a placed, a refused and an unmanaged pod, from the history."""

import json
from typing import Any

from tests.e2e.guest.scenarios_placement import SMALL
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.cri import CriError
from tests.machines.guest.host import Host
from tests.machines.guest.kubelet import ContainerSpec, PodSpec
from tests.machines.guest.waiting import wait_until

_NAMESPACE = "e2e"
_HUGE = 64 << 30  # more than the machine

_PLACED = PodSpec("explain-placed", (ContainerSpec("main", SMALL),))
_REFUSED = PodSpec("explain-refused", (ContainerSpec("main", _HUGE),))
_UNMANAGED = PodSpec(
    "explain-unmanaged",
    (ContainerSpec("limited", SMALL, 500), ContainerSpec("unlimited", 0, 0)),
    "burstable",
)


def _explain_a_placed_pod(host: Host) -> str:
    nodes = sorted(host.nodes(host.kubelet.run(_PLACED)))
    container = _container(host, _PLACED.name, "placed")
    decision = container["decisions"][0]
    expect(decision["event"] == "admitted", f"{decision}")
    expect(decision["fields"]["nodes"] == str(nodes[0]), f"{decision['fields']} with {nodes}")
    screen = host.plugin.command("explain", f"{_NAMESPACE}/{_PLACED.name}")
    expect(screen.returncode == 0 and "chosen" in screen.stdout, screen.stdout + screen.stderr)
    return f"{decision['requestId']}: node {decision['fields']['nodes']}"


def _explain_a_refused_pod(host: Host) -> str:
    pod = host.kubelet.run_sandbox(_REFUSED)
    texts: list[str] = []
    for _ in range(2):
        try:
            host.kubelet.run_container(pod, "main")
        except CriError as error:
            texts.append(str(error).partition("numamem: ")[2])
    expect(len(texts) == 2, "it was not refused")
    container = _container(host, _REFUSED.name, "refused")
    newest = container["decisions"][0]
    first = newest["fields"].get("refusal_id") or newest["requestId"]
    for text in texts:
        expect(f" [{first}]: requested memory 64Gi" in text, f"not of {first}: {text}")
    expect(bool(container["remedy"] and container["commands"]), f"{container}")
    screen = host.plugin.command("explain", f"{_NAMESPACE}/{_REFUSED.name}")
    expect("refused" in screen.stdout and "64Gi" in screen.stdout, screen.stdout + screen.stderr)
    host.kubelet.remove(pod)
    return f"[{first}]: {container['remedy']}"


def _explain_an_unmanaged_pod(host: Host) -> str:
    pod = host.kubelet.run(_UNMANAGED)
    container = _container(host, f"{_UNMANAGED.name}/limited", "not_managed", siblings=2)
    obstacles = {
        entry["fields"]["container"]: entry["fields"]["qos_obstacles"]
        for entry in container["siblings"]
    }
    expect("no_memory_limit" in obstacles["unlimited"], f"{obstacles}")
    expect("no_memory_limit" not in obstacles["limited"], f"{obstacles}")
    expect("unlimited" in container["remedy"], f"{container['remedy']}")
    host.kubelet.remove(pod)
    return str(obstacles)


def _explain_without_a_plugin(host: Host) -> str:
    with host.without_plugin():
        result = host.plugin.command("explain", _PLACED.name, "--output", "json")
        unknown = host.plugin.command("explain", "no-such-pod")
    expect(result.returncode == 0, f"status {result.returncode}: {result.stderr}")
    document = json.loads(result.stdout)
    expect(document["pluginRuns"] is False, "the plugin runs")
    expect(document["away"][-1]["until"] is None, f"{document['away']}")
    expect(unknown.returncode == 1, f"status {unknown.returncode} for an unknown pod")
    expect("not in the history" in unknown.stdout, unknown.stdout)
    host.kubelet.remove(host.kubelet.pod(_PLACED.name))
    return f"away since {document['away'][-1]['since']}"


def _container(host: Host, name: str, outcome: str, siblings: int = 0) -> dict[str, Any]:
    """Return the container in the explanation of a pod, when the history has the outcome."""

    def found() -> dict[str, Any] | None:
        result = host.plugin.command("explain", name, "--output", "json")
        expect(result.returncode in (0, 1), f"status {result.returncode}: {result.stderr}")
        for container in json.loads(result.stdout)["containers"]:
            if container["outcome"] == outcome and len(container["siblings"]) >= siblings:
                return dict(container)
        return None

    return wait_until(found, f"{name} in the history as {outcome}")


_EXTERNAL = ("external",)  # a launched plugin ends only with the runtime

EXPLAIN = (
    Check("explain_a_placed_pod", _explain_a_placed_pod),
    Check("explain_a_refused_pod", _explain_a_refused_pod),
    Check("explain_an_unmanaged_pod", _explain_an_unmanaged_pod),
    Check("explain_without_a_plugin", _explain_without_a_plugin, _EXTERNAL),
)
