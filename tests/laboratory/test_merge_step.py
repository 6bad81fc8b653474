"""The step `merge` and what it takes from settings and machine."""

from typing import Any

import pytest

from nri_numamem.config.values import SettingsError
from nri_numamem.memorymanager import Hint
from nri_numamem.numa import Distances, NodeSet, Preferences
from nri_numamem.topologymanager import Topology, TopologyPolicy
from tests.laboratory.merge_step import Merge, read_merge

TOPOLOGY = Topology(TopologyPolicy.RESTRICTED, Preferences(Distances.of_rows([[10, 30], [30, 10]])))


def merge_of(document: dict[str, Any], nodes: tuple[int, ...] = (0, 1)) -> Merge:
    return read_merge(("merge",), document, TOPOLOGY, NodeSet(nodes))


def test_omitted_fields_of_a_merge_come_from_machine_and_settings() -> None:
    assert merge_of({}) == Merge(TOPOLOGY, NodeSet([0, 1]), ())


def test_the_hints_of_a_merge() -> None:
    hint = {"affinity": [0], "preferred": True}
    step = merge_of({"providers": [{"cpu": [hint], "memory": None, "gpu": []}, None]})
    assert step.providers == (
        {"cpu": (Hint(NodeSet([0]), preferred=True),), "memory": None, "gpu": ()},
        None,
    )


def test_distances_by_id_or_by_place() -> None:
    by_id = merge_of({"numaNodes": [1, 2], "distances": [[10, 1, 2], [3, 10, 4], [5, 6, 10]]}, ())
    assert by_id.topology.preferences.distances.between(1, 2) == 4
    by_place = merge_of({"numaNodes": [2, 7], "distances": [[10, 12], [13, 10]]}, ())
    assert by_place.topology.preferences.distances.between(7, 2) == 13


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"policy": "best"}, "merge.policy: unknown value 'best'; allowed: best-effort"),
        ({"numaNodes": []}, "merge.numaNodes: no NUMA node"),
        ({"distances": [[1]]}, "merge.distances: 1 rows for the NUMA nodes 0-1; write one row"),
        (
            {"distances": [[1, 2], [1]]},
            "merge.distances[1]: 1 distances in a matrix of 2 rows",
        ),
        ({"providers": [5]}, "merge.providers[0]: 5 instead of a mapping"),
        ({"numaNodes": [1, 7]}, "merge.numaNodes: the machine has no NUMA node 7; its nodes"),
        (
            {"providers": [{"cpu": [{"affinity": [0, 2, 3]}]}]},
            "merge.providers[0].cpu[0].affinity: numaNodes lacks nodes 2-3; write ids from 0-1",
        ),
    ],
)
def test_an_invalid_merge(document: dict[str, Any], problem: str) -> None:
    with pytest.raises(SettingsError) as failed:
        merge_of(document)
    assert str(failed.value).startswith(problem)
