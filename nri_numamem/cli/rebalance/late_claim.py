"""A resource claim that was refused when it was prepared."""

import argparse
from pathlib import Path

from nri_numamem.cli.earmark import Target
from nri_numamem.cli.host_arguments import roots_of
from nri_numamem.cli.live.facts import Facts, pod_names
from nri_numamem.cli.live.rebalancing import plan_on
from nri_numamem.config.errors import UsageError
from nri_numamem.engine.core.earmarks import Beneficiary
from nri_numamem.host.movable_memory import movable_memory
from nri_numamem.memorymanager import State
from nri_numamem.memorymanager.claims import Claim, nodes_of, prepare
from nri_numamem.numa import NodeSet
from nri_numamem.numa.quantity import sum_mappings
from nri_numamem.observe import claim_files
from nri_numamem.observe.claim_files import ClaimFileError

_SHOWN = 5


def late_claim(args: argparse.Namespace, facts: Facts) -> Target:
    """Return the refused claim of ``--claim`` with its plan; raise UsageError.

    The scheduler has chosen its NUMA nodes, so pods that hold memory there have to move.
    """
    claim = _refused(args.claim, facts)
    problem = facts.machine_problem or facts.state_problem or facts.plugin_problem
    context, state = facts.context, facts.state
    if problem or context is None or state is None:
        raise UsageError(f"{problem or 'there is no state file'}; see nri-numamem status")
    nodes, amounts = nodes_of(claim.amounts), sum_mappings(claim.amounts.values())

    def place(accounting: State) -> NodeSet | None:
        is_charged = isinstance(prepare(accounting, claim.uid, claim.amounts), State)
        return nodes if is_charged else None

    pods = state.accounting.assignments.keys() - state.claims.keys()
    plan = plan_on(context, state, movable_memory(roots_of(args)), pods, place)
    beneficiary = Beneficiary(claim.namespace, claim.uid, claim.name)
    return Target(beneficiary, nodes, amounts, plan, pod_names(state))


def _refused(wanted: str, facts: Facts) -> Claim:
    if not facts.state_file:
        raise UsageError('stateFile is "", so there are no files of claims')
    directory = claim_files.directory_of(Path(facts.state_file))
    try:
        intents, replies = claim_files.read_intents(directory), claim_files.read_answers(directory)
    except ClaimFileError as error:
        raise UsageError(f"{error}; restart agent and plugin") from error
    refused = [
        intent.claim
        for intent in intents.found
        if (reply := replies.get(intent.claim.uid)) is not None and reply.refusal
    ]
    found = [claim for claim in refused if wanted in (claim.uid, claim.name, str(claim))]
    if len(found) == 1:
        return found[0]
    names = ", ".join(sorted(map(str, found or refused))[:_SHOWN])
    if found:
        raise UsageError(f"--claim: {wanted} is the name of several claims; give one of {names}")
    remedy = f"refused are {names}" if names else "no claim is refused on this host"
    raise UsageError(f"--claim: no claim {wanted[:80]} is refused; {remedy}")
