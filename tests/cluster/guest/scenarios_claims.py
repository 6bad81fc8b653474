"""Checks of resource claims from the template to the cgroup: scheduler, kubelet, agent and plugin.

The sizes are such that a NUMA node has room for two claims, and the one without CPUs for none.
"""

import json
import time

from tests.cluster.guest import claim_pods, cpu_driver, manifests
from tests.cluster.guest.api_pods import CLAIMS as CLAIMS_PATH
from tests.cluster.guest.api_pods import KUBECONFIG
from tests.cluster.guest.claim_pods import (
    agent_of,
    allocated,
    api_of,
    claim_of,
    create_template,
    expect_pinned,
    limited,
    sharing,
)
from tests.cluster.guest.host import Host, container_id, container_status, kill_processes
from tests.cluster.guest.kubelet import HOST_NAME
from tests.cluster.guest.manifests import MIB, guaranteed
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.waiting import wait_until

_SIZE_MIB = 300
_MOST_MIB = 600  # two of these do not fit a NUMA node
_PAIR_MIB = 1200
_NEAR_PAIRS = ({0, 1}, {2, 3})
_DOCTOR = {"claim_hook", "cdi", "claim_agent", "claims", "claim_slice", "claim_classes"}


def _slice_is_as_computed(host: Host) -> str:
    """Compare the slice at the API server with what a command computes, and find no failure."""
    done = host.plugin.command("export", "--dry-run", "--resource-slice", "--output", "json")
    documents = json.loads(done.stdout)["items"]
    (computed,) = (each for each in documents if each["kind"] == "ResourceSlice")
    found = agent_of(host).devices()
    expected = {device["name"]: device for device in computed["spec"]["devices"]}
    expect(found == expected, f"the API server has {found}, not {expected}")
    options = ("--kubeconfig", str(KUBECONFIG), "--node-name", HOST_NAME, "--output", "json")
    doctor = json.loads(host.plugin.command("doctor", *options).stdout)
    checked = [each for each in doctor["findings"] if each["check"] in _DOCTOR]
    wrong = [each for each in checked if each["verdict"] != "ok"]
    expect(len(checked) == len(_DOCTOR) and not wrong, f"{checked}")
    return ", ".join(f"{name} {each['capacity']['size']['value']}" for name, each in found.items())


def _pod_of_a_template_is_pinned(host: Host) -> str:
    """Run a pod with memory, hugepages and CPUs of two drivers on one NUMA node."""
    with cpu_driver.running(api_of(host)) as driver:
        amounts = (f"{_SIZE_MIB}Mi", "--hugepages-2Mi", "4Mi", "--cpus", "1")
        host.run(create_template(host, "app", *amounts))
        claim = claim_of(host, "app")
        nodes = allocated(claim)
        expect(set(nodes) == {"mem", "hugepages-2mi", "cpus"}, f"allocated: {nodes}")
        expect(len(set(nodes.values())) == 1, f"allocated: {nodes}")
        expect(claim["metadata"]["name"] in driver.prepared, f"{driver.prepared}")
        found = expect_pinned(host, "app", "app", set(nodes.values()), _SIZE_MIB)
        pages = host.read("app", "app", "hugetlb.2MB.max")
        expect(pages == str(4 * MIB), f"hugetlb.2MB.max is {pages}")
        explained = host.plugin.command("explain", "app").stdout
        expect("chosen by the scheduler: claim default/app-numa" in explained, explained)
        claim_pods.remove(host, "app")
    return f"{found}, hugetlb.2MB.max {pages}"


def _container_and_pod_restart_keep_to_the_claim(host: Host) -> str:
    """Kill a container; then delete the pod and create it again, with another claim."""
    pod = create_template(host, "again", f"{_SIZE_MIB}Mi")
    host.run(pod)
    (node,) = allocated(claim_of(host, "again")).values()
    before = container_id(host.pod("again"), "again")
    kill_processes(host.pod("again"), "again")
    wait_until(lambda: _runs_anew(host, "again", before), "restart of the container")
    found = [expect_pinned(host, "again", "again", {node}, _SIZE_MIB)]
    claim_pods.remove(host, "again")
    host.run(pod)
    (node,) = allocated(claim_of(host, "again")).values()
    found.append(expect_pinned(host, "again", "again", {node}, _SIZE_MIB))
    claim_pods.remove(host, "again")
    return "; ".join(found)


def _runs_anew(host: Host, name: str, before: str) -> bool:
    status = container_status(host.pod(name), name)
    return "running" in status["state"] and container_id(host.pod(name), name) != before


def _containers_and_pods_share_a_claim(host: Host) -> str:
    """Use one claim in two containers after an init container without it, and in another pod."""
    claim = {"metadata": {"name": "shared"}, "spec": _template_spec(host)}
    api_of(host).request("POST", CLAIMS_PATH, claim)
    containers = [limited("some", 100), limited("rest", 0)]
    first = sharing("first", "shared", containers)
    init = manifests.container("init", None, ("/bin/busybox", "true"))
    host.run({**first, "spec": {**first["spec"], "initContainers": [init]}})
    (node,) = allocated(api_of(host).request("GET", f"{CLAIMS_PATH}/shared")).values()
    found = [expect_pinned(host, "first", "some", {node}, 100)]
    found.append(expect_pinned(host, "first", "rest", {node}, _SIZE_MIB - 100))
    host.pods.put(sharing("more", "shared", [limited("more", 100)]))
    text = _wait_for_refusal(host, "more")
    expect("exceeds what is left of claim default/shared: 0 of 300Mi" in text, text)
    host.pods.withdraw("first")
    host.wait_for_running("more")
    found.append(expect_pinned(host, "more", "more", {node}, 100))
    host.run(sharing("second", "shared", [limited("second", 200)]))
    found.append(expect_pinned(host, "second", "second", {node}, 200))
    users = {each["pod"] for each in claim_pods.status(host)["shared"]["containers"]}
    expect(users == {"more", "second"}, f"{users}")
    claim_pods.remove(host, "more", "second")
    return f"{'; '.join(found)}; {text}"


def _template_spec(host: Host) -> manifests.Manifest:
    """Return the spec of a claim of one NUMA node."""
    done = host.plugin.command("claim", f"{_SIZE_MIB}Mi", "--output", "json")
    template, _pod = json.loads(done.stdout)["items"]
    found: manifests.Manifest = template["spec"]["spec"]
    return found


def _wait_for_refusal(host: Host, pod: str) -> str:
    """Wait until a container named like its pod cannot be created; return the runtime's text."""

    def found() -> str:
        waiting = container_status(host.pod(pod), pod).get("state", {}).get("waiting", {})
        text: str = waiting.get("message", "")
        return text if "claim" in text else ""

    return wait_until(found, f"refusal of {pod}")


def _two_nodes_are_a_near_pair_without_others(host: Host) -> str:
    """Run a claim of one NUMA node and one of two; a second one of two does not fit beside."""
    host.run(create_template(host, "single", f"{_SIZE_MIB}Mi"))
    single = set(allocated(claim_of(host, "single")).values())
    host.run(create_template(host, "pair", f"{_PAIR_MIB}Mi", "--nodes", "2"))
    pair = host.nodes("pair", "pair")
    expect(pair in _NEAR_PAIRS and not pair & single, f"{sorted(pair)} beside {single}")
    found = expect_pinned(host, "pair", "pair", set(pair), _PAIR_MIB)
    left = {each["attributes"]["resource.kubernetes.io/numaNode"]["int"] for each in _memory(host)}
    expect(not left & pair, f"the slice has NUMA nodes {left}, those of the group included")
    host.pods.put(create_template(host, "other", f"{_PAIR_MIB}Mi", "--nodes", "2"))
    text = claim_pods.wait_until_unschedulable(host, "other")
    expect("cannot allocate all claims" in text, text)
    return f"single on {single}; {found}; then: {text}"


def _memory(host: Host) -> list[manifests.Manifest]:
    devices = agent_of(host).devices().values()
    return [each for each in devices if each["attributes"]["resource"] == {"string": "memory"}]


def _pending_pod_is_bound_when_there_is_room(host: Host) -> str:
    """Delete the claim of one NUMA node; the pod that is Pending gets both of that pair."""
    taken = host.nodes("pair", "pair")
    host.pods.withdraw("single")
    wait_until(lambda: "single" not in (host.pods.found() or {"single"}), "end of single")
    began_s = time.monotonic()
    wait_until(lambda: host.pod("other")["spec"].get("nodeName"), "a host for the pod")
    bound_s = time.monotonic() - began_s
    host.wait_for_running("other")
    nodes = host.nodes("other", "other")
    expect(nodes in _NEAR_PAIRS and not nodes & taken, f"{sorted(nodes)} beside {sorted(taken)}")
    found = expect_pinned(host, "other", "other", set(nodes), _PAIR_MIB)
    claim_pods.remove(host, "pair", "other")
    return f"bound {bound_s:.1f} s after the other pod was gone; {found}"


def _late_claim_is_refused_with_amounts(host: Host) -> str:
    """Take the room while the slice is out of date; the pod runs when it is free again."""
    host.run(create_template(host, "kept", f"{_MOST_MIB}Mi"))
    takers = [f"taker-{number}" for number in range(3)]
    with agent_of(host).paused():
        for name in takers:
            host.run(guaranteed(name, _MOST_MIB))
        host.pods.put(create_template(host, "late", f"{_MOST_MIB}Mi"))
        wait_until(lambda: host.pod("late")["spec"].get("nodeName"), "a host for the pod")
    text = claim_pods.wait_for_event(host, "late", "cannot be prepared")
    expect(f"free of {_MOST_MIB}Mi requested" in text, text)
    for name in takers:
        host.remove(name)
    host.wait_for_running("late")
    nodes = set(allocated(claim_of(host, "late")).values())
    found = expect_pinned(host, "late", "late", nodes, _MOST_MIB)
    claim_pods.remove(host, "late", "kept")
    return f"{text}; then {found}"


def _without_the_plugin_no_container_starts(host: Host) -> str:
    """Stop the plugin and kill a container: the hook refuses it until the plugin is back."""
    host.run(create_template(host, "closed", f"{_SIZE_MIB}Mi"))
    nodes = set(allocated(claim_of(host, "closed")).values())
    before = container_id(host.pod("closed"), "closed")
    with host.runtime.ignoring_a_lost_plugin():
        host.plugin.terminate()
        host.plugin.wait_for_end()
        try:
            kill_processes(host.pod("closed"), "closed")
            text = _wait_for_refusal(host, "closed")
        finally:
            host.plugin.restart()
            host.runtime.wait_for_plugin(launched=False)
    expect("but claim default/closed-numa" in text, text)
    wait_until(lambda: _runs_anew(host, "closed", before), "restart of the container")
    found = expect_pinned(host, "closed", "closed", nodes, _SIZE_MIB)
    claim_pods.remove(host, "closed")
    return f"{text}; then {found}"


def _removal_waits_for_the_claims(host: Host) -> str:
    """Uninstall is refused while a claim is prepared; without the agent the slice is deleted."""
    host.run(create_template(host, "last", f"{_SIZE_MIB}Mi"))
    done = host.plugin.command("uninstall")
    refused = done.stdout + done.stderr
    expect(done.returncode, f"uninstall succeeds: {refused}")
    expect("resource claims are prepared on this host: default/last-numa" in refused, refused)
    claim_pods.remove(host, "last")
    agent_of(host).stop()
    wait_until(lambda: not agent_of(host).slice(), "deletion of the slice by the kubelet")
    host.pods.put(create_template(host, "never", f"{_SIZE_MIB}Mi"))
    text = claim_pods.wait_until_unschedulable(host, "never")
    return f"{refused.strip()}; without the driver: {text}"


CLAIMS = (
    Check("slice_is_as_computed", _slice_is_as_computed),
    Check("pod_of_a_template_is_pinned", _pod_of_a_template_is_pinned),
    Check(
        "container_and_pod_restart_keep_to_the_claim", _container_and_pod_restart_keep_to_the_claim
    ),
    Check("containers_and_pods_share_a_claim", _containers_and_pods_share_a_claim),
)
SEVERAL_NODES = (
    Check("two_nodes_are_a_near_pair_without_others", _two_nodes_are_a_near_pair_without_others),
    Check("pending_pod_is_bound_when_there_is_room", _pending_pod_is_bound_when_there_is_room),
)
CONFLICTS = (
    Check("late_claim_is_refused_with_amounts", _late_claim_is_refused_with_amounts),
    Check("without_the_plugin_no_container_starts", _without_the_plugin_no_container_starts),
)
REMOVAL = (Check("removal_waits_for_the_claims", _removal_waits_for_the_claims),)
