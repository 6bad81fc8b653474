"""The plugin as the fault run starts it: `plugin_program.py ROOT [arguments of nri-numamem]`.

The real program with two changes: the host is below ROOT, because a launched plugin has no flags;
and waiting times are shorter, because a life has seconds where a node has days. The actions after
a wait are unchanged.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

# The package of this work tree, whatever is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nri_numamem.cli import main
from nri_numamem.daemon import (
    cgroup_scan,
    external,
    launched,
    liveness,
    machine_monitor,
    pod_reaper,
    restarted,
    supervisor,
)
from nri_numamem.host.roots import HostRoots
from nri_numamem.nri import event_loop
from nri_numamem.observe.state_file import StateFile

SWEEP_S = 0.3

_WAITS: tuple[tuple[ModuleType, str, float | tuple[float, ...]], ...] = (
    (external, "PAUSE_MIN_S", 0.1),
    (external, "PAUSE_MAX_S", 0.4),
    (external, "STEADY_S", 1.0),
    (external, "PAUSE_REFUSED_S", 1.0),
    (event_loop, "TICK_S", 0.1),
    (pod_reaper, "REAP_S", SWEEP_S),
    (supervisor, "PAUSE_S", 0.5),
    (liveness, "STUCK_S", 3.0),
    (liveness, "SAMPLE_S", 0.3),
    (machine_monitor, "READ_S", 0.3),
    (cgroup_scan, "SCANS_AFTER_S", (0.3, 1.0)),
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
