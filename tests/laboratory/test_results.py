import pytest

from nri_numamem.ttrpc import Code
from tests.laboratory import api_pb2 as api
from tests.laboratory.results import (
    PluginRefused,
    ProtocolViolation,
    apply_adjustment,
    check_adjustment,
    check_memory_policy,
    check_updates,
    overlay_resources,
)


def _update(container_id: str, **resources: object) -> api.ContainerUpdate:
    made = api.LinuxResources(**resources)  # type: ignore[arg-type]
    linux = api.LinuxContainerUpdate(resources=made)
    return api.ContainerUpdate(container_id=container_id, linux=linux, ignore_failure=True)


def _adjustment(**resources: object) -> api.ContainerAdjustment:
    made = api.LinuxResources(**resources)  # type: ignore[arg-type]
    return api.ContainerAdjustment(linux=api.LinuxContainerAdjustment(resources=made))


def test_updates_of_several_containers_are_valid() -> None:
    mems = api.LinuxCPU(mems="1")
    check_updates([_update("a", cpu=mems), _update("b", cpu=mems)], forbidden_id="c")


@pytest.mark.parametrize(
    ("updates", "text"),
    [
        ([_update("")], "names no container"),
        ([_update("new")], "the reply updates new during its creation"),
        ([_update("a"), _update("a")], "2 updates of a in a reply"),
        ([_update("a", hugepage_limits=[api.HugepageLimit(page_size="2MB")])], "hugepage"),
        ([_update("a", pids=api.LinuxPids(limit=5))], "pids"),
    ],
)
def test_invalid_updates(updates: list[api.ContainerUpdate], text: str) -> None:
    with pytest.raises(ProtocolViolation, match=text):
        check_updates(updates, forbidden_id="new")


def test_evictions_are_refused() -> None:
    with pytest.raises(ProtocolViolation, match="evictions"):
        check_updates([], [api.ContainerEviction(container_id="a")])


def test_adjustments_of_all_supported_fields_are_valid() -> None:
    adjustment = _adjustment(
        cpu=api.LinuxCPU(mems="1"),
        memory=api.LinuxMemory(limit=api.OptionalInt64(value=1)),
        hugepage_limits=[api.HugepageLimit(page_size="2MB", limit=1)],
        unified={"memory.min": "1"},
    )
    adjustment.annotations["a"] = "b"
    adjustment.env.add(key="A", value="B")
    adjustment.linux.oom_score_adj.value = -5
    adjustment.linux.memory_policy.mode = api.MPOL_LOCAL
    check_adjustment(adjustment)
    check_adjustment(api.ContainerAdjustment())
    assert adjustment.linux.resources.cpu.mems == "1"


def test_one_hugepage_size_twice_is_a_violation() -> None:
    limits = [api.HugepageLimit(page_size="2MB", limit=n) for n in (1, 2)]
    with pytest.raises(ProtocolViolation, match="twice"):
        check_adjustment(_adjustment(hugepage_limits=limits))


def test_the_text_has_the_names_of_unsupported_fields() -> None:
    with pytest.raises(ProtocolViolation, match="fields in linux"):
        check_adjustment(_adjustment(pids=api.LinuxPids(limit=5)))
    with pytest.raises(ProtocolViolation, match="fields in linux, args"):
        check_adjustment(
            api.ContainerAdjustment(
                args=["sh"], linux=api.LinuxContainerAdjustment(cgroups_path="/x")
            )
        )


def test_annotations_and_environment_are_set_and_removed() -> None:
    container = api.Container(annotations={"old": "1", "kept": "2"}, env=["A=1", "B=2", "C=3"])
    adjustment = api.ContainerAdjustment(annotations={"-old": "", "new": "3", "-no": ""})
    adjustment.env.add(key="A", value="9")
    adjustment.env.add(key="-B")
    adjustment.linux.oom_score_adj.value = -5
    adjustment.linux.memory_policy.mode = api.MPOL_LOCAL
    apply_adjustment(container, adjustment, hugetlb=True)
    assert dict(container.annotations) == {"kept": "2", "new": "3"}
    assert list(container.env) == ["C=3", "A=9"]
    assert container.linux.oom_score_adj.value == -5


@pytest.mark.parametrize("hugetlb", [True, False])
def test_hugepage_limits_depend_on_the_runtime(*, hugetlb: bool) -> None:
    container = api.Container()
    container.linux.resources.hugepage_limits.add(page_size="1GB", limit=1)
    container.linux.resources.hugepage_limits.add(page_size="2MB", limit=1)
    limits = [api.HugepageLimit(page_size="2MB", limit=7)]
    apply_adjustment(container, _adjustment(hugepage_limits=limits), hugetlb=hugetlb)
    after = {h.page_size: h.limit for h in container.linux.resources.hugepage_limits}
    assert after == {"1GB": 1, "2MB": 7 if hugetlb else 1}


def test_zero_and_empty_values_change_no_resources() -> None:
    resources = api.LinuxResources(
        memory=api.LinuxMemory(limit=api.OptionalInt64(value=5)),
        cpu=api.LinuxCPU(mems="1", cpus="0-3", shares=api.OptionalUInt64(value=2)),
        unified={"a": "1"},
    )
    before = api.LinuxResources.FromString(resources.SerializeToString())
    zero = api.LinuxResources(
        memory=api.LinuxMemory(limit=api.OptionalInt64(value=0)),
        cpu=api.LinuxCPU(shares=api.OptionalUInt64(value=0)),
    )
    overlay_resources(resources, zero)
    assert resources == before


def test_values_replace_resources() -> None:
    resources = api.LinuxResources()
    wanted = api.LinuxResources(
        memory=api.LinuxMemory(limit=api.OptionalInt64(value=5)),
        cpu=api.LinuxCPU(
            mems="1",
            cpus="0-3",
            shares=api.OptionalUInt64(value=2),
            quota=api.OptionalInt64(value=3),
            period=api.OptionalUInt64(value=4),
        ),
        unified={"a": "1"},
    )
    overlay_resources(resources, wanted)
    assert resources == wanted


def test_a_refusal_keeps_code_and_text() -> None:
    refusal = PluginRefused(Code.UNKNOWN, "no room")
    assert (refusal.code, refusal.text, str(refusal)) == (Code.UNKNOWN, "no room", "no room")


def _policy(
    mode: "api.MpolMode.ValueType", nodes: str, *flags: "api.MpolFlag.ValueType"
) -> api.LinuxMemoryPolicy:
    return api.LinuxMemoryPolicy(mode=mode, nodes=nodes, flags=flags)


def _with_mems(mems: str) -> api.Container:
    container = api.Container(id="c")
    container.linux.resources.cpu.mems = mems
    return container


@pytest.mark.parametrize("mems", ["", "1-2"])
def test_policies_that_the_kernel_accepts(mems: str) -> None:
    for policy in (
        _policy(api.MPOL_BIND, "0-1", api.MPOL_F_STATIC_NODES, api.MPOL_F_NUMA_BALANCING),
        _policy(api.MPOL_INTERLEAVE, "2", api.MPOL_F_RELATIVE_NODES),
        _policy(api.MPOL_LOCAL, ""),
    ):
        check_memory_policy(_with_mems(mems), policy)


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (_policy(api.MPOL_LOCAL, "1"), "MPOL_LOCAL has nodes or flags"),
        (_policy(api.MPOL_LOCAL, "", api.MPOL_F_STATIC_NODES), "MPOL_LOCAL has nodes or flags"),
        (_policy(api.MPOL_BIND, ""), "MPOL_BIND has no nodes"),
        (_policy(api.MPOL_BIND, "0,3"), "MPOL_BIND has nodes 0,3 outside of cpuset.mems 1-2"),
        (
            _policy(api.MPOL_BIND, "1", api.MPOL_F_STATIC_NODES, api.MPOL_F_RELATIVE_NODES),
            "exclude each other",
        ),
        (_policy(api.MPOL_INTERLEAVE, "1", api.MPOL_F_NUMA_BALANCING), "needs MPOL_BIND"),
    ],
)
def test_policies_that_fail_the_creation(policy: api.LinuxMemoryPolicy, text: str) -> None:
    with pytest.raises(ProtocolViolation, match=text):
        check_memory_policy(_with_mems("1-2"), policy)
