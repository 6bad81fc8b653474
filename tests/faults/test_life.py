"""What a life expects of a plugin that starts anew."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nri_numamem.engine.core.snapshot import snapshot
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.memorymanager import QosClass, default_state
from nri_numamem.memorymanager.accounting import assign
from nri_numamem.numa import NodeSet
from tests.faults.life import Life
from tests.faults.node import Pod, Reservation
from tests.laboratory import objects
from tests.lives.play import virtual_parts
from tests.sequences.machine import GI
from tests.sequences.node_life import node_life
from tests.sequences.operations import Spec
from tests.virtual.system import Machinery
from tests.virtual.world import World


@pytest.fixture(name="life")
def _life(tmp_path: Path) -> Iterator[Life]:
    data = node_life(1)
    parts = virtual_parts(Machinery(World(), "1"), data, tmp_path / "host")
    life = Life(data, replace(parts, parameters=replace(parts.parameters, has_state_file=True)))
    yield life
    life.close()


def write_entry(life: Life, pod: Pod, sandbox_id: str) -> None:
    """Write a state file with a container of 1 GiB on node 0 in a sandbox of the pod."""
    holder = Holder("container", sandbox_id, (pod.uid, "app"))
    accounting = assign(
        default_state(life.host.machine, {}), pod.uid, "app", NodeSet([0]), {"memory": GI}
    )
    state = EngineState(accounting, holders={holder.key: holder}, keys={"container": holder.key})
    life.host.state_file.parent.mkdir(parents=True, exist_ok=True)
    life.host.state_file.write_bytes(snapshot(state))


@pytest.mark.parametrize("is_own", [True, False])
def test_a_reservation_is_expected_from_an_entry_of_its_own_sandbox(
    life: Life, is_own: bool
) -> None:
    spec = Spec("app", GI, {})
    pod = Pod(objects.pod("pod"), QosClass.GUARANTEED, (spec,))
    life.node.pods[pod.message.id] = pod
    message = life.node.new_message(pod, spec)
    message.linux.resources.cpu.mems = "0"
    container = life.node.add(pod, spec, message)
    pod.reservations["app"] = Reservation("0", GI)
    write_entry(life, pod, pod.message.id if is_own else "earlier")
    life.start_plugin()
    assert ("app" in pod.reservations) == is_own
    assert pod.is_sum_lost == (not is_own)
    assert life.is_recorded(container) == is_own
