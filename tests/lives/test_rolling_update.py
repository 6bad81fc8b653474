"""Twenty rolling updates in one life, while pods and containers come and go."""

import random
from pathlib import Path

from tests.faults.life import Life
from tests.faults.steps import any_step
from tests.faults.verdict import check, check_unpinned
from tests.lives.cgroups import HostCgroups
from tests.lives.faults import update_plugin
from tests.lives.play import virtual_parts
from tests.sequences.node_life import node_life
from tests.virtual.system import Machinery
from tests.virtual.world import World

UPDATES = 20

# A life with a state file, on a machine of four nodes.
SEED = 83


def test_the_accounting_is_right_after_each_update(tmp_path: Path) -> None:
    machinery = Machinery(World(), f"{SEED}")
    data = node_life(SEED)
    life = Life(data, virtual_parts(machinery, data, tmp_path / "host"))
    life.host.has_container_cgroups = True
    life.node.cgroups = HostCgroups(life.host)
    rng = random.Random(SEED)
    life.begin()
    for _ in range(UPDATES):
        assert update_plugin(machinery, life, rng)
        check(life)  # also that no container of a Guaranteed pod is unpinned without a reason
        check_unpinned(life)
        for _ in range(3):
            any_step(life)
            check(life)
    journal = life.plugin.journal
    assert [len(journal.named(event)) for event in ("standby", "taken_over")] == [UPDATES] * 2
    assert life.connections == UPDATES + 1
    assert len(journal.named("admitted")) > UPDATES
    assert journal.named("cpuset_mems_missing")  # containers that began between two instances
    life.close()
