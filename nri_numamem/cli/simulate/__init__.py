"""``nri-numamem simulate``: where pods would be placed on a described machine.

The engine that serves the runtime plays the scenario, without a runtime, root or NUMA hardware.
The default output is a picture after each step; ``--output json`` is one JSON object. With
``--over-nri`` a fake runtime sends the same pods to a plugin process over a socket, and the results
must be equal.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from nri_numamem.config.documents import load_document, name_of, place_in, read_file
from nri_numamem.config.errors import UsageError
from nri_numamem.kubelet.go_values import shown
from nri_numamem.kubelet.state_file import CheckpointError, parse_checkpoint, verify
from nri_numamem.memorymanager.state_json import state_json
from nri_numamem.scenario.outcome import Outcome
from nri_numamem.scenario.player import play
from nri_numamem.scenario.scenario import Scenario, ScenarioError, scenario_from_document
from nri_numamem.scenario.state import WrittenState

EXAMPLES = (
    "nri-numamem simulate scenario.yaml",
    "nri-numamem simulate scenario.yaml --state /var/lib/kubelet/memory_manager_state",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options."""
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="a scenario in YAML or JSON; - is standard input"
    )
    parser.add_argument(
        "--output", choices=("table", "json"), default="table", help="format (default: table)"
    )
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
        from nri_numamem.cli.simulate.nri import compare_over_nri  # noqa: PLC0415 - costly

        differences = compare_over_nri(scenario, outcomes, name_of(args.file))
    if args.output == "json":
        print(json.dumps(result_document(scenario, outcomes), indent=2))
    else:
        from nri_numamem.cli.simulate.screen import show  # noqa: PLC0415 - only for people

        show(scenario, outcomes)
    for difference in differences:
        print(f"nri-numamem: {name_of(args.file)}: {difference}", file=sys.stderr)
    return 1 if differences else 0


def load_scenario(path: Path, state_path: Path | None = None) -> Scenario:
    """Return the scenario in a file, or standard input; UsageError names the place."""
    origin = name_of(path)
    content = read_file(path)
    document = load_document(content, origin)
    state = None if state_path is None else _state_from(state_path)
    try:
        return scenario_from_document(document, state)
    except ScenarioError as error:
        raise UsageError(f"{place_in(content, origin, error.path)}: {error}") from error


def _state_from(path: Path) -> WrittenState:
    """Return the state in a kubelet's state file; UsageError unless its checksum is right."""
    try:
        checkpoint = parse_checkpoint(read_file(path))
        verify(checkpoint)
    except CheckpointError as error:
        raise UsageError(f"{name_of(path)}: {error}") from error
    if checkpoint.pod_entries:
        uid = next(iter(checkpoint.pod_entries))
        problem = f"podEntries: pod {shown(uid)} holds memory as a whole, which cannot be simulated"
        raise UsageError(f"{path}: {problem}; give a state without pod-level resources")
    return WrittenState(checkpoint.machine_state or None, checkpoint.entries)


def result_document(scenario: Scenario, outcomes: Sequence[Outcome]) -> dict[str, object]:
    """Return the results as one JSON object, with the accounting after the last step."""
    accounting = outcomes[-1].accounting if outcomes else scenario.accounting
    return {
        "steps": [outcome.document for outcome in outcomes],
        **state_json(accounting),
    }
