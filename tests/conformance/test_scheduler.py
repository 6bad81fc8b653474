"""The export's objects, decoded by the scheduler plugin's own types; its fingerprint is checked."""

import copy
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from nri_numamem.export.amounts import CpuUse
from nri_numamem.export.noderesourcetopology import Host, noderesourcetopology
from nri_numamem.numa import CpuSet
from tests.conformance.scheduler_check import Case, check, schema, violations
from tests.engine.conftest import MI, NewHost
from tests.engine.conftest import new_host as new_host  # noqa: PLC0414 - a fixture
from tests.export.hosts import SINGLE, create, new_engine
from tests.sequences.on_engine import life_on

# The first build downloads modules.
pytestmark = pytest.mark.timeout(900)

_CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789-."


def a_host() -> Host:
    engine = new_engine()
    create(engine, "a", 300 * MI, pages=2, node=0)
    return Host("w", engine.context, engine.state, None, CpuUse({"c-a": 1500}, CpuSet([0])))


def random_pods(random: Random) -> list[tuple[str, str]]:
    def word() -> str:
        return "".join(random.choices(_CHARACTERS, k=random.randrange(1, 80)))

    return [(word(), word()) for _ in range(random.choice((0, 1, 2, 7, 40)))]


def test_random_hosts(new_host: NewHost) -> None:
    new_host.groups_may_mix = True
    cases: list[Case] = []
    for seed in range(12):
        random = Random(seed)
        policy = replace(
            SINGLE, topology_manager_policy=random.choice(["restricted", "single-numa-node"])
        )
        life = life_on(new_host(policy), seed)
        for _ in range(40):
            life.step()
            host = life.host
            requests = {name: random.randrange(3000) for name in host.engine.state.keys}
            exclusive = random.choice([None, CpuSet(random.sample(range(16), 5))])
            use = CpuUse(requests, CpuSet(random.sample(range(16), 2)), exclusive)
            pods = random.choice([None, random_pods(random)])
            names = None if pods is None else frozenset(pods)
            shown = Host("worker", host.engine.context, host.engine.state, None, use, names)
            cases.append((noderesourcetopology(shown), pods))
    assert set(check(cases)) == {"ok"}
    of_crd = schema()
    assert [line for document, _ in cases for line in violations(of_crd, document)] == []


def test_wrong_objects_are_noticed() -> None:
    right: Any = noderesourcetopology(a_host())
    unknown, named, more, kind = (copy.deepcopy(right) for _ in range(4))
    unknown["zones"][0]["tier"] = "dram"
    named["zones"][1]["name"] = "numa-1"
    more["zones"][0]["resources"][1]["available"] = "999Ti"
    kind["apiVersion"] = "topology.node.k8s.io/v1alpha1"
    signed = noderesourcetopology(replace(a_host(), pods=frozenset({("a", "b")})))
    cases: list[Case] = [(each, None) for each in (right, unknown, named, more, kind)]
    cases += [(right, []), (signed, [("b", "a")]), (signed, [("a", "b")])]
    assert [line == "ok" for line in check(cases)] == [True, *[False] * 6, True]


def test_the_schema_is_checked() -> None:
    of_crd, document = schema(), noderesourcetopology(a_host())
    wrong: Any = copy.deepcopy(document)
    wrong["zones"][0]["resources"][0] = {"name": "cpu", "capacity": "x", "allocatable": "1"}
    wrong["zones"][1]["costs"][0]["value"] = "10"
    wrong["more"] = []
    assert list(violations(of_crd, document)) == []
    assert list(violations(of_crd, wrong)) == [
        ".zones[0].resources[0].available is missing",
        ".zones[0].resources[0].capacity: 'x'",
        ".zones[1].costs[0].value: '10' is no integer",
        ".more is unknown",
    ]
