"""Describe what a benchmark ran on: processor, interpreter and its build, load, priority."""

import os
import platform
import sysconfig
from collections.abc import Callable
from pathlib import Path

from tests.bench import go_programs

UNKNOWN = "unknown"

BUSY_MACHINE = (
    "A busy machine lengthens every time, the 99th percentiles most, and favours a plugin of one"
    " thread over one of several, so figures are comparable only within one run on an idle machine."
)

# Priority of the benchmark and its children, where the process may raise it.
NICENESS = -15

_CPUINFO = Path("/proc/cpuinfo")


def describe() -> dict[str, object]:
    """Return what the figures depend on, by name; the load average is that of the start."""
    return {
        "processor": processor(),
        "CPUs": os.cpu_count(),
        "kernel": ".".join(platform.release().split(".")[:2]),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "Python build": interpreter_build(),
        "Go": go_programs.go_version(),
        "load average at the start": load_average(),
    }


def processor(cpuinfo: Path = _CPUINFO) -> str:
    """Return the processor's model names; the architecture where the kernel shows no model."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        lines = []
    models = {line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")}
    return ", ".join(sorted(models)) or platform.machine() or UNKNOWN


def interpreter_build(variable: Callable[[str], object] = sysconfig.get_config_var) -> str:
    """Return whether the interpreter was built with PGO and LTO, and its special builds.

    The configure arguments are decisive where they have the option; otherwise the compiler flags
    are. An interpreter that records neither has an unknown build.
    """
    arguments = variable("CONFIG_ARGS")
    flags = " ".join(
        str(variable(name) or "")
        for name in ("CFLAGS", "PY_CFLAGS", "PY_CORE_CFLAGS", "LDFLAGS", "PY_CORE_LDFLAGS")
    )

    def has(option: str, flag: str) -> str:
        if not isinstance(arguments, str):
            return "yes" if flag in flags else UNKNOWN
        return "yes" if option in arguments or flag in flags else "no"

    words = [
        f"PGO {has('--enable-optimizations', '-fprofile-use')}",
        f"LTO {has('--with-lto', '-flto')}",
    ]
    special = (("Py_DEBUG", "debug"), ("Py_GIL_DISABLED", "free-threaded"), ("_Py_JIT", "JIT"))
    words += [name for key, name in special if variable(key)]
    return ", ".join(words)


def load_average() -> str:
    """Return the load averages over 1, 5 and 15 minutes."""
    try:
        return " ".join(f"{load:.2f}" for load in os.getloadavg())
    except OSError:
        return UNKNOWN


def raise_priority() -> str:
    """Raise this process's priority where that is allowed; return the priority in words."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    except PermissionError:
        return "normal (raising it takes root)"
    return f"nice {NICENESS}"
