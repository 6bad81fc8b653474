"""Faults of the host: disk, file system, state file, machine, and a second instance."""

import random
import subprocess
import sys
import threading

from tests.faults.failure import Failure
from tests.faults.life import Life
from tests.faults.plugin import PROGRAM
from tests.faults.process_faults import kill_plugin, meanwhile
from tests.faults.steps import any_step, create_any
from tests.faults.verdict import check
from tests.sequences.machine import changed_machine

_SECOND_S = 60.0


def fill_disk(life: Life, rng: random.Random) -> bool:
    """Fill the disk for a few steps, perhaps over a restart."""
    if not life.host.can_be_full:
        return False
    life.note(f"the disk is {'full' if life.host.mounted else 'full for the plugin (rlimit)'}")
    life.host.fill(life.plugin.workers())
    for _ in range(rng.choice((1, 2, 4))):
        any_step(life)
    check(life)
    if rng.random() < 0.4:
        kill_plugin(life, rng)
        any_step(life)
    life.host.free()
    life.note("the disk has room again")
    return True


def freeze_disk(life: Life, rng: random.Random) -> bool:
    """Freeze the file system of log and state file for 1 to 6 s, once in a life.

    Meanwhile containers are created, and no request may wait for the file system. After the thaw
    each of them must have its record, or the record must be counted as dropped.
    """
    host = life.host
    has_files = life.parameters.has_state_file or host.log.is_relative_to(host.disk)
    if not has_files or life.faults["disk frozen"] or rng.random() < 0.4:
        return False
    before = {container.message.id for container in life.node.containers()}
    seconds, steps = rng.uniform(1.0, 6.0), rng.randrange(6, 16)
    if not host.freeze(seconds):
        return False
    life.note(f"the file system is frozen for {seconds:.1f} s")
    try:
        for _ in range(steps):
            create_any(life)
            life.expect_connection()
            life.clock.sleep(seconds / steps)
    finally:
        host.wait_thawed()
    life.note("the file system is thawed")
    life.expect_connection()
    life.restore_connection()
    check(life)
    created = [c for c in life.node.containers() if c.mems and c.message.id not in before]
    check_records(life, [container.message.id for container in created])
    return True


def check_records(life: Life, container_ids: list[str]) -> None:
    """Check that each container has a record, or that as many were counted as dropped."""
    records = life.plugin.journal.records
    shown = {record.get("container_id") for record in records}
    missing = [one for one in container_ids if one not in shown]
    losses = [r["dropped_records"] for r in records if r["event"] == "log_records_dropped"]
    if len(missing) > sum(losses):
        raise Failure(f"records of {missing} are missing, counted as dropped are {losses}")
    life.host.has_lost_records |= bool(losses)


def change_machine(life: Life, rng: random.Random) -> bool:
    """Change the machine while the plugin is not running."""
    machine, what = changed_machine(rng, life.host.machine)
    life.note(f"SIGKILL for the plugin; {what}")
    life.plugin.kill()
    life.node.exempt_all()
    life.node.expect_no_reservations()
    life.host.set_machine(machine)
    life.plugin_died()
    meanwhile(life, rng)
    life.restore_connection()
    return True


def change_machine_under(life: Life, rng: random.Random) -> bool:
    """Change the machine while the plugin serves; it must detect the change."""
    machine, what = changed_machine(rng, life.host.machine)
    life.note(f"{what}, while the plugin serves")
    life.node.exempt_all()
    life.host.set_machine(machine)
    life.seen_machine = machine
    check(life)
    return True


def damage_state(life: Life, rng: random.Random) -> bool:
    """Damage the state file while the plugin is not running."""
    if not life.parameters.has_state_file:
        return False
    life.plugin.kill()
    life.note(f"SIGKILL for the plugin; the state file is {life.host.damage_state(rng)}")
    life.plugin_died()
    life.restore_connection()
    return True


def second_instance(life: Life, rng: random.Random) -> bool:
    """Start the plugin twice; the second one must wait, and end on SIGTERM."""
    arguments = life.parameters.arguments(life.host)
    if arguments is None or not life.parameters.has_state_file or rng.random() < 0.5:
        return False
    life.note("the plugin is started a second time")
    log = ["--log-file", str(life.host.root / "second.log")]
    command = [sys.executable, str(PROGRAM), str(life.host.root), "run", *arguments, *log]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as second:
        assert second.stderr is not None
        limit = threading.Timer(_SECOND_S, second.kill)
        limit.start()
        line = second.stderr.readline()  # the record `standby`
        second.terminate()
        _, rest = second.communicate()
        limit.cancel()
    if second.returncode != 0 or "another instance holds" not in line:
        text = f"{line}{rest}"[-500:]
        raise Failure(f"the second instance ended with {second.returncode}: {text}")
    return True
