"""The scheduler's allocator with the plugin's slices, beside the kubelet's managers."""

import json
import lzma
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.kubelet_managers.cpu_lives import GI, SHAPES
from tests.kubelet_managers.static_cpus import StaleRecordingError
from tests.scheduler_allocator.compare import HEADER, KUBELET, Life, figures, rows
from tests.scheduler_allocator.play import Order, Outcome, Outcomes
from tests.scheduler_allocator.recording import ALL_SHAPES, LIVES, RECORDED, recorded

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[2] / "docs" / "claims.md"


@pytest.fixture(scope="module")
def lives() -> list[Life]:
    return list(recorded())


def nodes_of(outcomes: Outcomes) -> Mapping[str, list[int] | None]:
    return {name: None if each is None else [*each.memory_nodes] for name, each in outcomes.items()}


def test_by_node_ids_the_scheduler_decides_as_the_kubelet(lives: list[Life]) -> None:
    """Each pod is admitted on the same node, or refused by both."""
    assert len(lives) == len(ALL_SHAPES) * LIVES
    for life, kubelet, outcomes in lives[: len(SHAPES) * LIVES]:
        expected = {name: None if isinstance(e, str) else e for name, e in kubelet.items()}
        assert nodes_of(outcomes[Order.NODE_IDS]) == expected, life


def test_cpus_and_memory_are_on_one_node(lives: list[Life]) -> None:
    for _, _, outcomes in lives:
        for each in outcomes.values():
            admitted = [found for found in each.values() if found is not None]
            assert admitted
            assert all(found.memory_nodes == found.cpu_nodes for found in admitted)


def test_claims_of_two_nodes_get_two_empty_nodes(lives: list[Life]) -> None:
    """``play`` checks that no NUMA node of a group has another claim."""
    on_two, near, refused = 0, 0, 0
    for life, _, outcomes in lives[len(SHAPES) * LIVES :]:
        big = {step.starts.name for step in life.steps if step.starts.memory_bytes == 80 * GI}
        for each in outcomes.values():
            for name, found in each.items():
                if found is not None:
                    assert len(set(found.memory_nodes)) == 1 + (name in big)
                on_two += name in big and found is not None
                near += name in big and found is not None and _is_pair(found)
                refused += name in big and found is None
    assert on_two > 500
    assert 0.95 < near / on_two < 1  # the others found no empty pair
    assert refused > 500


def _is_pair(found: Outcome) -> bool:
    """Return whether two NUMA nodes are those of one socket."""
    first, second = found.memory_nodes
    return first ^ 1 == second


def test_the_fullest_node_first_uses_more_memory(lives: list[Life]) -> None:
    found = figures(lives)
    for shape, nodes, name in found:
        if name == KUBELET:
            kubelet, fullest = (
                sum(memory for memory, _ in found[shape, nodes, each].use)
                for each in (KUBELET, Order.FULLEST_FIRST.value)
            )
            assert fullest > kubelet, (shape, nodes)


def test_the_table_of_the_page(lives: list[Life]) -> None:
    page = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.read_text().split("\n")
    ]
    for row in (HEADER, *rows(figures(lives))):
        assert [*row] in page


def changed(path: Path, number: int, old: str, new: str) -> Path:
    """Write the recording with another text in a line."""
    with lzma.open(RECORDED, "rt") as text:
        lines = text.read().splitlines()
    assert old in lines[number]
    lines[number] = lines[number].replace(old, new, 1)
    path.write_bytes(lzma.compress("\n".join(lines).encode(), preset=0))
    return path


def test_a_falsified_answer_is_refused(tmp_path: Path) -> None:
    def text_of(value: object) -> str:
        return json.dumps(value, separators=(",", ":"))

    with lzma.open(RECORDED, "rt") as text:
        name, found = next(iter(json.loads(text.read().splitlines()[1])[2]["node ids"].items()))
    old, new = text_of({name: found})[1:-1], text_of({name: found[::-1]})[1:-1]
    with pytest.raises(StaleRecordingError, match="life 0 is another one"):
        list(recorded(changed(tmp_path / "falsified.xz", 1, old, new)))


def test_another_version_is_refused(tmp_path: Path) -> None:
    path = changed(tmp_path / "older.xz", 0, '"allocator": "v', '"allocator": "v0.')
    with pytest.raises(StaleRecordingError, match=r"is not the version of go\.mod"):
        list(recorded(path))
