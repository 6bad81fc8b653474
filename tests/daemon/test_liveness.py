"""Stuck, starved, stopped: samples of a process, invented and of the kernel."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_numamem.daemon.liveness import (
    LATE_S,
    SAMPLE_S,
    STUCK_S,
    Activity,
    StallDetector,
    read_activity,
)
from nri_numamem.nri.event_loop import TICK_S
from tests.simulated_host import wait_for

SAMPLES = 40


def stuck_after_s(
    state: str, *, ran: float = 0.0, queued: float = 0.0, interval_s: float = SAMPLE_S
) -> float | None:
    """Return when a process without a heartbeat is judged as stuck; None for never.

    `ran` and `queued` are shares of the time.
    """
    detector = StallDetector()
    assert not detector.is_stuck(100.0, 7, Activity("S", 1.0, 1.0))
    for number in range(1, SAMPLES):
        passed_s = number * interval_s
        activity = Activity(state, 1.0 + ran * passed_s, 1.0 + queued * passed_s)
        if detector.is_stuck(100.0 + passed_s, 7, activity):
            return passed_s
    return None


def test_an_endless_loop_is_stuck_by_the_time_that_it_runs() -> None:
    assert stuck_after_s("R", ran=1.0) == 4 * SAMPLE_S
    # With a tenth of a processor the plugin has had 11.5 s of it after 115 s.
    assert stuck_after_s("R", ran=0.1, queued=0.0) == pytest.approx(STUCK_S / 0.1, abs=SAMPLE_S)


def test_a_process_that_only_sleeps_is_stuck() -> None:
    assert stuck_after_s("S") == 4 * SAMPLE_S


@pytest.mark.parametrize("state", ["R", "?"], ids=["waits for a processor", "stopped or on a disk"])
def test_a_process_that_does_not_get_to_run_is_not_stuck(state: str) -> None:
    assert stuck_after_s(state) is None


def test_sleep_that_was_a_wait_for_a_processor_does_not_count() -> None:
    assert stuck_after_s("S", queued=1.0) is None
    assert stuck_after_s("S", queued=0.5) == pytest.approx(2 * STUCK_S, abs=SAMPLE_S)


@pytest.mark.parametrize("state", ["S", "R"])
def test_a_sample_that_comes_late_does_not_count(state: str) -> None:
    """A hypervisor that takes the processor away stops this process as well."""
    assert stuck_after_s(state, ran=1.0, interval_s=LATE_S) is None
    assert stuck_after_s(state, ran=1.0, interval_s=0.9 * LATE_S) is not None


@pytest.mark.parametrize("beats", [[7, 8, 9], [0, 0, 0], [7, 0, 7]])
def test_a_heartbeat_or_an_end_of_the_loop_starts_anew(beats: list[int]) -> None:
    detector = StallDetector()
    for number in range(SAMPLES):
        beat = beats[number % 3]
        beat += number // 3 if beat else 0
        assert not detector.is_stuck(number * SAMPLE_S, beat, Activity("S", 0.0, 0.0))


def test_a_sample_of_a_healthy_plugin_shows_another_heartbeat() -> None:
    assert TICK_S < SAMPLE_S < STUCK_S


def test_one_sample_is_not_enough() -> None:
    assert SAMPLE_S < LATE_S < STUCK_S / 2


def test_an_idle_plugin_and_its_supervisor_wake_up_less_than_once_per_second() -> None:
    assert 1 / TICK_S + 1 / SAMPLE_S < 1


@pytest.fixture
def spinning() -> Iterator[subprocess.Popen[bytes]]:
    code = "import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True)"
    process = subprocess.Popen([sys.executable, "-c", f"{code}.start()\nwhile True: pass"])
    yield process
    process.kill()
    process.wait()


def thread_states(folder: Path) -> set[str]:
    texts = [(task / "stat").read_text() for task in folder.iterdir()]
    return {text.rpartition(") ")[2][0] for text in texts}


def test_threads_of_the_kernel(spinning: subprocess.Popen[bytes]) -> None:
    folder = Path(f"/proc/{spinning.pid}/task")
    wait_for(lambda: len(list(folder.iterdir())) == 2 and read_activity(spinning.pid).ran_s > 0.2)
    assert read_activity(spinning.pid).state == "R"
    spinning.send_signal(signal.SIGSTOP)
    wait_for(lambda: read_activity(spinning.pid).state == "?")
    wait_for(lambda: thread_states(folder) == {"T"})
    before = read_activity(spinning.pid)
    time.sleep(0.1)
    assert read_activity(spinning.pid).ran_s == before.ran_s
    spinning.kill()
    spinning.wait()
    with pytest.raises(OSError, match="No such"):
        read_activity(spinning.pid)


def test_a_process_that_sleeps() -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeping:
        wait_for(lambda: read_activity(sleeping.pid).state == "S")
        sleeping.kill()


def test_a_kernel_without_schedstat_and_a_thread_that_ends(tmp_path: Path) -> None:
    task = tmp_path / "7" / "task"
    (task / "7").mkdir(parents=True)
    (task / "8").mkdir()
    ticks = os.sysconf("SC_CLK_TCK")
    fields = ["S", *["0"] * 10, str(2 * ticks), str(ticks)]
    (task / "7" / "stat").write_text(f"7 (a) b) {' '.join(fields)}")
    assert read_activity(7, str(tmp_path)) == Activity("S", 3.0, 0.0)
