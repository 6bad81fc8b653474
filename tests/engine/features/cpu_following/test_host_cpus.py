"""What is read of the host's CPUs becomes a part of the context."""

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import HostCpus, HostCpusRead
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.features.cpu_following.host_cpus import host_cpus_read
from nri_numamem.memorymanager import Reservation
from nri_numamem.numa import CpuFollowing, CpuSet
from tests.engine.conftest import MI, four_nodes

RESERVED = tuple(Reservation(node, {"memory": 64 * MI}) for node in range(4))
STATIC = HostCpus(kubelet_policy="static")


def context(following: CpuFollowing = CpuFollowing.REQUIRE, *, static: bool = False) -> Context:
    policy = Policy(reserved_memory=RESERVED, cpu_following=following, has_static_cpus=static)
    return Context.of(four_nodes(), policy)


def test_what_is_known_already_changes_nothing() -> None:
    made = context()
    state = EngineState(made.empty_accounting())
    found = host_cpus_read(made, state, HostCpusRead(HostCpus()))
    assert (found.state, found.records, found.context) == (state, (), None)


def test_isolated_cpus_are_no_record() -> None:
    made = context()
    cpus = HostCpus(CpuSet({1}), "none")
    found = host_cpus_read(made, EngineState(made.empty_accounting()), HostCpusRead(cpus))
    assert found.records == ()
    assert found.context is not None
    assert found.context.host_cpus == cpus
    assert found.context.follows_cpus


def test_a_static_cpu_manager_is_recorded_once() -> None:
    for made, names in (
        (context(), ["cpus_left_to_kubelet"]),
        (context(static=True), []),  # recorded at the start
        (context(CpuFollowing.OFF), []),
    ):
        found = host_cpus_read(made, EngineState(made.empty_accounting()), HostCpusRead(STATIC))
        assert [record.event for record in found.records] == names
        assert found.context is not None
        assert not found.context.follows_cpus
