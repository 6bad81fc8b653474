"""The simulated host: its machine, its disk, its state file."""

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from nri_numamem.engine.core.snapshot import snapshot
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.host.topology import read_machine
from nri_numamem.memorymanager import default_state
from nri_numamem.memorymanager.accounting import assign
from nri_numamem.numa import Machine, NodeSet, NumaNode
from tests.faults.host import (
    LifeHost,
    StateEntry,
    allocatable,
)
from tests.sequences.machine import GI, changed_machine, random_machine

SMALL = Machine((NumaNode(0, GI, {2 << 20: 16}),))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[LifeHost]:
    found = LifeHost(tmp_path / "host", SMALL)
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
        with closing(LifeHost(tmp_path / f"{number}", before)) as host:
            for machine in (before, changed):
                host.set_machine(machine)
                seen = read_machine(host.root / "sys", host.root / "proc")
                assert allocatable(seen, {}) == allocatable(machine, {})


def test_a_full_disk_takes_nothing_until_it_has_room(host: LifeHost) -> None:
    if not host.mounted:
        pytest.skip("nothing can be mounted here")
    host.fill([])
    with pytest.raises(OSError, match="No space left"):
        (host.disk / "file").write_bytes(bytes(100_000))
    host.free()
    (host.disk / "file").write_text("text")
    host.close()
    assert (host.disk / "file").read_text() == "text"


def test_the_state_file_is_read_unless_it_is_damaged(host: LifeHost) -> None:
    assert host.state_entries() == {}
    accounting = assign(default_state(SMALL, {}), "uid", "app", NodeSet([0]), {"memory": 5})
    holder = Holder("container", "sandbox", ("uid", "app"))
    state = EngineState(accounting, holders={holder.key: holder}, keys={"container": holder.key})
    entries = {("uid", "app"): StateEntry("0", 5, "sandbox")}
    written = snapshot(state)
    host.state_file.write_bytes(written.replace(b'"version":2', b'"version":3'))
    assert host.state_entries() == {}
    for seed in range(20):
        host.state_file.write_bytes(written)
        assert host.state_entries() == entries
        host.damage_state(random.Random(seed))
        assert host.state_entries() == {}
