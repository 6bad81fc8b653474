"""The simulated host: its machine, its disk, its state file."""

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from nri_numamem.engine.snapshot import snapshot
from nri_numamem.engine.state import EngineState, Holder
from nri_numamem.machine.topology import read_machine
from nri_numamem.memorymanager import Machine, NodeSet, NumaNode, default_state
from nri_numamem.memorymanager.books import assign
from tests.faults.ground import GI, Ground, Kept, allocatable, changed_machine, random_machine

SMALL = Machine((NumaNode(0, GI, {2 << 20: 16}),))


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    found = Ground(tmp_path / "host", SMALL)
    yield found
    found.close()  # what is mounted would be in everybody's way


def test_the_kernel_shows_the_machine_and_its_changes(tmp_path: Path) -> None:
    rng = random.Random(1)
    for number in range(20):
        before = random_machine(rng)
        changed, what = changed_machine(rng, before)
        assert what
        assert changed != before
        # Whatever is reserved in a life fits.
        assert min(allocatable(changed, {n.node_id: GI // 2 for n in changed.nodes}).values()) >= 0
        with closing(Ground(tmp_path / f"{number}", before)) as ground:
            for machine in (before, changed):
                ground.set_machine(machine)
                seen = read_machine(ground.root / "sys", ground.root / "proc")
                assert allocatable(seen, {}) == allocatable(machine, {})


def test_a_full_disk_takes_nothing_until_it_has_room(ground: Ground) -> None:
    if not ground.mounted:
        pytest.skip("nothing can be mounted here")
    ground.fill([])
    with pytest.raises(OSError, match="No space left"):
        (ground.disk / "file").write_bytes(bytes(100_000))
    ground.free()
    (ground.disk / "file").write_text("kept")
    ground.close()
    assert (ground.disk / "file").read_text() == "kept"


def test_the_state_file_is_read_unless_it_is_damaged(ground: Ground) -> None:
    assert ground.kept() == {}
    books = assign(default_state(SMALL, {}), "uid", "app", NodeSet([0]), {"memory": 5})
    holder = Holder("container", "sandbox", ("uid", "app"))
    state = EngineState(books, holders={holder.key: holder}, keys={"container": holder.key})
    kept = {("uid", "app"): Kept("0", 5)}
    for seed in range(20):
        ground.state_file.write_bytes(snapshot(state))
        assert ground.kept() == kept
        ground.damage_state(random.Random(seed))
        assert ground.kept() == {}
