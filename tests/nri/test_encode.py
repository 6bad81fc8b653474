import pytest

from nri_numamem.engine.core.plan import Adjustment, HugepageRoute, Plan, Update
from nri_numamem.nri import encode
from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.numa import MemoryPolicy, NodeSet, PolicyMode

MI = 1 << 20


def test_a_plan_without_changes_is_the_empty_message() -> None:
    assert encode.create_container_response(Plan()).SerializeToString() == b""
    assert encode.updates_of(Plan()) == []


def test_a_reply_with_cpuset_mems_has_only_that_field() -> None:
    """Tags: adjust 1, linux 6, resources 2, cpu 2, mems 7."""
    response = encode.create_container_response(Plan(Adjustment("0-1")))
    mems = b"\x3a\x030-1"
    cpu = b"\x12" + bytes([len(mems)]) + mems
    resources = b"\x12" + bytes([len(cpu)]) + cpu
    linux = b"\x32" + bytes([len(resources)]) + resources
    assert response.SerializeToString() == b"\x0a" + bytes([len(linux)]) + linux


def test_hugepages_by_unified_keys_for_use_and_reservation() -> None:
    plan = Plan(Adjustment("2", {2 * MI: 4 * MI}, HugepageRoute.UNIFIED))
    resources = encode.create_container_response(plan).adjust.linux.resources
    assert dict(resources.unified) == {
        "hugetlb.2MB.max": "4194304",
        "hugetlb.2MB.rsvd.max": "4194304",
    }
    assert not resources.hugepage_limits


def test_hugepages_by_limits() -> None:
    plan = Plan(Adjustment("2", {2 * MI: 4 * MI, 1024 * MI: 1024 * MI}, HugepageRoute.LIMITS))
    resources = encode.create_container_response(plan).adjust.linux.resources
    assert list(resources.hugepage_limits) == [
        api.HugepageLimit(page_size="2MB", limit=4 * MI),
        api.HugepageLimit(page_size="1GB", limit=1024 * MI),
    ]
    assert not resources.unified


def test_updates_have_container_ids_and_ignore_failure() -> None:
    plan = Plan(updates=(Update("a", "0"), Update("b", "1-2")))
    for updates in (encode.create_container_response(plan).update, encode.updates_of(plan)):
        assert [(u.container_id, u.linux.resources.cpu.mems) for u in updates] == [
            ("a", "0"),
            ("b", "1-2"),
        ]
        assert all(update.ignore_failure for update in updates)


def test_hugepages_without_cpuset_mems() -> None:
    plan = Plan(Adjustment("", {2 * MI: 0}, HugepageRoute.LIMITS))
    resources = encode.create_container_response(plan).adjust.linux.resources
    assert not resources.HasField("cpu")
    assert list(resources.hugepage_limits) == [api.HugepageLimit(page_size="2MB")]


@pytest.mark.parametrize(
    ("mode", "number"),
    [
        (PolicyMode.PREFERRED, api.MPOL_PREFERRED),
        (PolicyMode.BIND, api.MPOL_BIND),
        (PolicyMode.INTERLEAVE, api.MPOL_INTERLEAVE),
        (PolicyMode.PREFERRED_MANY, api.MPOL_PREFERRED_MANY),
        (PolicyMode.WEIGHTED_INTERLEAVE, api.MPOL_WEIGHTED_INTERLEAVE),
    ],
)
def test_memory_policies_have_static_nodes(
    mode: PolicyMode, number: "api.MpolMode.ValueType"
) -> None:
    plan = Plan(Adjustment("0-3", memory_policy=MemoryPolicy(mode, NodeSet({0, 1, 3}))))
    linux = encode.create_container_response(plan).adjust.linux
    assert linux.memory_policy == api.LinuxMemoryPolicy(
        mode=number, nodes="0-1,3", flags=[api.MPOL_F_STATIC_NODES]
    )
    assert linux.resources.cpu.mems == "0-3"


def test_cpus_of_the_container_and_of_an_update() -> None:
    plan = Plan(
        Adjustment("2", cpuset_cpus="8-11"), (Update("c", "0-1", "0-7"), Update("d", "", "4"))
    )
    response = encode.create_container_response(plan)
    assert response.adjust.linux.resources == api.LinuxResources(
        cpu=api.LinuxCPU(cpus="8-11", mems="2")
    )
    found = [update.linux.resources.cpu for update in response.update]
    assert found == [api.LinuxCPU(cpus="0-7", mems="0-1"), api.LinuxCPU(cpus="4")]


def test_the_policy_local_has_neither_nodes_nor_flags() -> None:
    plan = Plan(Adjustment(memory_policy=MemoryPolicy(PolicyMode.LOCAL)))
    linux = encode.create_container_response(plan).adjust.linux
    assert linux == api.LinuxContainerAdjustment(
        memory_policy=api.LinuxMemoryPolicy(mode=api.MPOL_LOCAL)
    )


def test_a_score_is_set_only_if_the_plan_has_one() -> None:
    for score in (-500, 0):
        plan = Plan(Adjustment("0", oom_score_adj=score))
        linux = encode.create_container_response(plan).adjust.linux
        assert linux.HasField("oom_score_adj")
        assert linux.oom_score_adj.value == score
    linux = encode.create_container_response(Plan(Adjustment("0"))).adjust.linux
    assert not linux.HasField("oom_score_adj")
