"""On which NUMA nodes the scheduler's allocator puts claims of `nri-numamem claim`."""

from pathlib import Path

import pytest

from nri_numamem.export.claimfit import fit_claim
from nri_numamem.export.claimtemplate import claim_spec
from tests.kubelet_managers.static_cpus import StaleRecordingError
from tests.scheduler_allocator.examples import (
    EXAMPLES,
    RECORDED,
    Devices,
    Example,
    host_of,
    recorded,
)
from tests.scheduler_allocator.play import number_of

pytestmark = pytest.mark.slow

# Title -> the NUMA node of each group, and the alternative of the memory.
EXPECTED: dict[str, tuple[list[int], str]] = {
    "everything on one node": ([0], ""),
    "everything on the node with room": ([1], ""),
    "a near pair of memory": ([2, 3], "near"),
    "memory that is not near": ([1, 3], "any"),
    "too few empty nodes for memory": ([], ""),
    "memory of eight nodes": ([0, 1, 2, 3, 4, 5, 6, 7], "any"),
    "a near pair with CPUs": ([2, 3], "near"),
    "a pair with CPUs that is not near": ([1, 3], "any"),
    "too few empty nodes for CPUs": ([], ""),
    "everything on two nodes": ([2, 3], "near"),
    "a device on one of two nodes": ([2, 3], "near"),
    "six groups": ([1, 2, 3, 5, 6, 7], "any"),
    "too few nodes for six groups": ([], ""),
    "everything on six nodes": ([0, 1, 2, 3, 4, 5], "any"),
}


def groups_of(example: Example, devices: Devices) -> tuple[list[int], str]:
    """Return the NUMA node of each group, and the alternative of all memory."""
    nodes: list[int] = []
    alternatives = {request.partition("/")[2] for request, _ in devices if "mem" in request}
    for request, device in devices:
        if request.startswith("mem"):
            nodes.append(number_of(device))
        else:
            assert number_of(device) == nodes[-1], (example, request)
    assert len(alternatives) <= 1
    return nodes, next(iter(alternatives), "")


def test_claims_are_on_the_expected_nodes() -> None:
    found = {each.title: groups_of(each, devices) for each, devices in recorded()}
    assert found == EXPECTED


def test_each_request_gets_its_devices() -> None:
    for example, devices in recorded():
        spec = claim_spec(example.needs)["devices"]
        assert isinstance(spec, dict)
        names = [request["name"] for request in spec["requests"]]
        given = [request.partition("/")[0] for request, _ in devices]
        if devices:
            assert list(dict.fromkeys(given)) == names
            assert len(devices) == example.needs.device_count


def test_simulate_finds_the_nodes_that_the_scheduler_chooses() -> None:
    for example, devices in recorded():
        found = fit_claim(host_of(example), claim_spec(example.needs))
        chosen = [[option.name, each.node_id] for option, each in found.chosen or ()]
        ours = [[name, number_of(device)] for name, device in devices if is_ours(device)]
        assert chosen == ours, example


def is_ours(device: str) -> bool:
    return device.startswith(("memory", "hugepages"))


def test_another_claim_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "examples.json"
    text = RECORDED.read_text()
    digest = text.split('"')[3]
    path.write_text(text.replace(digest, "0" * len(digest)))
    with pytest.raises(StaleRecordingError, match=f"{EXAMPLES[0].title} is another one: run"):
        list(recorded(path))
