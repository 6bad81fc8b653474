"""Which CPUs containers share beside their memory, and whether they get any."""

from dataclasses import replace

import pytest

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import Container, HostCpus
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.features.cpu_following import shared_cpus
from nri_numamem.numa import CpuFollowing, CpuSet, NodeSet
from tests.engine.conftest import four_nodes

POLICY = Policy(cpu_following=CpuFollowing.PREFER, reserved_cpus=CpuSet({0}))
HOST = HostCpus(isolated=CpuSet({1}))
CONTEXT = replace(Context.of(four_nodes(), POLICY), host_cpus=HOST)


def test_the_settings_decide() -> None:
    assert shared_cpus.may_follow(POLICY)
    assert not shared_cpus.may_follow(Policy())
    none = Policy(cpu_following=CpuFollowing.REQUIRE, memory_manager_policy="None")
    assert not shared_cpus.may_follow(none)


def test_a_static_manager_shows_in_configuration_or_state() -> None:
    static = HostCpus(kubelet_policy="static")
    assert shared_cpus.has_static_manager(Policy(has_static_cpus=True), HOST)
    assert shared_cpus.has_static_manager(POLICY, static)
    assert not shared_cpus.has_static_manager(POLICY, HostCpus(kubelet_policy="none"))


def test_reserved_and_isolated_cpus_are_left_out() -> None:
    found = shared_cpus.cpus_beside(CONTEXT, NodeSet({0, 2}))
    assert str(found) == "2-3,8-11"


@pytest.mark.parametrize(
    ("mems", "cpus", "expected"),
    [
        ("0", "2-3", True),
        ("0", "0-3", False),
        ("0", "", False),
        ("", "2-3", False),
        ("0-", "2-3", False),
        ("0", "x", False),
    ],
)
def test_whether_a_container_has_the_cpus_of_its_nodes(
    mems: str, cpus: str, expected: bool
) -> None:
    container = Container("c", "s", "main", cpuset_mems=mems, cpuset_cpus=cpus)
    found = shared_cpus.has_cpus_of_nodes(CONTEXT, container)
    assert found is expected
