"""Play a life from its first step to its end, and report the result."""

import contextlib
import random
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.failure import CertainFailure, Failure
from tests.faults.faults import FAULTS, FaultPlayer, inject
from tests.faults.heartbeat import Heartbeat
from tests.faults.life import EVENTUALLY_S, Life, process_parts
from tests.faults.parameters import ALL
from tests.faults.partitions import partitioned_life
from tests.faults.steps import end, play_operation
from tests.faults.verdict import check, check_cgroups, check_history, check_unpinned
from tests.sequences.operations import Fault

STEPS = (30, 80)

_FAULT = 0.12
_CHECK = 0.12

# These events have the traceback of the interrupted computation.
_WITH_TRACEBACK = ("request_timed_out", "synchronize_timed_out")
_ALARMING = ("Traceback", "internal_error", "exception")


@dataclass
class Report:
    """The result of a life."""

    seed: int
    side: str = ""
    problem: str = ""
    is_inconclusive: bool = False
    """The machine stood still meanwhile, which may be the only reason for the problem."""
    history: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    slowest_s: float = 0.0
    connections: int = 0
    inconclusive: list[str] = field(default_factory=list)
    """Problems of earlier attempts during which the machine stood still."""
    timed_out_requests: int = 0
    took_s: float = 0.0
    is_mounted: bool = True
    has_partitions: bool = False
    unfreezable_reason: str = ""
    """Why the disk cannot be frozen; empty if it can."""


def play(
    seed: int,
    failed_dir: Path,
    kinds: str = ALL,
    memory: str | None = None,
    steps: tuple[int, int] = STEPS,
) -> Report:
    """Play the life of a seed; the files of a failed life are moved to `failed_dir`.

    `memory` is a directory for its files; `steps` is the range of the number of steps.
    """
    begin = time.monotonic()
    report = Report(seed)
    root = Path(tempfile.mkdtemp(prefix=f"faults-{seed}-", dir=memory))
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(failed_dir)
    data = partitioned_life(seed)
    life = Life(data, process_parts(data, root / "host", kinds))
    report.side, report.is_mounted = life.runtime.name, life.host.mounted
    report.has_partitions = bool(data.settings.partitions)
    heartbeat = Heartbeat()
    try:
        run_life(life, steps)
    except Failure as failure:
        report.problem = str(failure)
        report.is_inconclusive = heartbeat.has_stopped and not isinstance(failure, CertainFailure)
    except Exception as error:  # noqa: BLE001 - a bug of this program is a finding too
        report.problem = f"{error!r}\n{traceback.format_exc()}"
        report.is_inconclusive = heartbeat.has_stopped
    finally:
        heartbeat.close()
        report.timed_out_requests = life.timeouts()
        life.close()
        life.plugin.wait_until_gone()
    report.history, report.faults = life.history, life.faults
    report.calls, report.slowest_s = life.calls, life.slowest_s
    report.connections = life.connections
    report.unfreezable_reason = life.host.unfreezable_reason
    report.took_s = time.monotonic() - begin
    if report.problem:
        failed_dir.mkdir(parents=True)
        (failed_dir / "history").write_text("\n".join([*life.history, report.problem, ""]))
        shutil.copytree(
            life.host.root,
            failed_dir / "host",
            symlinks=True,
            ignore=shutil.ignore_patterns("*.sock"),
        )
    shutil.rmtree(root, ignore_errors=True)
    return report


def run_life(
    life: Life,
    steps: tuple[int, int],
    faults: Mapping[str, FaultPlayer] = FAULTS,
    *,
    fault_share: float = _FAULT,
    min_calls: int = 0,
) -> None:
    """Play a life from start to end: its steps, a fault now and then; raise Failure.

    `fault_share` is the probability of a fault instead of a step. A life has at least one fault
    and `min_calls` calls where these are requested.
    """
    life.begin()
    check(life)
    rng = random.Random(f"{life.seed} checks")
    total, number = rng.randrange(*steps), 0
    life.steps = life.data.steps(fault_share)
    while number < total or _total_calls(life) < min_calls or (min_calls and not life.faults):
        step = next(life.steps)
        life.expect_connection()
        life.restore_connection()
        if isinstance(step, Fault):
            inject(life, step, faults)
        elif not play_operation(life, step):
            continue
        if rng.random() < _CHECK:
            check(life)
        number += 1
    _finish(life)


def _total_calls(life: Life) -> int:
    """Return the calls of the life, with those that end its pods."""
    pods = [p for p in life.node.running() if p.is_of_current_runtime or life.node.traits.is_crio]
    return life.calls + sum(2 + len(pod.alive()) for pod in pods)


def _finish(life: Life) -> None:
    """Check the idle node, end every pod, check again, and stop."""
    life.note("all faults are over")
    life.restore_connection()
    check(life)
    if life.proxy is not None:
        life.proxy.cut()
        life.reconnect()
        check(life)
        check_unpinned(life)
    if life.host.has_container_cgroups:
        check_cgroups(life)
        check(life)
    check_history(life)
    _check_files(life)
    for pod in life.node.running():
        end(life, pod)
    for pod in list(life.node.pods.values()):
        life.forget(pod)
    if life.proxy is not None:
        life.proxy.cut()
        life.reconnect()
    check(life)
    _stop(life)
    _check_log(life)


def _check_files(life: Life) -> None:
    """Check that the process has not opened more descriptors since its first check."""
    deadline = time.monotonic() + EVENTUALLY_S
    while True:
        now, first = life.plugin.count_files()
        if now <= first:
            return
        if time.monotonic() > deadline:
            raise Failure(f"{now - first} descriptors were leaked: {life.plugin.files()}")
        time.sleep(0.05)


def _stop(life: Life) -> None:
    if life.proxy is not None:
        status = life.plugin.stop()
        if status != 0:
            raise Failure(f"after SIGTERM the plugin ended with status {status}")
    if not life.runtime_is_down:
        life.runtime_died()
    if not life.plugin.wait_until_gone():
        raise Failure(f"processes remain: {life.plugin.processes()}")
    deadline = time.monotonic() + EVENTUALLY_S
    while left := life.plugin.zombies():
        if time.monotonic() > deadline:
            raise Failure(f"zombies remain: {left}")
        life.plugin.wait_until_gone()
        time.sleep(0.05)


def _check_log(life: Life) -> None:
    journal = life.plugin.journal
    journal.read()
    for record in journal.records:
        text = str(record)
        if record["event"] not in _WITH_TRACEBACK and any(word in text for word in _ALARMING):
            raise CertainFailure(f"the log contains: {text}")
    for line in journal.other_lines:
        if any(word in line for word in _ALARMING):
            raise CertainFailure(f"the log contains: {journal.other_lines}")
