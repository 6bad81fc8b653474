"""What the entries of a pod mean."""

from pathlib import Path

from nri_numamem.cli.decisions.outcomes import Outcome
from nri_numamem.cli.explain.select import Query
from nri_numamem.cli.explain.story import (
    Away,
    ContainerStory,
    Story,
    story_of,
)
from nri_numamem.engine.core import events
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.features.partitions.records import Confined
from nri_numamem.numa import NodeSet, Partition
from nri_numamem.observe.history.records import Recorded
from tests.cli.explain.stories import GI, Past, read, recorded

NAMES = {"namespace": "ns", "pod": "p", "pod_uid": "u", "container": "c"}


def entry(time_s: float, event: str, **fields: object) -> Recorded:
    return recorded(time_s, event, "", {**NAMES, **fields})


def story(*entries: Recorded, last: int = 1, query: str = "p") -> Story:
    return story_of(Query.parsed(query), entries, last)


def only(found: Story) -> ContainerStory:
    (container,) = found.containers
    return container


def told(past: Past, query: str) -> Story:
    """Return the story in a real history."""
    return story_of(Query.parsed(query), read(past.state_file), 1)


def test_refusals_in_a_row_are_counted_with_those_that_were_left_out() -> None:
    found = only(
        story(
            entry(1, "rejected"),
            entry(2, "admitted"),
            entry(3, "rejected"),
            entry(4, "rejected", repeat_count=5),
            last=2,
        )
    )
    assert found.refusals is not None
    assert (found.refusals.count, found.refusals.first_s, found.refusals.last_s) == (7, 3, 4)
    assert [one.time_s for one in found.decisions] == [4, 3]


def test_a_placed_container_has_no_refusals_and_what_came_later() -> None:
    found = only(
        story(
            entry(1, "rejected"),
            entry(2, "admitted"),
            entry(3, "container_ended"),
            entry(4, "container_ended", container="other"),
            entry(5, "pod_released", container=""),
            query="p/c",
        )
    )
    assert (found.outcome, found.refusals) == (Outcome.PLACED, None)
    assert [one.record.event for one in found.later] == ["container_ended", "pod_released"]


def test_events_without_a_decision_are_unknown() -> None:
    found = only(story(entry(1, "container_ended")))
    assert (found.outcome, found.decisions) == (Outcome.UNKNOWN, ())


def test_the_newest_of_several_pods_with_a_name() -> None:
    found = story(
        entry(1, "admitted", pod_uid="b"),
        entry(3, "admitted", pod_uid="a"),
        entry(2, "admitted", pod_uid="c"),
    )
    assert only(found).names.pod_uid == "a"
    assert found.earlier_uids == ["c", "b"]


def test_times_without_a_plugin() -> None:
    found = story(
        recorded(1, "machine"),
        recorded(2, "synchronized"),
        recorded(3, "disconnected"),
        recorded(4, "synchronized"),
        recorded(5, "stopped"),
        recorded(6, "machine"),
        recorded(7, "synchronized"),
        recorded(8, "admitted"),
        recorded(20, "machine"),
        recorded(21, "synchronized"),
        recorded(22, "restarting_after_crash"),
    )
    assert list(found.away) == [
        Away(1, 2, "the plugin started"),
        Away(3, 4, "the runtime closed the connection"),
        Away(5, 7, "the plugin stopped"),
        Away(8, 21, "the plugin ended without a record"),
        Away(22, None, "the plugin crashed"),
    ]


def test_a_crash_is_dated_by_the_end_of_the_process() -> None:
    found = story(
        recorded(1, "synchronized"),
        recorded(26, "restarting_after_crash", fields={"away_ms": 1500}),
        recorded(27, "machine"),
        recorded(28, "synchronized"),
        recorded(39, "restarting_after_disconnect", fields={"away_ms": 60_000}),
    )
    assert list(found.away) == [
        Away(24.5, 28, "the plugin crashed"),
        Away(-21, None, "the runtime closed the connection"),
    ]


def test_an_empty_history() -> None:
    found = story()
    assert (found.containers, found.begins_s, found.ends_s, found.away) == ([], None, None, [])


def test_a_container_that_a_lenient_policy_runs_unpinned(tmp_path: Path) -> None:
    past = Past(tmp_path / "s", Policy(when_unsatisfiable="RunUnpinned"))
    past.begin()
    past.create(past.pod("ns/large"), "main", 400)
    found = only(told(past, "ns/large"))
    assert (found.outcome, found.decisions[0].record.event) == (
        Outcome.UNPINNED,
        "unpinned_no_capacity",
    )
    assert found.advice.texts == ("request at most 229276Mi",)


def test_a_pod_that_is_placed_as_a_whole(tmp_path: Path) -> None:
    policy = Policy(topology_manager_scope="pod", topology_manager_policy="restricted")
    past = Past(tmp_path / "s", policy)
    past.begin()
    pod = past.pod("ns/whole", memory_limit_bytes=40 * GI)
    past.create(pod, "main", 30)
    found = told(past, "ns/whole")
    shown = {one.names.container: one.outcome for one in found.containers}
    assert shown == {"": Outcome.PLACED, "main": Outcome.PLACED}
    past.handle(events.StopPodSandbox(pod))
    assert only(told(past, "ns/whole/main")).later[-1].record.event == "pod_released"


def test_containers_that_a_partition_confines(tmp_path: Path) -> None:
    web = Partition("web", NodeSet([2, 3]), namespaces=("web",), confine=True)
    past = Past(tmp_path / "s", Policy(partitions=(web,)))
    past.begin()
    past.create(past.pod("web/job", "besteffort/"), "main")
    past.create(past.pod("web/front", "burstable/", memory_limit_bytes=GI), "main", 1)
    past.create(past.pod("db/job", "besteffort/"), "main")
    for pod, decisions in (("job", []), ("front", ["not_managed"])):
        found = only(told(past, f"web/{pod}"))
        assert found.outcome is Outcome.NOT_MANAGED
        assert [one.record.event for one in found.decisions] == decisions
        (confined,) = (one.record for one in found.later)
        assert isinstance(confined, Confined)
        assert (confined.partition, confined.nodes) == ("web", NodeSet([2, 3]))
    assert told(past, "db/job").containers == []
