"""A decoder without a host."""

from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.nri.host_facts import NO_HOST_FACTS

POD = PodSandbox("s", "u", "ns", "p", "/kubepods/podu")
CONTAINER = Container("c", "s", "main", memory_limit_bytes=1 << 20)


def test_nothing_is_known_without_a_host() -> None:
    facts, parent = NO_HOST_FACTS, POD.cgroup_parent
    settings = [facts.pins_burstable, facts.sets_oom_score_adj, facts.reads_networks]
    assert [*settings, facts.sets_policies] == [False] * 4
    assert facts.label_keys == ()
    assert facts.read_cpuset(CONTAINER, parent, "") is CONTAINER
    assert (facts.hugepage_limits(parent), facts.device_nodes(parent, [])) == ({}, ())
    assert facts.process_start(1) == 0
    unknown = (
        facts.memory_limit(parent),
        facts.container_memory(""),
        facts.pool_use(POD, CONTAINER),
        facts.policy_support("kata"),
        facts.available_memory(POD, CONTAINER),
        facts.network(POD, ("eth1",), ""),
    )
    assert unknown == (None,) * 6
    facts.sandbox_started(POD, "")
    facts.sandbox_ended(POD.sandbox_id)
