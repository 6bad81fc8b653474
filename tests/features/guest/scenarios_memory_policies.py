"""Scenarios of memory policies: pages per NUMA node, and an OCI runtime without support.

Annotations choose the policies. The machine has four NUMA nodes with CPUs, 0 to 3, and one without.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from tests.e2e.guest.scenarios_placement import LARGE, NEAR_PAIRS
from tests.features.guest import newer_containerd
from tests.features.guest.feature import Phase, restart_with
from tests.features.guest.memory_policies import (
    ANNOTATION,
    WRITTEN_MIB,
    Placed,
    pod_of,
    refuse,
    run,
)
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.host import Host

_MODES = "interleave, weighted-interleave, bind, preferred, preferred-many, local"
SETTINGS = f"memoryPolicy: {{modes: [{_MODES}], maxNodes: 2, minPerNode: 128Mi}}\n"

_WITH_CPUS = range(4)
_WITHOUT_CPUS = 4
# The kernel takes turns by huge pages of 2 MiB where it can.
_TOLERANCE_MIB = 3
_WEIGHTS = {0: 3, 1: 1, 2: 1, 3: 1}
_WEIGHTS_FOLDER = Path("/sys/kernel/mm/mempolicy/weighted_interleave")
_SECCOMP_FILTER = "2"
_RUNC_OF_DEBIAN = "/usr/sbin/runc sets no memory policies; runc does since 1.4, crun since 1.24"


def _none_without_an_annotation(host: Host) -> str:
    found = run(host, pod_of("plain", {}))
    found.expect_policy("default")
    records = [each for each in host.plugin.records("memory_policy_set") if each["pod"] == "plain"]
    expect(not records, f"{records}")
    return f"{found}"


def _interleave_takes_equal_shares(host: Host) -> str:
    found = run(host, pod_of("interleave", {ANNOTATION: "interleave"}))
    found.expect_policy("interleave=static:0-3")
    _expect_mib(found, dict.fromkeys(_WITH_CPUS, WRITTEN_MIB / 4))
    expect(found.record["nodes"] == "0-3", f"{found.record}")
    return f"{found}"


def _best_effort_interleaves_too(host: Host) -> str:
    found = run(host, pod_of("besteffort", {ANNOTATION: "interleave"}, qos="besteffort"))
    found.expect_policy("interleave=static:0-3")
    _expect_mib(found, dict.fromkeys(_WITH_CPUS, WRITTEN_MIB / 4))
    return f"{found}"


def _weights_of_the_host_count(host: Host) -> str:
    for node, weight in _WEIGHTS.items():
        (_WEIGHTS_FOLDER / f"node{node}").write_text(str(weight), encoding="ascii")
    found = run(host, pod_of("weighted", {ANNOTATION: "weighted-interleave"}))
    found.expect_policy("weighted interleave=static:0-3")
    unit_mib = WRITTEN_MIB / sum(_WEIGHTS.values())
    _expect_mib(found, {node: weight * unit_mib for node, weight in _WEIGHTS.items()})
    return f"weights {_WEIGHTS}, {found}"


def _bind_keeps_to_nodes_with_cpus(host: Host) -> str:
    found = run(host, pod_of("bind", {ANNOTATION: "bind"}))
    found.expect_policy("bind=static:0-3")
    _expect_nothing_on(found, [_WITHOUT_CPUS])
    return f"{found}"


def _preferred_fills_one_node(host: Host) -> str:
    found = run(host, pod_of("preferred", {ANNOTATION: "preferred"}))
    found.expect_policy("prefer=static:0")
    _expect_mib(found, {0: WRITTEN_MIB})
    many = run(host, pod_of("preferred-many", {ANNOTATION: "preferred-many"}))
    many.expect_policy("prefer (many)=static:0-3")
    _expect_nothing_on(many, [_WITHOUT_CPUS])
    return f"preferred: {found}; preferred-many: {many}"


def _local_has_no_nodes(host: Host) -> str:
    found = run(host, pod_of("local", {ANNOTATION: "local"}))
    found.expect_policy("local")
    _expect_nothing_on(found, [_WITHOUT_CPUS])
    expect(found.record["nodes"] == "", f"{found.record}")
    return f"{found}"


def _pinned_container_is_bound_to_its_node(host: Host) -> str:
    found = run(host, pod_of("pinned", {ANNOTATION: "bind"}, qos="guaranteed"))
    (node,) = found.nodes
    found.expect_policy(f"bind=static:{node}")
    _expect_mib(found, {node: WRITTEN_MIB})
    return f"{found}"


def _pair_gets_half_and_half(host: Host) -> str:
    """Interleave over the nodes of a pinned container, which the annotation names."""
    annotations = {f"{ANNOTATION}/container.main": "interleave"}
    found = run(host, pod_of("pair", annotations, qos="guaranteed", memory_bytes=LARGE))
    expect(found.nodes in NEAR_PAIRS, f"it is on {sorted(found.nodes)}")
    first, second = sorted(found.nodes)
    found.expect_policy(f"interleave=static:{first}-{second}")
    _expect_mib(found, dict.fromkeys(found.nodes, WRITTEN_MIB / 2))
    return f"{found}"


def _two_nodes_have_equal_parts(host: Host) -> str:
    found = run(host, pod_of("even", {ANNOTATION: "interleave:2"}, qos="guaranteed"))
    expect(found.nodes in NEAR_PAIRS, f"it is on {sorted(found.nodes)}")
    first, second = sorted(found.nodes)
    found.expect_policy(f"interleave=static:{first}-{second}")
    _expect_mib(found, dict.fromkeys(found.nodes, WRITTEN_MIB / 2))
    expect(found.record["policy"] == "interleave:2", f"{found.record}")
    return f"{found}"


def _more_nodes_than_allowed_are_ignored(host: Host) -> str:
    found = run(host, pod_of("many", {ANNOTATION: "interleave:3"}, qos="guaranteed"))
    expect(len(found.nodes) == 1, f"it is on {sorted(found.nodes)}")
    found.expect_policy("default")
    cause = str(found.record["cause"])
    expect(cause == "memoryPolicy.maxNodes allows at most 2 NUMA nodes", cause)
    return cause


def _seccomp_profile_does_not_prevent_it(host: Host) -> str:
    """Run under the runtime's profile, which allows no set_mempolicy(2) without CAP_SYS_NICE."""
    found = run(host, pod_of("filtered", {ANNOTATION: "interleave"}, has_seccomp=True))
    expect(found.seccomp_modes == {_SECCOMP_FILTER}, f"Seccomp: {sorted(found.seccomp_modes)}")
    found.expect_policy("interleave=static:0-3")
    return f"Seccomp: {_SECCOMP_FILTER}, {found}"


def _invalid_annotation_is_ignored(host: Host) -> str:
    found = run(host, pod_of("invalid", {ANNOTATION: "interlaced"}))
    found.expect_policy("default")
    record = found.record
    expect(record["event"] == "memory_policy_ignored", f"{record}")
    expect(record["cause"].startswith("it is none of interleave, "), f"{record}")
    return str(record["cause"])


def _explain_shows_the_policy(host: Host) -> str:
    done = host.plugin.command("explain", "e2e/interleave", "--output", "json")
    expect(done.returncode == 0, f"status {done.returncode}: {done.stderr}")
    (container,) = json.loads(done.stdout)["containers"]
    found = [each for each in container["later"] if each["event"] == "memory_policy_set"]
    fields = [(each["fields"]["policy"], each["fields"]["nodes"]) for each in found]
    expect(fields == [("interleave", "0-3")], f"{container['later']}")
    screen = host.plugin.command("explain", "e2e/interleave").stdout
    text = "memory policy set, policy interleave, source annotation"
    expect(text in " ".join(screen.split()), screen)
    return text


def _older_runc_is_refused(host: Host) -> str:
    newer_containerd.RUNC.unlink()
    restart_with(host, "memoryPolicy: {modes: [interleave], onUnsupported: Reject}\n")
    text = refuse(host, pod_of("refused", {ANNOTATION: "interleave"}))
    expected = (
        "numamem: container main of pod e2e/refused refused, MemoryPolicyError: the memory policy "
        f"'interleave' of the pod's annotation cannot be set: {_RUNC_OF_DEBIAN}"
    )
    expect(expected in text, text)
    causes = [each["cause"] for each in host.plugin.records("memory_policy_rejected")]
    expect(causes and causes[-1] == _RUNC_OF_DEBIAN, f"{causes}")
    run(host, pod_of("without", {})).expect_policy("default")
    return text


def _older_runc_is_recorded(host: Host) -> str:
    restart_with(host, SETTINGS)
    found = run(host, pod_of("ignored", {ANNOTATION: "interleave"}))
    found.expect_policy("default")
    record = found.record
    expect(record["event"] == "memory_policy_ignored", f"{record}")
    expect(record["cause"] == _RUNC_OF_DEBIAN, f"{record}")
    return str(record["cause"])


def _expect_mib(found: Placed, expected: dict[int, float]) -> None:
    """Expect these amounts on these nodes, and nothing on the others."""
    for node, mib in expected.items():
        difference = abs(found.mib[node] - mib)
        expect(difference <= _TOLERANCE_MIB, f"node {node} has not {mib:.1f} MiB: {found}")
    _expect_nothing_on(found, found.mib.keys() - expected.keys())


def _expect_nothing_on(found: Placed, nodes: Iterable[int]) -> None:
    for node in nodes:
        expect(found.mib[node] < 1, f"node {node} has memory: {found}")


MODES_OF_PODS = (
    Check("none_without_an_annotation", _none_without_an_annotation),
    Check("interleave_takes_equal_shares", _interleave_takes_equal_shares),
    Check("best_effort_interleaves_too", _best_effort_interleaves_too),
    Check("weights_of_the_host_count", _weights_of_the_host_count),
    Check("bind_keeps_to_nodes_with_cpus", _bind_keeps_to_nodes_with_cpus),
    Check("preferred_fills_one_node", _preferred_fills_one_node),
    Check("local_has_no_nodes", _local_has_no_nodes),
    Check("pinned_container_is_bound_to_its_node", _pinned_container_is_bound_to_its_node),
    Check("pair_gets_half_and_half", _pair_gets_half_and_half),
    Check("two_nodes_with_equal_parts", _two_nodes_have_equal_parts),
    Check("more_nodes_than_allowed_are_ignored", _more_nodes_than_allowed_are_ignored),
    Check("seccomp_profile_does_not_prevent_it", _seccomp_profile_does_not_prevent_it),
    Check("invalid_annotation_is_ignored", _invalid_annotation_is_ignored),
    Check("explain_shows_the_policy", _explain_shows_the_policy),
)
_OLDER_RUNC = (
    Check("older_runc_is_refused", _older_runc_is_refused),
    Check("older_runc_is_recorded", _older_runc_is_recorded),
)

PHASES = (
    Phase(
        name="memory-policies",
        scenarios=(MODES_OF_PODS, _OLDER_RUNC),
        settings=SETTINGS,
        runs_programs=True,
    ),
)
