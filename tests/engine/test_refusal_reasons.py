"""One refusal has one reason for each NUMA node: in the text, in the record, and in simulate."""

import pytest

from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.memorymanager.rejection import MESSAGE_LIMIT
from nri_numamem.numa import CpuSet, Machine, NumaNode
from tests.engine.conftest import GI, Answer, NewHost

POLICIES = ("none", "best-effort", "restricted", "single-numa-node")


def machine(count: int = 4, pages: int = 8) -> Machine:
    """Return nodes of 64 GiB with 1Gi pages; 0-1, 2-3 and so on are close."""
    return Machine(
        tuple(
            NumaNode(
                n,
                64 * GI,
                {GI: pages} if pages else {},
                CpuSet([n]),
                {m: 10 if m == n else 12 if m // 2 == n // 2 else 21 for m in range(count)},
            )
            for n in range(count)
        )
    )


def reasons(answer: Answer) -> dict[str, tuple[str, str]]:
    """Return node set -> rule and reason in the record of a refusal."""
    (record,) = answer.records
    listed = fields_of(record)["candidates"]
    assert isinstance(listed, list)
    found = [each for each in listed if isinstance(each, dict)]
    return {str(one["nodes"]): (str(one["rule"]), str(one["reason"])) for one in found}


def test_a_node_that_is_short_is_not_called_assigned(new_host: NewHost) -> None:
    """Step 6 of the demo: a database on node 0, a router on node 1, a group on nodes 2-3."""
    host = new_host(Policy(), machine(pages=0))
    for uid, size_gi in (("database", 48), ("analytics", 90), ("router", 16)):
        assert host.create(host.run(uid), memory=size_gi * GI).refusal is None
    answer = host.create(host.run("cache"), memory=49 * GI)
    group = "in group 2-3 with 37.95Gi free"
    expected = {
        "2-3": ("not_enough_free", "11.05Gi short"),
        "0": ("not_enough_free", "33.05Gi short"),
        "1": ("not_enough_free", "1Gi short"),
        "2": ("other_group", group),
        "3": ("other_group", group),
    }
    assert {nodes: rule for nodes, (rule, _) in reasons(answer).items()} == {
        nodes: rule for nodes, (rule, _) in expected.items()
    }
    text = answer.refusal or ""
    for nodes in ("0", "1", "2", "3"):
        assert f"NUMA node {nodes}: " in text
        part = text.partition(f"NUMA node {nodes}: ")[2].partition("; ")[0]
        assert part.endswith(f", {reasons(answer)[nodes][1]}")
    assert "single-node assignments" not in text


def test_what_blocks_a_group_is_named(new_host: NewHost) -> None:
    host = new_host(Policy(), machine(pages=0))
    for uid in "abc":
        host.create(host.run(uid), memory=33 * GI)
    answer = host.create(host.run("large"), memory=120 * GI)
    blocks = ("blocks_group", "blocks a group (33Gi assigned)")
    assert reasons(answer) == {"0": blocks, "1": blocks, "2": blocks, "3": reasons(answer)["3"]}
    assert reasons(answer)["3"] == ("too_small", "56.03Gi short, even if empty")
    assert (answer.refusal or "").count(", blocks a group (33Gi assigned)") == 1


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("scope", ["container", "pod"])
def test_cpus_elsewhere(new_host: NewHost, policy: str, scope: str) -> None:
    settings = Policy(topology_manager_policy=policy, topology_manager_scope=scope)
    host = new_host(settings, machine(2, pages=0))
    host.create(host.run("a"), memory=60 * GI, cpus="0")
    answer = host.create(host.run("b", memory=40 * GI), memory=40 * GI, cpus="0")
    if answer.refusal is None:
        return
    assert reasons(answer)["1"] == ("not_aligned", "not the node of the CPUs or a device")
    assert ", not the node of the CPUs or a device" in answer.refusal


@pytest.mark.parametrize("count", [2, 4, 6, 8, 12, 16])
def test_two_resources_have_amounts_for_each_node(new_host: NewHost, count: int) -> None:
    """Each node has memory or hugepages, and none has both."""
    host = new_host(Policy(topology_manager_policy="single-numa-node"), machine(count))
    for n in range(count):
        used = {"memory": GI + n * GI // 8, "hugepages": {GI: 8 * GI}}
        if n % 2:
            used = {"memory": 50 * GI + n * GI // 8, "hugepages": {GI: GI}}
        answer = host.create(host.run(f"p{n}"), cpus=str(n), **used)  # type: ignore[arg-type]
        assert answer.refusal is None
    answer = host.create(host.run("new"), memory=30 * GI, hugepages={GI: 4 * GI})
    text = answer.refusal or ""
    assert len(text) <= MESSAGE_LIMIT
    assert "at most" not in text.partition("remedy:")[0]
    if count > 4:
        assert "free memory, hugepages-1Gi per NUMA node: 0: " in text
        assert " · 1: " in text
