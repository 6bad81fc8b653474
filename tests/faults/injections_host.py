"""What breaks on the host: the disk, the state file, the machine, and the operator's patience."""

import random
import subprocess
import sys

from tests.faults.failure import Failure
from tests.faults.ground import changed_machine
from tests.faults.injections import kill_plugin, meanwhile
from tests.faults.judgement import check
from tests.faults.life import Life
from tests.faults.plugin import PROGRAM
from tests.faults.steps import any_step

_SECOND_S = 15.0


def fill_disk(life: Life, rng: random.Random) -> bool:
    """Let the disk be full for a few steps, perhaps over a restart."""
    life.tell(f"the disk is {'full' if life.ground.mounted else 'full for the plugin (rlimit)'}")
    life.ground.fill(life.plugin.workers())
    for _ in range(rng.choice((1, 2, 4))):
        any_step(life, rng)
    check(life)
    if rng.random() < 0.4:
        kill_plugin(life, rng)
        any_step(life, rng)
    life.ground.free()
    life.tell("the disk has room again")
    return True


def change_machine(life: Life, rng: random.Random) -> bool:
    """Change the machine while the plugin is away."""
    machine, what = changed_machine(rng, life.ground.machine)
    life.tell(f"SIGKILL for the plugin; {what}")
    life.plugin.kill()
    life.node.machine_changed()
    life.node.forget_held()
    life.ground.set_machine(machine)
    life.plugin_died()
    meanwhile(life, rng)
    life.bring_back()
    return True


def change_machine_under(life: Life, rng: random.Random) -> bool:
    """Change the machine while the plugin serves; it has to notice by itself."""
    machine, what = changed_machine(rng, life.ground.machine)
    life.tell(f"{what}, while the plugin serves")
    life.node.machine_changed()
    life.ground.set_machine(machine)
    life.seen_machine = machine
    check(life)
    return True


def damage_state(life: Life, rng: random.Random) -> bool:
    """Damage the state file while the plugin is away."""
    if not life.setting.has_state_file:
        return False
    life.plugin.kill()
    life.tell(f"SIGKILL for the plugin; the state file is {life.ground.damage_state(rng)}")
    life.plugin_died()
    life.bring_back()
    return True


def second_instance(life: Life, rng: random.Random) -> bool:
    """Start the plugin twice; the second one must not serve."""
    arguments = life.setting.arguments(life.ground.root)
    if arguments is None or not life.setting.has_state_file or rng.random() < 0.5:
        return False
    life.tell("the plugin is started a second time")
    log = ["--log-file", str(life.ground.root / "second.log")]
    command = [sys.executable, str(PROGRAM), str(life.ground.root), "run", *arguments, *log]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECOND_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Failure("the second instance does not end") from error
    if done.returncode != 1 or "another instance holds" not in done.stderr:
        raise Failure(f"the second instance ended with {done.returncode}: {done.stderr[-500:]}")
    return True
