"""The limits of a pod's cgroup, with and without overhead."""

from nri_numamem.nri.pod_cgroup import NO_LIMITS, PodCgroup, no_pod_memory, read_pod_cgroup

PAGES = {2 << 20: 4 << 20}
POD = "/kubepods/pod1"


def test_the_overhead_is_no_part_of_the_pods_limit() -> None:
    read: list[str] = []

    def pod_memory(cgroup_parent: str) -> int:
        read.append(cgroup_parent)
        return 300

    assert read_pod_cgroup(POD, 100, lambda _: PAGES, pod_memory) == PodCgroup(PAGES, 200)
    assert read_pod_cgroup(POD, 100, lambda _: {}, lambda _: 50) == NO_LIMITS
    assert read == [POD]


def test_a_pod_without_a_limit() -> None:
    assert read_pod_cgroup(POD, 100, lambda _: PAGES, no_pod_memory) == PodCgroup(PAGES)
