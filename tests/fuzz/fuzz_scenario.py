"""Scenario documents, YAML or JSON: played to the end, or one line that names the place."""

import json

from nri_numamem.cli.documents import load_document
from nri_numamem.cli.errors import UsageError
from nri_numamem.engine.scenario import ScenarioError, play, scenario_from_document
from nri_numamem.memorymanager import check_books, check_groups
from tests.fuzz.checks import check_one_line

# Every subset of the nodes is a hint; what takes long by its nature is none of a fuzzer's finds.
_NODES_MOST = 8


def one_input(data: bytes) -> None:
    """Read a scenario and play it."""
    try:
        scenario = scenario_from_document(load_document(data, "scenario"))
    except (UsageError, ScenarioError) as error:
        check_one_line(error)
        return
    if len(scenario.books.machine_state) > _NODES_MOST:
        return
    is_ours = not scenario.written.machine_state and not scenario.written.entries
    for outcome in play(scenario):
        json.dumps(outcome.document)
        # Books that somebody else wrote need not add up.
        if is_ours:
            assert check_books(outcome.books) == ()
            assert check_groups(outcome.books) == ()
