"""The phases of all features: PHASES of each module scenarios_NAME.py in this folder."""

import platform
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from tests.features.guest import newer_containerd
from tests.features.guest.feature import Phase
from tests.machines.guest import artefacts, containerd, forms, scenarios_lifecycle
from tests.machines.guest.processes import output
from tests.machines.guest.setup import CriSetup

_PACKAGE = "tests.features.guest"


def _phases() -> tuple[Phase, ...]:
    """Return all phases; each begins and ends with the checks of the plugin's connection."""
    modules = sorted(path.stem for path in Path(__file__).parent.glob("scenarios_*.py"))
    found: list[Phase] = []
    for module in modules:
        found += import_module(f"{_PACKAGE}.{module}").PHASES
    opening, closing = scenarios_lifecycle.OPENING, scenarios_lifecycle.CLOSING
    return tuple(replace(each, scenarios=(opening, *each.scenarios, closing)) for each in found)


PHASES = _phases()


def prepare() -> Mapping[str, str]:
    """Return program -> version."""
    return {
        "kernel": platform.release(),
        "containerd": newer_containerd.version(),
        "runc": newer_containerd.runc_version(),
        "crun": output("crun", "--version").split()[2],
    }


def setup(phase: Phase) -> CriSetup:
    """Return what a phase runs on."""
    runtime = newer_containerd.NewerContainerd(phase.runtime_tables)
    return CriSetup(runtime, lambda: _service(phase), containerd.LOG)


def _service(phase: Phase) -> forms.Service:
    return forms.Service(
        artefacts.NEW_PACKAGE,
        logs_to_file=True,
        restarts=False,
        settings=phase.settings,
        runs_others=phase.runs_programs,
    )
