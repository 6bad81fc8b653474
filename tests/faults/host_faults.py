"""Faults of the host: disk, state file, machine, and a second instance."""

import random
import subprocess
import sys

from tests.faults.failure import Failure
from tests.faults.host import changed_machine
from tests.faults.life import Life
from tests.faults.plugin import PROGRAM
from tests.faults.process_faults import kill_plugin, meanwhile
from tests.faults.steps import any_step
from tests.faults.verdict import check

_SECOND_S = 15.0


def fill_disk(life: Life, rng: random.Random) -> bool:
    """Fill the disk for a few steps, perhaps over a restart."""
    life.note(f"the disk is {'full' if life.host.mounted else 'full for the plugin (rlimit)'}")
    life.host.fill(life.plugin.workers())
    for _ in range(rng.choice((1, 2, 4))):
        any_step(life, rng)
    check(life)
    if rng.random() < 0.4:
        kill_plugin(life, rng)
        any_step(life, rng)
    life.host.free()
    life.note("the disk has room again")
    return True


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
    """Start the plugin twice; the second one must not serve."""
    arguments = life.parameters.arguments(life.host)
    if arguments is None or not life.parameters.has_state_file or rng.random() < 0.5:
        return False
    life.note("the plugin is started a second time")
    log = ["--log-file", str(life.host.root / "second.log")]
    command = [sys.executable, str(PROGRAM), str(life.host.root), "run", *arguments, *log]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECOND_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Failure("the second instance does not end") from error
    if done.returncode != 1 or "another instance holds" not in done.stderr:
        raise Failure(f"the second instance ended with {done.returncode}: {done.stderr[-500:]}")
    return True
