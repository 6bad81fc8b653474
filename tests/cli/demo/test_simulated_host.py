import pytest

from nri_numamem.cli.demo.simulated_host import SimulatedHost
from nri_numamem.cli.demo.steps import GI, PAGE_1GI, PodSpec, RefusedError, Started
from nri_numamem.memorymanager import QosClass

_SMALL = PodSpec("small", "server", QosClass.GUARANTEED, GI, {PAGE_1GI: GI})


def test_pods_start_and_end() -> None:
    host = SimulatedHost()
    empty = host.accounting()
    assert empty["entries"] == {}
    assert host.start_pod(_SMALL) == Started("0", {PAGE_1GI: GI})
    with pytest.raises(RefusedError, match="requested memory 900Gi"):
        host.start_pod(PodSpec("big", "big", QosClass.GUARANTEED, 900 * GI))
    assert sorted(host.pod_names.values()) == ["big", "small"]
    assert list(host.accounting()["entries"]) == ["small-uid"]
    host.remove_pod(_SMALL)
    assert host.accounting() == empty


@pytest.mark.parametrize("qos", [QosClass.BURSTABLE, QosClass.BEST_EFFORT])
def test_other_classes_are_not_pinned(qos: QosClass) -> None:
    host = SimulatedHost()
    assert host.start_pod(PodSpec("web", "nginx", qos, GI)) == Started()
    assert host.accounting()["entries"] == {}
