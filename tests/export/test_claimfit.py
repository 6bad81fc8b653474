"""Where a claim could be allocated; tests/scheduler_allocator compares it with the scheduler."""

from typing import Any

import pytest

from nri_numamem.engine.engine import Engine
from nri_numamem.export.claimfit import ClaimFit, ClaimSpecError, fit_claim
from nri_numamem.export.claimtemplate import Needs, claim_spec
from nri_numamem.export.noderesourcetopology import Host
from nri_numamem.export.resourceslice import NUMA_NODE
from nri_numamem.memorymanager import State
from nri_numamem.memorymanager.claims import prepare
from tests.export.hosts import MI, create, new_engine

HUGE = "hugepages-2Mi"


def fit(spec: object, engine: Engine | None = None) -> ClaimFit:
    engine = engine or new_engine()
    return fit_claim(Host("worker", engine.context, engine.state), spec)


def needs(memory: int, nodes: int = 1, cpus: int = 0, hugepages: int = 0) -> dict[str, object]:
    amounts = {"memory": memory * MI, **({HUGE: hugepages * MI} if hugepages else {})}
    return claim_spec(Needs(amounts, cpus, nodes=nodes))


def spec_of(*requests: dict[str, Any], constraints: object = None) -> dict[str, object]:
    return {"devices": {"requests": [*requests], "constraints": constraints}}


def exactly(
    name: str, device_class: str, size: str | None = None, **more: object
) -> dict[str, Any]:
    capacity = {"capacity": {"requests": {"size": size}}} if size else {}
    return {"name": name, "exactly": {"deviceClassName": device_class, **capacity, **more}}


def test_the_node_with_room_gets_the_claim() -> None:
    engine = new_engine()
    create(engine, "a", 600 * MI, node=0)
    found = fit(needs(500, hugepages=4, cpus=2), engine)
    assert found.amounts == {1: {"memory": 500 * MI, HUGE: 4 * MI}}
    assert found.others == ("cpus",)
    room = [(d.resource, d.node_id) for o in found.options for d in found.devices if d.fits(o)]
    assert room == [("memory", 1), (HUGE, 0), (HUGE, 1)]


def test_no_node_has_room() -> None:
    found = fit(needs(2000))
    assert (found.chosen, found.amounts) == (None, {})


def test_one_node_must_have_everything() -> None:
    """Memory is free on node 1, hugepages on node 0 only."""
    engine = new_engine()
    create(engine, "a", 600 * MI, node=0)
    create(engine, "b", 1 * MI, pages=16, node=1)
    assert fit(needs(500), engine).amounts == {1: {"memory": 500 * MI}}
    assert fit(needs(500, hugepages=4), engine).chosen is None


def test_several_nodes_must_be_empty_and_different() -> None:
    engine = new_engine()
    found = fit(needs(600, nodes=2, cpus=2), engine)
    assert found.amounts == {n: {"memory": 300 * MI} for n in (0, 1)}
    assert [option.name for option, _ in found.chosen or ()] == ["mem-0/near", "mem-1/near"]
    assert fit(needs(600, nodes=2), engine).amounts == found.amounts
    create(engine, "a", 1 * MI, node=0)
    assert fit(needs(600, nodes=2), engine).chosen is None


def test_what_claims_hold_is_not_free() -> None:
    engine = new_engine()
    charged = prepare(engine.state.accounting, "other", {0: {"memory": 600 * MI}})
    assert isinstance(charged, State)
    state = engine.state.with_accounting(charged)
    found = fit_claim(Host("worker", engine.context, state), needs(500))
    assert found.amounts == {1: {"memory": 500 * MI}}


def test_requests_on_one_device_are_added() -> None:
    memory = [exactly(name, "dra.memory", "500Mi") for name in ("a", "b")]
    apart = fit(spec_of(*memory))
    assert apart.amounts == {0: {"memory": 500 * MI}, 1: {"memory": 500 * MI}}
    together = spec_of(*memory, constraints=[{"matchAttribute": NUMA_NODE}])
    assert fit(together).chosen is None
    small = [exactly(name, "dra.memory", "100Mi") for name in ("a", "b")]
    assert fit(spec_of(*small)).amounts == {0: {"memory": 200 * MI}}


def test_a_constraint_on_an_attribute_that_devices_lack_never_holds() -> None:
    missing = [{"requests": ["a"], "matchAttribute": "example.com/rack"}]
    assert fit(spec_of(exactly("a", "dra.memory", "1Mi"), constraints=missing)).chosen is None


def test_amounts_are_whole_pages_and_one_page_by_default() -> None:
    found = fit(spec_of(exactly("a", "dra.memory", "4097"), exactly("b", "dra.hugepages-2m")))
    assert [option.size_bytes for option in found.options] == [8192, 2 * MI]


def test_hugepages_that_the_host_lacks_are_not_of_another_driver() -> None:
    found = fit(spec_of(exactly("a", "dra.hugepages-1g", "1Gi")))
    assert (found.chosen, found.others) == (None, ())


def test_a_claim_of_other_drivers_has_nothing_to_evaluate() -> None:
    gpu = {"name": "gpu", "firstAvailable": [{"name": "x", "deviceClassName": "gpu.example.com"}]}
    found = fit(spec_of(gpu))
    assert (found.options, found.others, found.chosen) == ((), ("gpu",), ())


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ([], "spec: expected a mapping"),
        ({"devices": {"requests": {}}}, "requests: expected a list"),
        (spec_of(exactly("a", "dra.memory", "lots")), "a: 'lots' is not a quantity"),
        (spec_of(exactly("a", "dra.memory", count="x")), "a: invalid literal"),
        (
            spec_of(exactly("a", "dra.memory", allocationMode="All")),
            "a: selectors and the mode All",
        ),
        (spec_of(exactly("a", "dra.memory", selectors=[{}])), "a: selectors and the mode All"),
    ],
)
def test_what_cannot_be_evaluated(spec: object, problem: str) -> None:
    with pytest.raises(ClaimSpecError, match=problem):
        fit(spec)
