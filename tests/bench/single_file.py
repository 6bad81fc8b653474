"""Measure the single executable file of `make dist`: size, starts, memory and creations."""

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.bench import creation, startup_and_idle
from tests.bench.creation import CONSTANT, NEWEST, OURS, Case
from tests.bench.figures import Summary
from tests.bench.host import Programs
from tests.bench.startup_and_idle import IdleUsage

CASE = Case(NEWEST, *creation.MAIN_SIZE)


@dataclass(frozen=True, slots=True)
class SingleFile:
    """The measurements of one file."""

    size_bytes: int
    start_s: float
    """From exec to the registration; the median."""
    cold_start_s: float
    """The same, with the file read from the disk each time."""
    idle: dict[str, IdleUsage]
    """Processes by the names of ``startup_and_idle``."""
    creations: dict[str, Summary]
    """Of the file as OURS, and of CONSTANT."""


def measure(
    program: Path, go: Path, *, starts: int, idle_s: float, rounds: int, count: int
) -> SingleFile:
    """Measure a file; `go` is the folder of the Go programs."""
    programs = Programs(program, go)
    start = partial(startup_and_idle.measure_starts, programs, rounds=starts)
    return SingleFile(
        program.stat().st_size,
        start()[OURS].registered_s,
        start(before=partial(evict, program))[OURS].registered_s,
        startup_and_idle.measure_idle(programs, idle_s=idle_s),
        creation.measure(CASE, programs, peers=(CONSTANT, OURS), rounds=rounds, count=count),
    )


def evict(path: Path) -> None:
    """Remove a file from the kernel's page cache, as far as no process has mapped it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
