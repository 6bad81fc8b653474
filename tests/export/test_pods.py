"""The pods that count for the fingerprint."""

from dataclasses import replace

from nri_numamem.engine.core.policy import Policy
from nri_numamem.export.pods import CountedPods, counted_pods
from tests.export.hosts import MI, SINGLE, create, new_engine

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
