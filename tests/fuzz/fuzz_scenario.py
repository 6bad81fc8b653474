"""Scenario documents in YAML or JSON: they can be played, or cause an error of one line."""

import json

from nri_numamem.config.documents import load_document
from nri_numamem.config.errors import UsageError
from nri_numamem.memorymanager import check_accounting, check_groups
from nri_numamem.scenario.player import play
from nri_numamem.scenario.scenario import ScenarioError, scenario_from_document
from tests.fuzz.checks import check_one_line

# Every subset of the nodes is a hint, so a large machine takes long without a bug.
_NODES_MOST = 8


def one_input(data: bytes) -> None:
    """Read a scenario and play it."""
    try:
        scenario = scenario_from_document(load_document(data, "scenario"))
    except (UsageError, ScenarioError) as error:
        check_one_line(error)
        return
    if len(scenario.accounting.machine_state) > _NODES_MOST:
        return
    is_ours = not scenario.written.machine_state and not scenario.written.entries
    for outcome in play(scenario):
        json.dumps(outcome.document)
        # The accounting of a document need not be consistent.
        if is_ours:
            assert check_accounting(outcome.accounting) == ()
            assert check_groups(outcome.accounting) == ()
