"""Plays a life from its first step to its end, and says how it went."""

import contextlib
import random
import shutil
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.failure import Alarm, Failure
from tests.faults.faults import any_fault
from tests.faults.judgement import EVENTUALLY_S, check, check_unpinned
from tests.faults.life import Life
from tests.faults.pulse import Pulse
from tests.faults.setting import ALL
from tests.faults.steps import any_step, end

STEPS = (20, 60)

_FAULT = 0.16
_CHECK = 0.12

# These tell a traceback on purpose: of the computation that a deadline cut short.
_CUT_SHORT = ("request took too long, answered neutrally", "Synchronize took too long")
_WATCHDOG = "Timeout (0:00:"
_ALARMING = ("Traceback", "internal error", "exception")


@dataclass
class Report:
    """How a life went."""

    seed: int
    side: str = ""
    problem: str = ""
    is_unclear: bool = False
    """The machine stood still meanwhile, which alone may explain the problem."""
    story: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    slowest_s: float = 0.0
    connections: int = 0
    unclear: list[str] = field(default_factory=list)
    """Problems of the times that it was played before, while the machine stood still."""
    cut_short: int = 0
    took_s: float = 0.0
    is_mounted: bool = True


def play(
    seed: int,
    kept: Path,
    kinds: str = ALL,
    memory: str | None = None,
    steps: tuple[int, int] = STEPS,
) -> Report:
    """Play the life of a seed; the files of one that fails are moved to `kept`.

    `memory` is a directory for its files; `steps` says how many it has, from and to.
    """
    begin = time.monotonic()
    report = Report(seed)
    root = Path(tempfile.mkdtemp(prefix=f"faults-{seed}-", dir=memory))
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(kept)
    life = Life(seed, root / "host", kinds)
    report.side, report.is_mounted = life.side.name, life.ground.mounted
    pulse = Pulse()
    try:
        _live(life, steps)
    except Failure as failure:
        report.problem = str(failure)
        report.is_unclear = pulse.has_stopped and not isinstance(failure, Alarm)
    except Exception:  # noqa: BLE001 - a bug of ours is a find as well
        report.problem = traceback.format_exc()
        report.is_unclear = pulse.has_stopped
    finally:
        pulse.close()
        report.cut_short = life.overruns()
        life.close()
        life.plugin.gone()
    report.story, report.faults = life.story, life.faults
    report.calls, report.slowest_s = life.calls, life.slowest_s
    report.connections = life.connections
    report.took_s = time.monotonic() - begin
    if report.problem:
        kept.mkdir(parents=True)
        (kept / "story").write_text("\n".join([*life.story, report.problem, ""]))
        shutil.copytree(
            life.ground.root, kept / "host", symlinks=True, ignore=shutil.ignore_patterns("*.sock")
        )
    shutil.rmtree(root, ignore_errors=True)
    return report


def _live(life: Life, steps: tuple[int, int]) -> None:
    life.begin()
    check(life)
    shape = random.Random(f"{life.seed} shape")
    for number in range(shape.randrange(*steps)):
        rng = random.Random(f"{life.seed} {number}")
        _notice_drop(life)
        if number > 2 and rng.random() < _FAULT:
            any_fault(life, rng)
        else:
            any_step(life, rng)
        if rng.random() < _CHECK:
            check(life)
    _settle(life)


def _notice_drop(life: Life) -> None:
    """Judge a step without a fault: nobody has a reason to end the connection.

    But a plugin that is told nothing of what runs goes on from outside, where it is told; and
    the watchdog may end one late that was stopped for too long.
    """
    if not life.notice():
        life.tell("the connection has ended")
        if not (life.setting.forgets_running or life.has_hung):
            raise Failure(f"the connection has ended without a fault: {life.last_words()}")
    life.bring_back()


def _settle(life: Life) -> None:
    """Let the node come to rest, judge it, end every pod, judge it again, and stop."""
    life.tell("the node comes to rest")
    life.bring_back()
    check(life)
    if life.wire is not None:
        life.wire.cut()
        life.reconnect()
        check(life)
        check_unpinned(life)
    _check_files(life)
    for pod in life.node.running():
        end(life, pod)
    for pod in list(life.node.pods.values()):
        life.forget(pod)
    if life.wire is not None:
        life.wire.cut()
        life.reconnect()
    check(life)
    _stop(life)
    _check_log(life)


def _check_files(life: Life) -> None:
    """No descriptor was leaked since the process was first judged."""
    deadline = time.monotonic() + EVENTUALLY_S
    while True:
        now, first = life.plugin.count_files()
        if now <= first:
            return
        if time.monotonic() > deadline:
            raise Failure(f"{now - first} descriptors were leaked: {life.plugin.files()}")
        time.sleep(0.05)


def _stop(life: Life) -> None:
    if life.wire is not None:
        status = life.plugin.stop()
        if status != 0:
            raise Failure(f"asked to stop, the plugin ended with status {status}")
    if not life.is_down:
        life.runtime_died()
    if not life.plugin.gone():
        raise Failure(f"processes were left behind: {life.plugin.processes()}")
    deadline = time.monotonic() + EVENTUALLY_S
    while left := life.plugin.zombies():
        if time.monotonic() > deadline:
            raise Failure(f"zombies were left behind: {left}")
        life.plugin.gone()
        time.sleep(0.05)


def _check_log(life: Life) -> None:
    journal = life.plugin.journal
    journal.read()
    for record in journal.records:
        text = str(record)
        if record["event"] not in _CUT_SHORT and any(word in text for word in _ALARMING):
            kind = Failure if _WATCHDOG in text else Alarm
            raise kind(f"the log says: {text}")
    for line in journal.odd_lines:
        if any(word in line for word in _ALARMING):
            raise Alarm(f"the log says: {journal.odd_lines}")
