"""Remedies of refusals; tests/property/test_remedies.py follows them on random hosts."""

from dataclasses import replace

import pytest

from nri_numamem.engine.admission import remedies
from nri_numamem.engine.admission.remedies import REBUILT_LIMIT, TRIALS
from nri_numamem.engine.core.events import CreateContainer
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.memorymanager import PoolUse
from nri_numamem.memorymanager.hugepage_pools import Pool
from nri_numamem.numa import CpuSet, Machine, MemoryNodes, NodeClass, NumaNode
from nri_numamem.numa.memory_nodes import WithoutCpus
from tests.engine.conftest import GI, Answer, Host, NewHost

PAGES = "hugepages-1Gi"


def machine(count: int = 2, size_gi: int = 58, pages: int = 0, without_cpus: int = 0) -> Machine:
    """Return nodes of `size_gi`, with pages besides; the last ones have no CPUs."""
    return Machine(
        tuple(
            NumaNode(
                n,
                (size_gi + pages) * GI,
                {GI: pages} if pages else {},
                CpuSet([n]) if n < count - without_cpus else CpuSet(),
                {m: 10 if m == n else 12 if m // 2 == n // 2 else 21 for m in range(count)},
            )
            for n in range(count)
        )
    )


def remedy(answer: Answer) -> str:
    """Return the remedies in the text of a refusal; they are those of the record too."""
    text = (answer.refusal or "").partition("remedy: ")[2].partition("; ")[0]
    found = fields_of(answer.records[0])["remedies"]
    assert isinstance(found, list)
    texts = [str(each["text"]) for each in found if isinstance(each, dict)]
    assert ", or ".join(texts).startswith(text)
    return text


def strict(new_host: NewHost, policy: str = "single-numa-node", **settings: object) -> Host:
    chosen = Policy(topology_manager_policy=policy, reserved_memory=())
    return new_host(replace(chosen, **settings), machine())  # type: ignore[arg-type]


def test_a_request_that_needs_two_nodes_where_the_policy_allows_one(new_host: NewHost) -> None:
    answer = strict(new_host).create(strict(new_host).run("a"), memory=70 * GI)
    assert "requested memory 70Gi; needs 2 NUMA nodes, single-numa-node allows 1; " in (
        answer.refusal or ""
    )
    assert remedy(answer) == (
        "request at most 59342Mi, or set topologyManagerPolicy restricted or best-effort"
    )
    assert "make room" not in (answer.refusal or "")
    for policy in ("restricted", "best-effort"):
        host = strict(new_host, policy)
        assert host.create(host.run("a"), memory=70 * GI).refusal is None
    host = strict(new_host)
    assert host.create(host.run("a"), memory=59342 << 20).refusal is None


def test_room_on_one_node(new_host: NewHost) -> None:
    host = new_host(Policy(), machine())
    host.create(host.run("a"), memory=50 * GI)
    host.create(host.run("b"), memory=20 * GI)
    answer = host.create(host.run("new"), memory=45 * GI)
    assert remedy(answer).startswith("make room on NUMA node 1: 7.05Gi, or request at most 38862Mi")


def test_nodes_that_must_be_empty(new_host: NewHost) -> None:
    host = new_host(Policy(), machine(4))
    for uid in "abcd":
        host.create(host.run(uid), memory=30 * GI)
    assert remedy(host.create(host.run("new"), memory=80 * GI)).startswith(
        "end the pods on NUMA nodes 0-1, or request at most "
    )


def use(*pools: tuple[int, int]) -> PoolUse:
    """Return used and free 1Gi pages of each node."""
    return PoolUse({n: {PAGES: Pool(u * GI, f * GI)} for n, (u, f) in enumerate(pools)}, {})


def test_pages_used_outside_of_pods_come_first(new_host: NewHost) -> None:
    host = new_host(Policy(), machine(pages=4))
    pod = host.run("a")
    answer = host.create(pod, memory=GI, hugepages={GI: 3 * GI}, pool_use=use((4, 0), (2, 2)))
    assert remedy(answer).startswith(
        "free hugepages-1Gi 4Gi on NUMA node 0, used outside of pods, or request at most "
        "memory 1Gi, hugepages-1Gi 2Gi"
    )
    both = host.create(pod, memory=GI, hugepages={GI: 8 * GI}, pool_use=use((4, 0), (2, 2)))
    assert remedy(both).startswith("free hugepages-1Gi 6Gi on NUMA nodes 0-1, used outside of pods")


def test_pages_that_the_host_lacks(new_host: NewHost) -> None:
    host = new_host(Policy(), machine())
    answer = host.create(host.run("a"), memory=GI, hugepages={GI: 3 * GI}, pool_use=use())
    assert remedy(answer) == "reserve hugepages-1Gi 3Gi on NUMA node 0"
    answer = host.create(host.run("b"), memory=GI, hugepages={GI: 300 * GI})
    assert remedy(answer) == ""


def test_nodes_without_cpus(new_host: NewHost) -> None:
    policy = Policy(memory_nodes=MemoryNodes(WithoutCpus.EXCLUDE))
    host = new_host(policy, machine(2, without_cpus=1))
    answer = host.create(host.run("a"), memory=70 * GI)
    assert remedy(answer).endswith(", or set memoryNodes.withoutCpus lastResort")


def test_an_impossible_setting_is_no_remedy(new_host: NewHost) -> None:
    """Every node is called one without CPUs, so they cannot be excluded."""
    override = dict.fromkeys(range(2), NodeClass.CPULESS)
    host = new_host(Policy(memory_nodes=MemoryNodes(WithoutCpus.USE, override)), machine())
    answer = host.create(host.run("a"), memory=900 * GI)
    assert remedy(answer) == "request at most 118684Mi"


def test_pages_that_no_node_could_use(new_host: NewHost) -> None:
    """The rest of the request does not fit beside the pages."""
    host = new_host(Policy(topology_manager_policy="single-numa-node"), machine())
    answer = host.create(host.run("a"), memory=50 * GI, hugepages={GI: 30 * GI})
    assert "reserve" not in remedy(answer)


def test_the_other_scope(new_host: NewHost) -> None:
    host = strict(new_host, topology_manager_scope="pod")
    pod = host.run("a", memory=100 * GI)
    answer = host.create(pod, memory=50 * GI)
    assert "set topologyManagerScope container" in remedy(answer)
    (record,) = answer.records
    assert fields_of(record)["pod_request_bytes"] == {"memory": 100 * GI}
    assert remedy(answer).startswith("request at most 59342Mi")


def test_a_large_host_gets_no_remedy_that_rebuilds_the_accounting(new_host: NewHost) -> None:
    host = strict(new_host, topology_manager_scope="pod")
    for n in range(REBUILT_LIMIT // 2 + 1):
        host.create(host.run(f"p{n}", memory=1 << 20), memory=1 << 20)
    answer = host.create(host.run("a", memory=100 * GI), memory=50 * GI)
    assert "topologyManagerScope" not in remedy(answer)
    assert remedy(answer) == "request at most 59342Mi"


@pytest.mark.parametrize("trials", [0, 1, 2, 5])
def test_the_number_of_trials_is_limited(
    new_host: NewHost, monkeypatch: pytest.MonkeyPatch, trials: int
) -> None:
    host = new_host(Policy(), machine(4, pages=4))
    for uid in "abcd":
        host.create(host.run(uid), memory=30 * GI, hugepages={GI: 2 * GI})
    monkeypatch.setattr(remedies, "TRIALS", trials)
    tried: list[CreateContainer] = []
    search = remedies._Search
    before = search._is_admitted

    def counted(self: object, **changed: object) -> bool:
        if self._left:  # type: ignore[attr-defined]
            tried.append(changed)  # type: ignore[arg-type]
        return before(self, **changed)  # type: ignore[arg-type]

    monkeypatch.setattr(search, "_is_admitted", counted)
    answer = host.create(
        host.run("new"), memory=80 * GI, hugepages={GI: 5 * GI}, pool_use=use(*[(4, 0)] * 4)
    )
    assert len(tried) == trials
    assert answer.refusal is not None
    assert trials or "remedy" not in answer.refusal


def test_a_refusal_on_a_full_host_takes_few_trials(
    new_host: NewHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = new_host(Policy(), machine(4))
    for uid in "abcd":
        host.create(host.run(uid), memory=30 * GI)
    left: list[int] = []
    find = remedies._Search.change_memory_nodes

    def last(self: remedies._Search) -> object:
        left.append(self._left)
        return find(self)

    monkeypatch.setattr(remedies._Search, "change_memory_nodes", last)
    host.create(host.run("new"), memory=40 * GI)
    assert TRIALS - left[0] <= 10
