"""Fields that several records share."""

import json

import pytest

from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.fields import (
    adjustment_shown,
    container_names,
    free_bytes,
    pod_names,
    provider_hints,
    remedy_shown,
)
from nri_numamem.engine.core.plan import Adjustment, HugepageRoute
from nri_numamem.engine.core.providers import NO_OTHER_PROVIDERS, OtherProviders
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.records.plain import fields_of, plain
from nri_numamem.memorymanager import Hint, default_state
from nri_numamem.memorymanager.remedy import Kind, Remedy
from nri_numamem.numa import Machine, NodeSet, NumaNode

GI = 1 << 30
POD = PodSandbox("s", "uid", "ns", "db", "/kubepods/poduid")


def test_a_container_is_named_with_its_pod() -> None:
    fields = fields_of(container_names(POD, Container("id", "s", "main", GI)))
    assert list(fields.items()) == [
        ("pod", "db"),
        ("namespace", "ns"),
        ("container", "main"),
        ("pod_uid", "uid"),
        ("container_id", "id"),
    ]
    assert fields_of(pod_names(POD)) == {"pod": "db", "namespace": "ns", "pod_uid": "uid"}


def test_free_bytes_per_node_and_resource() -> None:
    machine = Machine((NumaNode(0, GI, {2 << 20: 1}), NumaNode(12, 2 * GI)))
    state = EngineState(default_state(machine, {}))
    names = ["memory", "hugepages-2Mi"]
    found = free_bytes(state.accounting, names, NodeSet([0, 5, 12]))
    assert list(free_bytes(state.accounting, names, {12})) == [12]
    assert json.loads(json.dumps(found)) == {
        "0": {"memory": GI - (2 << 20), "hugepages-2Mi": 2 << 20},
        "12": {"memory": 2 * GI},
    }


def test_hints() -> None:
    assert plain(Hint(NodeSet([0, 1]), preferred=False)) == {
        "affinity": "0-1",
        "preferred": False,
    }
    assert plain(Hint(None, preferred=True)) == {"affinity": None, "preferred": True}
    others = OtherProviders((NodeSet([1]), NodeSet([0, 1])), NodeSet([0]))
    assert plain(provider_hints(others)) == {"cpu": "0", "devices": ["1", "0-1"]}
    assert plain(provider_hints(NO_OTHER_PROVIDERS)) == {}


@pytest.mark.parametrize(
    ("adjustment", "value"),
    [
        (Adjustment("0"), {"cpuset_mems": "0"}),
        (
            Adjustment("1", {2 << 20: 4 << 20}, HugepageRoute.LIMITS),
            {
                "cpuset_mems": "1",
                "hugepage_limits_bytes": {"hugepages-2Mi": 4 << 20},
                "hugepage_route": "limits",
            },
        ),
    ],
)
def test_adjustments(adjustment: Adjustment, value: dict[str, object]) -> None:
    assert plain(adjustment_shown(adjustment, NodeSet.parse(adjustment.cpuset_mems))) == value


def test_a_remedy_has_the_parameters_of_its_kind() -> None:
    ending = Remedy(Kind.END_PODS, pods={"u": "ns/a"})
    assert plain(remedy_shown(ending)) == {
        "kind": "end_pods",
        "text": "end ns/a",
        "pods": {"u": "ns/a"},
    }
    room = Remedy(Kind.MAKE_ROOM, NodeSet([1]), {"memory": 1024})
    assert plain(remedy_shown(room)) == {
        "kind": "make_room",
        "text": "make room on NUMA node 1: 1Ki",
        "nodes": "1",
        "bytes": {"memory": 1024},
    }
    setting = Remedy(Kind.CHANGE_SETTING, setting="s", values=("a", "b"))
    assert plain(remedy_shown(setting)) == {
        "kind": "change_setting",
        "text": "set s a or b",
        "setting": "s",
        "values": ["a", "b"],
    }
