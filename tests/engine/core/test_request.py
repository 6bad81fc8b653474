"""The request of a container, where it follows from unified keys."""

from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.request import HugepageSource, request_of

SUM = {2 << 20: 64 << 20}


def test_the_pods_sum_counts_once_if_it_is_reported_as_unified_keys() -> None:
    """The reply sets unified keys on each container, and the runtime reports them later."""
    pod = PodSandbox("sandbox", "uid", "default", "pod", "/kubepods/poduid", hugepage_limits=SUM)
    container = Container("id", "sandbox", "app", 1 << 30, hugepages_unified=SUM)
    first = request_of(pod, container, {})
    second = request_of(pod, container, {"hugepages-2Mi": 64 << 20})
    assert first is not None
    assert second is not None
    assert first.resources == {"memory": 1 << 30, "hugepages-2Mi": 64 << 20}
    assert second.resources == {"memory": 1 << 30}
    assert {first.hugepage_source, second.hugepage_source} == {HugepageSource.UNIFIED}


def test_other_unified_limits_are_limits_of_the_container() -> None:
    pod = PodSandbox("sandbox", "uid", "default", "pod", "/kubepods/poduid", hugepage_limits=SUM)
    own = {2 << 20: 32 << 20}
    container = Container("id", "sandbox", "app", 1 << 30, hugepages_unified=own)
    request = request_of(pod, container, {"hugepages-2Mi": 32 << 20})
    assert request is not None
    assert request.resources["hugepages-2Mi"] == 32 << 20
