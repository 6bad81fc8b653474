"""``nri-numamem simulate``: what would become of pods on a described machine.

A scenario is played by the managers that serve the runtime, without runtime, root or NUMA
hardware. People get a picture after each step, programs one JSON object. With ``--over-nri`` the
same pods also come to a real plugin process over a socket, and both must give the same.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from nri_numamem.cli.documents import load_document, name_of, read_file
from nri_numamem.cli.errors import UsageError
from nri_numamem.cli.state import load_verified
from nri_numamem.engine.books import entries, machine_state
from nri_numamem.engine.scenario import (
    Outcome,
    Scenario,
    ScenarioError,
    play,
    scenario_from_document,
)
from nri_numamem.engine.scenario_state import WrittenState
from nri_numamem.memorymanager.checkpoint_values import shown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options."""
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="a scenario in YAML or JSON; - is standard input"
    )
    parser.add_argument("--output", choices=("table", "json"), default="table")
    parser.add_argument(
        "--state",
        metavar="FILE",
        type=Path,
        help="start from this memory_manager_state of a kubelet",
    )
    parser.add_argument(
        "--over-nri",
        action="store_true",
        help="also play the pods through a plugin process over NRI, and compare",
    )
    parser.epilog = (
        "Exit status: 0 whatever is refused, 1 when NRI gives something else, 2 when a file "
        "cannot be used."
    )


def main(args: argparse.Namespace) -> int:
    """Play the scenario; return 0, or 1 when the plugin process fails or does otherwise."""
    scenario = load_scenario(args.file, args.state)
    outcomes = tuple(play(scenario))
    differences: Sequence[str] = ()
    if args.over_nri:
        from nri_numamem.cli.simulate_nri import compare_over_nri  # noqa: PLC0415 - costly

        differences = compare_over_nri(scenario, outcomes, name_of(args.file))
    if args.output == "json":
        print(json.dumps(result_document(scenario, outcomes), indent=2))
    else:
        from nri_numamem.cli.simulate_screen import show  # noqa: PLC0415 - only for people

        show(scenario, outcomes)
    for difference in differences:
        print(f"nri-numamem: {name_of(args.file)}: {difference}", file=sys.stderr)
    return 1 if differences else 0


def load_scenario(path: Path, state_path: Path | None = None) -> Scenario:
    """Return the scenario in a file, or standard input; UsageError names the place."""
    origin = name_of(path)
    document = load_document(read_file(path), origin)
    state = None if state_path is None else _state_from(state_path)
    try:
        return scenario_from_document(document, state)
    except ScenarioError as error:
        raise UsageError(f"{origin}: {error}") from error


def _state_from(path: Path) -> WrittenState:
    checkpoint = load_verified(path)
    if checkpoint.pod_entries:
        uid = next(iter(checkpoint.pod_entries))
        problem = f"podEntries: pod {shown(uid)} holds memory as a whole, which cannot be simulated"
        raise UsageError(f"{path}: {problem}; give a state without pod-level resources")
    return WrittenState(checkpoint.machine_state or None, checkpoint.entries)


def result_document(scenario: Scenario, outcomes: Sequence[Outcome]) -> dict[str, object]:
    """Return the results as one JSON object; books as they are after the last step."""
    books = outcomes[-1].books if outcomes else scenario.books
    return {
        "steps": [outcome.document for outcome in outcomes],
        "machineState": machine_state(books),
        "entries": entries(books),
    }
