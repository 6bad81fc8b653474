"""The pods that count for the fingerprint."""

from dataclasses import replace

import pytest

from nri_numamem.engine.core.events import Container, CreateContainer, RunPodSandbox
from nri_numamem.engine.core.policy import Policy
from nri_numamem.export.pods import (
    CountedPods,
    allocatable_memory,
    counted_pods,
    fingerprint,
    host_memory,
    unnamed_pods,
    xxh64,
)
from nri_numamem.kubelet.host_resources import MemoryEntry
from tests.export.hosts import MI, PAGE, SINGLE, allocatable, create, new_engine, pod_of

NAMES = {uid: ("ns", f"pod-{uid}") for uid in "abcd"}


def test_guaranteed_pods_count_when_the_plugin_has_placed_them() -> None:
    engine = new_engine()
    create(engine, "a", 100 * MI)
    found = counted_pods(["a", "b"], ["c"], NAMES, engine.state)
    assert found == CountedPods(frozenset({("ns", "pod-a"), ("ns", "pod-c")}))


def test_guaranteed_pods_that_run_unpinned_count() -> None:
    engine = new_engine(replace(SINGLE, when_unsatisfiable="RunUnpinned"))
    create(engine, "a", 5000 * MI)
    assert not engine.state.holders
    found = counted_pods(["a", "b"], [], NAMES, engine.state)
    assert found.names == {("ns", "pod-a")}


def test_a_pod_that_waits_for_its_volumes_has_no_name_and_does_not_count() -> None:
    found = counted_pods(["y"], ["z", "c"], NAMES, new_engine(Policy()).state)
    assert found == CountedPods(frozenset({("ns", "pod-c")}))


def test_a_pod_that_was_placed_must_have_a_name() -> None:
    engine = new_engine()
    create(engine, "a", 100 * MI)
    names = {"c": NAMES["c"]}
    found = counted_pods(["a"], ["c", "z"], names, engine.state)
    assert found == CountedPods(frozenset({("ns", "pod-c")}), ("a",))


def test_without_any_name() -> None:
    found = counted_pods([], ["z", "c", "y"], {}, new_engine(Policy()).state)
    assert found == CountedPods(frozenset(), ("c", "y", "z"))


def test_pods_whose_cgroup_is_gone_do_not_count() -> None:
    engine = new_engine()
    create(engine, "a", 100 * MI)
    assert counted_pods([], [], NAMES, engine.state) == CountedPods(frozenset())


BEST_EFFORT = replace(SINGLE, topology_manager_policy="best-effort")
A, B = ("ns", "pod-a"), ("ns", "pod-b")
PAGES = "hugepages-2Mi"


def test_each_container_has_its_memory_and_hugepages_by_node() -> None:
    engine = new_engine()
    create(engine, "a", 300 * MI, pages=2, node=1)
    create(engine, "b", 100 * MI, node=0)
    assert host_memory(engine.state, {"a": A, "b": B}) == {
        A: {"main": (MemoryEntry("memory", 1, 300 * MI), MemoryEntry(PAGES, 1, 2 * PAGE))},
        B: {"main": (MemoryEntry("memory", 0, 100 * MI),)},
    }


def test_a_group_has_the_bytes_of_each_node() -> None:
    engine = new_engine(BEST_EFFORT)
    create(engine, "a", 1200 * MI, pages=1)
    assert host_memory(engine.state, {"a": A})[A]["main"] == (
        MemoryEntry("memory", 0, allocatable()),
        MemoryEntry("memory", 1, 1200 * MI - allocatable()),
        MemoryEntry(PAGES, 0, PAGE),
        MemoryEntry(PAGES, 1, 0),
    )


def test_two_pods_of_one_name_count_together() -> None:
    engine = new_engine()
    create(engine, "old", 100 * MI, node=0)
    create(engine, "new", 200 * MI, node=0)
    found = host_memory(engine.state, {"old": A, "new": A})
    assert found == {A: {"main": (MemoryEntry("memory", 0, 300 * MI),)}}


def test_a_pod_without_a_name_is_left_out_and_listed() -> None:
    engine = new_engine()
    for uid in ("c", "a", "b"):
        create(engine, uid, 100 * MI, node=0)
    assert list(host_memory(engine.state, {"b": B})) == [B]
    assert unnamed_pods(engine.state, {"b": B, "x": A}) == ("a", "c")


def test_memory_that_is_kept_for_a_pod_belongs_to_the_pod_as_a_whole() -> None:
    engine = new_engine(replace(SINGLE, topology_manager_scope="pod"))
    pod = pod_of("a", 300 * MI)
    engine.apply(RunPodSandbox(pod))
    container = Container("c", pod.sandbox_id, "main", 100 * MI)
    engine.apply(CreateContainer(pod, container))
    found = host_memory(engine.state, {"a": A})[A]
    assert [entry.size_bytes for entry in found["main"]] == [100 * MI]
    assert [entry.size_bytes for entry in found[""]] == [300 * MI]


def test_allocatable_memory_is_that_of_unused_nodes() -> None:
    engine = new_engine()
    before = allocatable_memory(engine.state.accounting)
    assert before == (
        MemoryEntry("memory", 0, allocatable()),
        MemoryEntry(PAGES, 0, 16 * PAGE),
        MemoryEntry("memory", 1, allocatable()),
        MemoryEntry(PAGES, 1, 16 * PAGE),
    )
    create(engine, "a", 300 * MI, node=1)
    assert allocatable_memory(engine.state.accounting) == before


def test_a_node_that_pods_may_not_use_is_not_listed() -> None:
    reserved = {"memory": 1024 * MI - 16 * PAGE}
    first = replace(SINGLE.reserved_memory[0], limits=reserved)
    policy = replace(SINGLE, reserved_memory=(first, *SINGLE.reserved_memory[1:]))
    found = allocatable_memory(new_engine(policy).state.accounting)
    assert [(entry.resource, entry.node_id) for entry in found] == [
        (PAGES, 0), ("memory", 1), (PAGES, 1),
    ]  # fmt: skip


_LONG_NAMESPACE = "monitoring-stack-of-the-whole-cluster"
_LONG_NAME = "prometheus-kube-prometheus-stack-prometheus-node-exporter-0"
_DNS = ("kube-system", "coredns-66bff467f8-2xk7p")

# Printed by a Go program with NewFingerprint, Add and Sign of podfingerprint v0.2.2.
OF_GO = [
    ([], "pfp0v001ef46db3751d8e999"),
    ([("default", "a")], "pfp0v00173ac1f6debaedf3d"),
    ([_DNS, ("default", "web-0")], "pfp0v001b924d57d312689e8"),
    (
        [_DNS, ("default", "web-0"), (_LONG_NAMESPACE, _LONG_NAME), ("shop", "db-0")],
        "pfp0v0019b0740728648a988",
    ),
]


@pytest.mark.parametrize(("pods", "signature"), OF_GO)
def test_as_the_scheduler_computes_it(pods: list[tuple[str, str]], signature: str) -> None:
    assert fingerprint(pods) == signature
    assert fingerprint(reversed([*pods, *pods])) == signature


def test_each_pod_counts() -> None:
    pods = {("a", "b"), ("b", "a"), ("a", "bb"), ("aa", "b"), ("", "ab")}
    assert len({fingerprint(pods - {pod}) for pod in pods}) == len(pods)


# Sanity checks of the reference implementation: the bytes are those of its generator.
def _reference_bytes(length: int) -> bytes:
    generator, data = 2654435761, bytearray()
    for _ in range(length):
        data.append(generator >> 56)
        generator = generator * 11400714785074694797 % 2**64
    return bytes(data)


@pytest.mark.parametrize(
    ("length", "seed", "value"),
    [
        (0, 0, 0xEF46DB3751D8E999),
        (0, 2654435761, 0xAC75FDA2929B17EF),
        (1, 0, 0xE934A84ADB052768),
        (1, 2654435761, 0x5014607643A9B4C3),
        (4, 0, 0x9136A0DCA57457EE),
        (14, 0, 0x8282DCC4994E35C8),
        (14, 2654435761, 0xC3BD6BF63DEB6DF0),
        (222, 0, 0xB641AE8CB691C174),
        (222, 2654435761, 0x20CB8AB7AE10C14A),
    ],
)
def test_xxh64(length: int, seed: int, value: int) -> None:
    assert xxh64(_reference_bytes(length), seed) == value
