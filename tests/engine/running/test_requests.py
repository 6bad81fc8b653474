"""The requests at a Synchronize: sums over a pod's containers, computed once per sandbox."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine.core.events import Container
from nri_numamem.memorymanager.holder import container_name
from tests.engine.operations import count_operations

if TYPE_CHECKING:
    from nri_numamem.engine.core.events import PodSandbox
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20
PAGE = 2 * MI
FREE = 1024 * MI - 64 * MI - 32 * MI


def run_all(
    host: Host, containers: int, hugepages: dict[int, int] | None, memory: int | None = MI
) -> None:
    """Let a new pod run many containers on node 0, which the engine does not have yet."""
    pod = host.run("a", memory=containers * MI, hugepages=hugepages)
    for number in range(containers):
        add_running(host, pod, f"c{number}", memory)


def add_running(host: Host, pod: PodSandbox, name: str, memory: int | None) -> Container:
    """Add a container to what the runtime reports at the next Synchronize."""
    container_id = f"{pod.sandbox_id}-{name}"
    found = Container(container_id, pod.sandbox_id, name, memory, cpuset_mems="0")
    host.containers[container_id] = found
    return found


def memory_of(host: Host, uid: str = "a") -> dict[str, int]:
    """Return container -> bytes of memory."""
    found = host.engine.state.accounting.assignments[uid]
    return {container_name(name): blocks[0].size for name, blocks in found.items()}


@pytest.mark.parametrize("hugepages", [None, {PAGE: 2 * PAGE}])
@pytest.mark.parametrize("memory", [MI, None])
@pytest.mark.parametrize("is_known", [False, True])
def test_a_synchronize_takes_one_pass_over_a_pod(
    new_host: NewHost, hugepages: dict[int, int] | None, memory: int | None, is_known: bool
) -> None:
    def operations(containers: int) -> int:
        host = new_host()
        run_all(host, containers, hugepages, memory)
        if is_known:
            host.synchronize()
        count = count_operations(host.synchronize)
        assert len(memory_of(host)) == containers
        return count

    few, many = operations(50), operations(200)
    assert many < 4.2 * few


def test_the_first_container_gets_the_pods_hugepages(host: Host) -> None:
    run_all(host, 3, {PAGE: 2 * PAGE})
    for _ in range(2):
        host.synchronize()
        found = host.engine.state.accounting.assignments["a"]
        assert [len(blocks) for blocks in found.values()] == [2, 1, 1]


def test_containers_share_the_pods_limit_from_the_first_that_has_no_limit(host: Host) -> None:
    pod = host.run("a", memory=100 * MI)
    add_running(host, pod, "one", 60 * MI)
    add_running(host, pod, "two", None)
    add_running(host, pod, "zero", 30 * MI)
    host.synchronize()
    assert memory_of(host) == {"one": 60 * MI, "two": 40 * MI, "zero": 0}


def test_a_container_of_the_same_name_does_not_count_twice(host: Host) -> None:
    """A runtime lists two containers of one name in one sandbox; the later one is recorded."""
    pod = host.run("a", memory=100 * MI)
    shared = add_running(host, pod, "one", None)
    host.containers["t"] = replace(shared, container_id="t", memory_limit_bytes=30 * MI)
    host.containers["u"] = replace(shared, container_id="u", name="two", memory_limit_bytes=80 * MI)
    host.containers["v"] = replace(host.containers["t"], container_id="v")
    host.synchronize()
    # The first `one` shares the limit and so has all of it; the others get what is left of it.
    assert memory_of(host) == {"one": 30 * MI, "two": 70 * MI}


def test_a_duplicate_of_another_sandbox_still_shares_the_pods_memory(host: Host) -> None:
    """It gets another name in the accounting, and stays the sign of pod-level resources."""
    later = host.run("a", sandbox="s2", memory=100 * MI, hugepages={PAGE: PAGE})
    add_running(host, later, "first", 20 * MI)
    add_running(host, later, "one", 50 * MI)
    host.synchronize()
    earlier = host.run("a", sandbox="s1", memory=100 * MI)
    add_running(host, earlier, "one", None)
    add_running(host, later, "third", 5 * MI)
    host.synchronize()
    sharing = {key[1]: holder.is_shared for key, holder in host.engine.state.holders.items()}
    assert sharing == {"s1-one": True, "first": False, "one": False, "third": True}
