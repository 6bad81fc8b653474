"""The plugin as the fault run starts it: `program.py ROOT [arguments of nri-numamem]`.

It is the real program but for two things: the host lies below ROOT (a launched plugin has no flags
to say so), and its waits are shortened, because a life has seconds where a node has days. What
it does when a wait is over is untouched.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

# The program beside this file, whatever is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nri_numamem.cli import (
    keeper,
    launched,
    machine_watch,
    main,
    restarted,
    run,
    second_look,
    service,
    watchdog,
)
from nri_numamem.cli.service import HostRoots
from nri_numamem.nri import stream
from nri_numamem.observe.state_file import StateFile

SWEEP_S = 0.3
STALL_S = 3.0

_WAITS: tuple[tuple[ModuleType, str, float | tuple[float, ...]], ...] = (
    (run, "PAUSE_MIN_S", 0.1),
    (run, "PAUSE_MAX_S", 0.4),
    (run, "STEADY_S", 1.0),
    (run, "PAUSE_REFUSED_S", 1.0),
    (stream, "TICK_S", 0.1),
    (service, "SWEEP_S", SWEEP_S),
    (keeper, "PAUSE_S", 0.5),
    (watchdog, "STALL_S", STALL_S),
    (machine_watch, "LOOK_S", 0.3),
    (second_look, "LOOKS_AFTER_S", (0.3, 1.0)),
)


def _shorten_waits() -> None:
    for module, name, seconds in _WAITS:
        assert type(getattr(module, name)) is type(seconds), name
        setattr(module, name, seconds)
    defaults = StateFile.__init__.__kwdefaults__
    assert defaults is not None
    assert "retry_s" in defaults
    defaults["retry_s"] = 0.3


def _move_to(root: Path) -> None:
    def roots() -> HostRoots:
        return HostRoots(root / "sys", root / "proc", root / "cgroup")

    replaced: tuple[tuple[ModuleType, str, Callable[[], HostRoots] | Path], ...] = (
        (launched, "HostRoots", roots),
        (restarted, "HostRoots", roots),
        (restarted, "DEFAULT_SOCKET", root / "runtime.sock"),
    )
    for module, name, value in replaced:
        assert hasattr(module, name), name
        setattr(module, name, value)


if __name__ == "__main__":
    _shorten_waits()
    _move_to(Path(sys.argv.pop(1)))
    sys.exit(main.main())
