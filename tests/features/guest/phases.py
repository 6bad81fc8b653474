"""The phases of all features: PHASES of each module scenarios_NAME.py in this folder."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path

from tests.e2e.guest import artefacts, containerd, cri_phase, forms, plugin, scenarios_lifecycle
from tests.e2e.guest.checks import Report
from tests.features.guest.feature import Phase
from tests.features.guest.newer_containerd import NewerContainerd

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


def run(report: Report, phase: Phase, attempt: int) -> list[str]:
    """Run a phase's checks; return what failed."""
    runtime = NewerContainerd(phase.runtime_tables)
    return cri_phase.run(report, phase, attempt, runtime, lambda: _plugin(phase), containerd.LOG)


def _plugin(phase: Phase) -> plugin.Plugin:
    return forms.Service(
        artefacts.NEW_PACKAGE,
        logs_to_file=True,
        restarts=False,
        settings=phase.settings,
        runs_others=phase.runs_programs,
    )
