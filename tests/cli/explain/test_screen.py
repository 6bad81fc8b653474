"""The parts of the screen that the snapshots of test_explain do not have."""

import re
from pathlib import Path

import pytest

from nri_numamem.cli.explain.rebalancing import Plans
from nri_numamem.cli.explain.screen import LATER, show
from nri_numamem.cli.explain.select import Query
from nri_numamem.cli.explain.story import story_of
from nri_numamem.cli.render.screen import Screen, new_console
from nri_numamem.engine.admission import preset
from nri_numamem.engine.records.record import EVENTS, meanings_of
from nri_numamem.observe.history.records import Recorded
from tests.cli.explain.stories import recorded

GI = 1 << 30
NAMES = {"namespace": "ns", "pod": "p", "pod_uid": "u", "container": "c"}


CREATED = {"qos_class": "Guaranteed", "container_id": "i", "sandbox_id": "s"}


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


def shown(
    capsys: pytest.CaptureFixture[str], *entries: Recorded, skipped: int = 0, last: int = 1
) -> str:
    story = story_of(Query.parsed("p"), entries, last, skipped_lines=skipped)
    show(story, Plans(), Screen(new_console()), 100.0, Path("state"))
    return capsys.readouterr().out


def entry(time_s: float, event: str, **fields: object) -> Recorded:
    return recorded(time_s, event, "1-2", {**NAMES, **fields})


def test_a_resize(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(
        capsys,
        entry(1, "admitted"),
        entry(
            2,
            "resized",
            request_bytes={"memory": GI},
            previous_nodes="0",
            nodes="0-1",
            adjustment={"cpuset_mems": "0-1"},
            shortfall_bytes={"memory": GI},
            candidates=[
                {"nodes": "0", "rule": "not_enough_free", "reason": "not enough free"},
                {"nodes": "0-1", "rule": "chosen", "reason": "chosen"},
            ],
            free_bytes={"0": {"memory": 2 * GI}},
        ),
        last=2,
    )
    assert "before    node 0\n  nodes     0-1\n" in text
    assert "short     1Gi memory more than is allocatable there" in text
    assert re.search(r"\b0 +2Gi  not enough free\n", text)
    assert text.count("when  ") == 2


@pytest.mark.parametrize(
    ("event", "fields", "because"),
    [
        ("unpinned_no_capacity", {}, "whenUnsatisfiable is RunUnpinned"),
        ("request_timed_out", CREATED, "its creation took too long"),
        ("running_unpinned_no_capacity", {}, "it was created while the plugin was away"),
        (
            "cpuset_mems_missing",
            {"outcome": "unpinned", "cause": "it has devices"},
            "it has devices",
        ),
    ],
)
def test_why_a_container_runs_unpinned(
    capsys: pytest.CaptureFixture[str], event: str, fields: dict[str, str], because: str
) -> None:
    text = shown(capsys, entry(1, event, **fields))
    assert text.startswith("ns/p, container c: runs unpinned")
    assert f"because   {because}" in text


def test_a_confined_container_without_a_decision(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, entry(2, "confined", partition="web", nodes="2-3"))
    first, second, *_ = text.splitlines()
    assert first.startswith("ns/p: not managed ")
    assert second == "  later     1970-01-01 00:00:02 UTC  confined, partition web, nodes 2-3"


def test_a_confined_container_that_is_not_managed(capsys: pytest.CaptureFixture[str]) -> None:
    made = entry(1, "not_managed", cause="its pod is Burstable", qos_class="Burstable")
    text = shown(capsys, made, entry(1, "confined", partition="web", nodes="2-3"))
    assert "  because   its pod is Burstable\n" in text
    assert "\n  later     1970-01-01 00:00:01 UTC  confined, partition web, nodes 2-3\n" in text


def test_what_came_later_and_damaged_lines(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(
        capsys,
        entry(1, "admitted", merged_hint={"affinity": None, "preferred": False}),
        entry(2, "container_ended"),
        entry(3, "burstable_pinned", evidence="limits", nodes="1"),
        skipped=2,
    )
    assert "merged    any nodes, not preferred" in text
    assert "later     1970-01-01 00:00:02 UTC  container ended" in text
    assert "burstable pinned, nodes 1" in text
    assert "2 damaged lines of the history were skipped" in text


def test_where_the_memory_is_after_a_change_of_cpuset_mems(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = shown(
        capsys,
        entry(1, "admitted"),
        entry(
            2,
            "cpuset_mems_missing",
            nodes="0",
            outcome="repair_deferred",
            resident_bytes={"0": GI, "1": 3 * GI},
            remote_bytes={"1": 3 * GI},
        ),
        entry(3, "cpuset_mems_restored", nodes="0", resident_bytes={"0": 4 * GI}, remote_bytes={}),
    )
    text = " ".join(text.split())
    missing = (
        "cpuset mems missing, nodes 0, outcome repair_deferred, memory 1Gi on node 0 and 3Gi on"
    )
    assert f"{missing} node 1, remote 3Gi on node 1 " in text
    assert text.endswith("cpuset mems restored, nodes 0, memory 4Gi on node 0")


def test_candidates_that_are_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    candidates = [{"nodes": "0", "rule": "later", "reason": "is too hot"}]
    text = shown(capsys, entry(1, "rejected", candidates=candidates, omitted_candidates=3))
    assert "is too hot" in text
    assert "3 more" in text


def test_fields_of_later_events_exist() -> None:
    names = {name for kind in EVENTS.values() for name in meanings_of(kind)}
    assert set(LATER) <= names


def test_hints_and_the_whole_pod(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(
        capsys,
        entry(
            1,
            "rejected",
            request_bytes={"memory": GI},
            pod_request_bytes={"memory": 90 * GI},
            hints={
                "memory": [],
                "cpu": "0",
                "devices": ["0-1", "1"],
                "network": {"eth1": "2", "eth2": "2-3"},
            },
            policy="restricted",
            reason="TopologyAffinityError",
        ),
    )
    assert "request   90Gi memory for the whole pod" in text
    others = " ".join(text.partition("others ")[2].partition("policy ")[0].split())
    assert others == (
        "cpu on node 0, devices on nodes 0-1 and node 1, network interface eth1 on node 2, "
        "network interface eth2 on nodes 2-3"
    )
    assert "policy    topologyManagerPolicy restricted; TopologyAffinityError" in text


def test_a_pod_that_nothing_placed(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, entry(1, "container_ended"), entry(2, "container_ended", pod_uid="v"))
    assert "no decision in the history" in text
    assert "Earlier pods with this name: 1. To see the newest of them, give its UID: u" in text


def test_other_classes_are_not_managed(capsys: pytest.CaptureFixture[str]) -> None:
    cause = "memoryManagerPolicy is None"
    text = shown(capsys, entry(1, "not_managed", qos_class="Guaranteed", cause=cause))
    assert "because   memoryManagerPolicy is None\n            container c\n" in text


def test_a_moment_without_a_plugin_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Between a start and its Synchronize."""
    for until_s, is_shown in ((10.5, False), (12.0, True)):
        entries = (recorded(10.0, "machine"), recorded(until_s, "synchronized"))
        assert ("away " in shown(capsys, *entries)) is is_shown


def test_a_memory_policy(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = {"policy": "interleave", "source": "annotation"}
    text = shown(
        capsys,
        entry(1, "admitted", nodes="0-1"),
        entry(1, "memory_policy_set", **chosen, nodes="0-1"),
    )
    assert "p, container c: placed" in text
    assert "memory policy set, policy interleave, source annotation, nodes 0-1" in text


def test_cpus_that_follow_memory(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(
        capsys,
        entry(1, "admitted", nodes="0-1"),
        entry(1, "cpus_set", nodes="0-1", cpus="0-7"),
        entry(2, "cpus_not_set", nodes="0-1", cause="9 CPUs are requested"),
    )
    assert "p, container c: placed" in text
    assert "cpus set, nodes 0-1, cpus 0-7" in text
    assert "cpus not set, nodes 0-1, cause 9 CPUs are requested" in text


def test_a_memory_policy_of_a_container_that_is_not_managed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = shown(
        capsys,
        entry(1, "not_managed", cause="its pod is Burstable"),
        entry(1, "memory_policy_ignored", policy="bind", source="default", cause="it is old"),
    )
    assert "p: not managed" in text
    assert "memory policy ignored, policy bind, source default, cause it is old" in text


def test_a_memory_policy_that_cannot_be_set(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(
        capsys,
        entry(1, "memory_policy_rejected", policy="bnd", source="annotation", cause="no such"),
    )
    assert "p, container c: refused" in text
    assert "because   no such\n" in text
    assert "policy    memory policy bnd, by annotation\n" in text
    assert "remedy    correct the annotation or the setting memoryPolicy\n" in text


def test_containers_of_burstable_pods(capsys: pytest.CaptureFixture[str]) -> None:
    pinned = (
        entry(1, "admitted", nodes="2"),
        entry(2, "burstable_pinned", nodes="2", evidence="annotation"),
    )
    text = shown(capsys, *pinned)
    assert "p, container c: placed" in text
    assert "burstable pinned" in text
    for event in ("burstable_not_pinned", "burstable_unpinned"):
        text = shown(capsys, *pinned, entry(3, event, cause="no room", nodes="0-3"))
        assert "p, container c: runs unpinned" in text
        assert "because   no room\n" in text
        assert "remedy    restart the pod when the cause is gone" in text


def test_a_placement_shows_its_strategy(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, entry(1, "admitted", nodes="2", strategy="spread", equal_nodes=["0", "2"]))
    why = "by placementStrategy: most free memory of the equal nodes 0, 2"
    assert f"strategy  spread, {why}" in text


def test_nodes_that_something_else_set_before(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, entry(1, "adopted", nodes="2", cause=preset.CAUSE))
    assert "because   its cpuset.mems was set before, by the kubelet's Memory Manager or" in text
    assert "remedy    only one may set it: memoryManagerPolicy None for the kubelet, or no" in text
    assert "remedy" not in shown(capsys, entry(1, "adopted", nodes="2"))


def test_nodes_that_something_else_set_later(capsys: pytest.CaptureFixture[str]) -> None:
    pages = {"resident_bytes": {"0": 64 << 20, "1": 3 << 20}, "remote_bytes": {"0": 64 << 20}}
    conflict = entry(2, "cpuset_mems_conflict", previous_nodes="0", nodes="1", **pages)
    text = shown(capsys, entry(1, "admitted", nodes="0"), conflict)
    assert "because   its cpuset.mems was set later, by the kubelet's Memory Manager" in text
    assert "before    node 0\n  nodes     1\n" in text
    assert "pages     memory 64Mi on node 0 and 3Mi on node 1, remote 64Mi on node 0\n" in text
    assert "remedy    only one may set it" in text


def test_a_plugin_that_waits_for_the_runtime(capsys: pytest.CaptureFixture[str]) -> None:
    entries = (entry(1, "admitted"), entry(50, "disconnected"))
    assert "The plugin waits for the runtime since 1970-01-01 00:00:50 UTC, 50 s ago" in shown(
        capsys, *entries
    )
