"""Whether CPUs follow memory: the settings, and the policy of the kubelet's CPU manager."""

from nri_numamem.engine.core.events import HostCpus
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.features.cpu_following.feature import FEATURE
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import Reservation
from nri_numamem.numa import CpuFollowing, CpuSet
from tests.engine.conftest import MI, four_nodes

RESERVED = tuple(Reservation(node, {"memory": 64 * MI}) for node in range(4))
STATIC = HostCpus(kubelet_policy="static")


def new_engine(following: CpuFollowing = CpuFollowing.REQUIRE, *, static: bool = False) -> Engine:
    policy = Policy(reserved_memory=RESERVED, cpu_following=following, has_static_cpus=static)
    return Engine(new_context(four_nodes(), policy))


def test_isolated_cpus_are_no_record() -> None:
    engine, cpus = new_engine(), HostCpus(CpuSet({1}), "none")
    assert engine.apply(cpus).records == ()
    assert engine.context.host_cpus == cpus
    assert FEATURE in engine.context.features


def test_a_static_cpu_manager_is_recorded_once() -> None:
    for engine, names in (
        (new_engine(), ["cpus_left_to_kubelet"]),
        (new_engine(static=True), []),  # recorded at the start
        (new_engine(CpuFollowing.OFF), []),
    ):
        for expected in (names, []):
            found = engine.apply(STATIC).records
            assert [record.event for record in found] == expected
            assert FEATURE not in engine.context.features


def test_the_feature_acts_again_without_a_static_cpu_manager() -> None:
    engine = new_engine()
    engine.apply(STATIC)
    found = engine.apply(HostCpus()).records
    assert [record.event for record in found] == ["cpus_follow_memory"]
    assert FEATURE in engine.context.features
