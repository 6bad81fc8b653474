"""Machines; a script stands for QEMU, and writes what a guest sends."""

import json
import time
from pathlib import Path

import pytest

from tests.machines import vm
from tests.machines.image import Image
from tests.machines.vm import Machine, Record, Results, Run, boot

_QEMU = """#!/bin/sh
echo "$@" >>"{folder}/commands"
console=$(expr "$*" : '.*-serial file:\\([^ ]*\\)')
results=$(expr "$*" : '.*id=results,path=\\([^ ]*\\)')
echo "a line of the console" >"$console"
{script}
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a machine without KVM whose emulator is a script."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv(vm.ACCELERATOR_VARIABLE, "tcg")
    monkeypatch.setattr(vm, "_POLL_S", 0.01)
    image = Image("sid", "sid", tmp_path)
    return Machine("sid", image, tmp_path / "drive.tar", tmp_path, (), ("machines.phases=a,b",))


def run(machine: Machine, script: str, limit_s: float = 60) -> tuple[Run, list[Record]]:
    """Boot with a script for the guest's part; return the run and the records in their order."""
    qemu = machine.out / "qemu-system-x86_64"
    qemu.write_text(_QEMU.format(folder=machine.out, script=script))
    qemu.chmod(0o755)
    seen: list[Record] = []
    return boot(machine, time.monotonic() + limit_s, seen.append), seen


def test_records_arrive_in_their_order(machine: Machine) -> None:
    done, seen = run(machine, 'echo \'{"kind": "boot"}\n{"kind": "done"}\' >"$results"')
    assert seen == list(done.records) == [{"kind": "boot"}, {"kind": "done"}]
    assert (done.failure, done.accelerator) == ("", "tcg")


def test_a_machine_that_ends_early_shows_its_console(machine: Machine) -> None:
    done, _ = run(machine, 'echo \'{"kind": "boot"}\' >"$results"; exit 3')
    assert done.failure == (
        "QEMU ended with status 3 before the guest was done; the console ends with\n"
        "a line of the console"
    )


def test_a_machine_without_records_is_killed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vm, "SILENCE_S", 0.2)
    done, _ = run(machine, "exec sleep 600")
    assert done.failure.startswith("killed: no record within 0 s; ")


def test_a_machine_is_killed_at_the_deadline(machine: Machine) -> None:
    done, _ = run(machine, "exec sleep 600", limit_s=0.2)
    assert done.failure.startswith("killed: the time for all phases is over; ")


def test_the_guest_gets_its_arguments(machine: Machine) -> None:
    run(machine, "")
    assert " init=/e2e-init machines.phases=a,b -drive " in (machine.out / "commands").read_text()


def test_nodes_have_the_distances_of_two_pairs() -> None:
    numa = " ".join(vm._numa())
    assert "dist,src=0,dst=1,val=12" in numa
    assert "dist,src=1,dst=2,val=20" in numa
    assert "dist,src=0,dst=4,val=30" in numa
    assert "node,nodeid=4,memdev=m4,initiator=0" in numa


def test_an_unknown_accelerator_is_an_error(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(vm.ACCELERATOR_VARIABLE, "xen")
    with pytest.raises(ValueError, match="set it to kvm or tcg"):
        run(machine, "")


def test_an_incomplete_line_is_read_when_it_is_complete(tmp_path: Path) -> None:
    file = tmp_path / "results"
    line = json.dumps({"kind": "log", "text": "ä"}).encode()
    file.write_bytes(line[:9])
    results = Results(file)
    assert results.read() == []
    file.write_bytes(line + b"\nnonsense\n{")
    assert results.read() == [{"kind": "log", "text": "ä"}]
    assert results.read() == []
