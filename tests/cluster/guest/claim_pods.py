"""Pods with resource claims as `nri-numamem claim` prints them, and what became of their claims.

This module depends on the API server, the command, and the files of plugin and agent.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cluster.guest import manifests
from tests.cluster.guest.agent import Agent
from tests.cluster.guest.api_pods import CLAIMS, EVENTS, TEMPLATES, ApiPods
from tests.cluster.guest.host import Host, anonymous_bytes, container_id, find_cgroup
from tests.cluster.guest.manifests import MIB, WRITE, WRITTEN_BYTES, Manifest
from tests.machines.guest.checks import expect
from tests.machines.guest.plugin import STATE
from tests.machines.guest.waiting import wait_until

INTENTS = STATE / "claims" / "intents" / "claims.json"
_CDI = Path("/var/run/cdi")
_SPECIFICATIONS = "numamem.io-claim_*"
_NUMBER = re.compile(r"\d+$")


def api_of(host: Host) -> ApiPods:
    """Return the client of the API server."""
    assert isinstance(host.pods, ApiPods)
    return host.pods


def agent_of(host: Host) -> Agent:
    """Return the agent of the phase."""
    assert host.agent is not None
    return host.agent


def create_template(host: Host, name: str, *arguments: str) -> Manifest:
    """Create the template that `nri-numamem claim` prints; return its pod with the tests' image.

    The pod's container has the same name, and writes memory.
    """
    done = host.plugin.command("claim", *arguments, "--name", name, "--output", "json")
    expect(not done.returncode, done.stderr)
    template, pod = json.loads(done.stdout)["items"]
    api_of(host).request("POST", TEMPLATES, template)
    (container,) = pod["spec"]["containers"]
    ours = manifests.container(name, container["resources"], WRITE)
    made = manifests.pod(name, [ours])
    return {**made, "spec": {**made["spec"], "resourceClaims": pod["spec"]["resourceClaims"]}}


def sharing(name: str, claim: str, containers: Sequence[Manifest]) -> Manifest:
    """Return a pod whose containers use an existing claim."""
    using = [
        {**each, "resources": {**each["resources"], "claims": [{"name": "numa"}]}}
        for each in containers
    ]
    made = manifests.pod(name, using)
    claims = [{"name": "numa", "resourceClaimName": claim}]
    return {**made, "spec": {**made["spec"], "resourceClaims": claims}}


def limited(name: str, memory_mib: int) -> Manifest:
    """Return a container that writes memory; without a limit if `memory_mib` is 0."""
    amounts = {"memory": f"{memory_mib}Mi"}
    needs = {"requests": amounts, "limits": amounts} if memory_mib else {}
    return manifests.container(name, needs, WRITE)


def claim_of(host: Host, pod: str) -> Manifest:
    """Return the claim of a pod."""
    (status,) = host.pod(pod)["status"]["resourceClaimStatuses"]
    return api_of(host).request("GET", f"{CLAIMS}/{status['resourceClaimName']}")


def allocated(claim: Manifest) -> dict[str, int]:
    """Return request -> NUMA node that the scheduler allocated; devices end with its number."""
    results = claim["status"]["allocation"]["devices"]["results"]
    found = {each["request"]: _NUMBER.search(each["device"]) for each in results}
    return {request: int(match[0]) for request, match in found.items() if match}


def expect_pinned(host: Host, pod: str, container: str, nodes: set[int], limit_mib: int) -> str:
    """Expect NUMA nodes and memory limit of a container, and its memory on these nodes."""
    found, limit = host.nodes(pod, container), host.read(pod, container, "memory.max")
    expect(found == nodes, f"{pod}/{container} has cpuset.mems {sorted(found)}, not {nodes}")
    expect(limit == str(limit_mib * MIB), f"{pod}/{container} has memory.max {limit}")
    path = find_cgroup(container_id(host.pod(pod), container))

    def written() -> dict[int, int] | None:
        by_node = anonymous_bytes(path)
        return by_node if sum(by_node.values()) >= WRITTEN_BYTES else None

    by_node = wait_until(written, f"memory of {pod}/{container}")
    elsewhere = sum(size for node, size in by_node.items() if node not in nodes)
    expect(elsewhere < MIB, f"{pod}/{container} has memory elsewhere: {by_node}")
    return f"{pod}/{container}: cpuset.mems {sorted(found)}, memory.max {limit_mib}Mi"


def status(host: Host) -> dict[str, dict[str, Any]]:
    """Return name -> claim, as `nri-numamem status` shows it."""
    done = host.plugin.command("status", "--output", "json")
    return {each["name"]: each for each in json.loads(done.stdout)["claims"]}


def intents() -> dict[str, Any]:
    """Return uid -> what the agent has written for a claim."""
    if not INTENTS.exists():
        return {}
    found: dict[str, Any] = json.loads(INTENTS.read_text(encoding="ascii"))["claims"]
    return found


def specifications() -> list[Path]:
    """Return the CDI specifications of claims."""
    return sorted(_CDI.glob(_SPECIFICATIONS))


def remove(host: Host, *pods: str) -> None:
    """Delete pods, and wait until nothing is left of their claims; other pods have none."""
    for name in pods:
        host.pods.withdraw(name)

    def are_gone() -> bool:
        found = host.pods.found()
        return found is not None and not found.keys() & {*pods}

    wait_until(are_gone, f"end of {', '.join(pods)}")
    wait_for_release(host)


def wait_for_release(host: Host) -> None:
    """Wait until no claim is prepared or charged."""
    wait_until(lambda: not (intents() or specifications() or status(host)), "release of claims")


def wait_for_event(host: Host, pod: str, text: str) -> str:
    """Wait for an Event of a pod whose message has this text; return the message."""

    def found() -> str | None:
        for event in api_of(host).request("GET", EVENTS)["items"]:
            message: str = event.get("message", "")
            if event["involvedObject"].get("name") == pod and text in message:
                return message
        return None

    return wait_until(found, f"Event of {pod} with {text!r}")


def wait_until_unschedulable(host: Host, pod: str) -> str:
    """Wait until the scheduler has found no host for a pod; return its text."""

    def found() -> str | None:
        for each in host.pod(pod)["status"].get("conditions", ()):
            if each["type"] == "PodScheduled" and each["status"] == "False":
                message: str = each["message"]
                return message
        return None

    return wait_until(found, f"refusal of {pod} by the scheduler")
