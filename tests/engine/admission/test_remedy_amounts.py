"""Proposals for a refused request."""

from itertools import islice

from nri_numamem.engine.admission.remedy_amounts import Proposals
from nri_numamem.engine.core.candidates import Choice
from nri_numamem.engine.core.providers import OtherProviders
from nri_numamem.engine.features.memory_policies.even_group import EvenGroup
from nri_numamem.memorymanager import State
from nri_numamem.memorymanager.accounting import assign
from nri_numamem.numa import NodeSet
from tests.property.worlds import empty_state

GI = 1 << 30
MI = 1 << 20
PAGES = "hugepages-1Gi"


def proposals(state: State, request: dict[str, int], **choice: object) -> Proposals:
    found = Choice(state, "new", request, **choice)  # type: ignore[arg-type]
    return Proposals(found, {}, is_of_all=False)


def sets(found: Proposals) -> list[str]:
    return [str(nodes) for nodes in found.sets_to_empty()]


def used() -> State:
    """Return nodes of 8 GiB: 0 and 1 have assignments, 2-3 are a group, 4 is unassigned."""
    state = empty_state({n: {"memory": 8 * GI} for n in range(5)})
    state = assign(state, "a", "x", NodeSet([0]), {"memory": 6 * GI})
    state = assign(state, "b", "x", NodeSet([1]), {"memory": 4 * GI})
    return assign(state, "c", "x", NodeSet([2, 3]), {"memory": 9 * GI})


def test_single_nodes_by_what_they_lack() -> None:
    found = proposals(used(), {"memory": 7 * GI})
    assert sets(found) == ["4", "1", "0", "2", "0-4"]
    assert found.short(NodeSet([0])) == {"memory": 5 * GI}
    assert found.short(NodeSet([2, 3])) == {}
    assert found.is_usable(NodeSet([0]))
    assert not found.is_usable(NodeSet([0, 1]))
    assert found.is_usable(NodeSet([2, 3]))


def test_the_nodes_of_devices_come_first() -> None:
    others = OtherProviders((NodeSet([0]),))
    assert sets(proposals(used(), {"memory": 7 * GI}, others=others))[0] == "0"


def test_groups_and_new_groups() -> None:
    assert sets(proposals(used(), {"memory": 14 * GI})) == ["2-3", "1,4", "0-4"]
    # A group that is too small is no choice; neither is any set for more than the machine has.
    assert sets(proposals(used(), {"memory": 20 * GI})) == ["0-1,4", "0-4"]
    assert sets(proposals(used(), {"memory": 99 * GI})) == ["0-4"]


def test_a_pod_that_all_nodes_together_cannot_hold() -> None:
    choice = Choice(used(), "new", {"memory": GI})
    found = Proposals(choice, {"memory": GI // 2}, is_of_all=True)
    assert sets(found) == ["0", "1", "4", "2", "0-4"]
    assert next(found.smaller_requests()) == {"memory": GI // 2}


def test_smaller_requests() -> None:
    found = [*proposals(used(), {"memory": 9 * GI + 5}).smaller_requests()]
    assert [part["memory"] for part in found[:4]] == [8 * GI, 7 * GI, 4 * GI, 2 * GI]
    assert [part["memory"] // MI for part in found[4:]] == [4608, 2304, 1152, 576, 288, 144]
    tiny = [*proposals(empty_state({0: {"memory": 9}}), {"memory": 12}).smaller_requests()]
    assert tiny[0] == {"memory": 9}


def test_smaller_requests_for_two_resources() -> None:
    state = empty_state({0: {"memory": 8 * GI, PAGES: GI}, 1: {"memory": 2 * GI, PAGES: 4 * GI}})
    found = islice(proposals(state, {"memory": 9 * GI, PAGES: 5 * GI}).smaller_requests(), 2)
    assert [*found] == [
        {"memory": 2 * GI, PAGES: 4 * GI},
        {"memory": 8 * GI, PAGES: GI},
    ]
    lacking = proposals(empty_state({0: {"memory": 8 * GI, PAGES: 0}}), {"memory": GI, PAGES: GI})
    assert [part[PAGES] for part in lacking.smaller_requests()] == [GI] * 6


def test_an_even_group() -> None:
    found = proposals(used(), {"memory": 16 * GI}, chooser=EvenGroup(2))
    assert found.short(NodeSet([0, 4])) == {"memory": 6 * GI}
    assert sets(found)[0] == "2-3"
    parts = [part["memory"] for part in found.smaller_requests()]
    assert parts[0] == 14 * GI  # nodes 3 and 4, which the trial refuses
