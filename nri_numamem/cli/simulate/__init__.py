"""``nri-numamem simulate``: where pods would be placed.

The engine that serves the runtime plays a scenario, without a runtime, root or NUMA hardware. The
default output is a picture after each step; ``--output json`` is one JSON object. FILE may also be
what ``kubectl get -o yaml`` prints: its pods are tried on an empty machine, or with ``--now`` on
this host as it is.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nri_numamem.cli.host_arguments import plugin_settings, roots_of
from nri_numamem.cli.live import collect as live
from nri_numamem.cli.machine_argument import add_machine_argument, machine_of
from nri_numamem.cli.output import DOCUMENT_VERSION, add_output_argument, print_document
from nri_numamem.cli.simulate.workloads import (
    Host,
    check_pod,
    try_workloads,
    workload_document,
)
from nri_numamem.config.documents import (
    load_document,
    load_documents,
    name_of,
    place_in,
    read_file,
)
from nri_numamem.config.errors import UsageError
from nri_numamem.config.policy import context_of
from nri_numamem.config.settings import Settings, SettingsError
from nri_numamem.engine.core.state import EngineState
from nri_numamem.host.movable_memory import movable_memory
from nri_numamem.host.sysfs import MachineError
from nri_numamem.kubelet.claims import claim_specs
from nri_numamem.kubelet.go_values import shown
from nri_numamem.kubelet.state_file import CheckpointError, parse_checkpoint, verify
from nri_numamem.kubelet.workload import (
    KINDS,
    Workload,
    WorkloadError,
    is_kubernetes_object,
    workloads_of,
)
from nri_numamem.memorymanager.state_json import state_json
from nri_numamem.scenario.outcome import Outcome
from nri_numamem.scenario.player import play
from nri_numamem.scenario.scenario import (
    Scenario,
    ScenarioError,
    WrittenState,
    scenario_from_document,
)

EXAMPLES = (
    "nri-numamem simulate scenario.yaml",
    "nri-numamem simulate --now pod.yaml",
    "nri-numamem simulate --now --without shop/db-0 deployment.yaml",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options."""
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help="a scenario in YAML or JSON, or objects as kubectl get -o yaml prints them (Pod, "
        "Deployment, StatefulSet, DaemonSet, Job, CronJob, List, with the templates of their "
        "resource claims); - is standard input",
    )
    add_output_argument(parser)
    parser.add_argument(
        "--summary", action="store_true", help="one line per step or object, without the nodes"
    )
    parser.add_argument(
        "--fail-on-refusal", action="store_true", help="exit status 1 if a pod does not fit"
    )
    parser.add_argument(
        "--state",
        metavar="FILE",
        type=Path,
        help="start a scenario from this memory_manager_state of a kubelet",
    )
    parser.add_argument(
        "--now",
        action="store_true",
        help="try the objects in FILE on this host in its present state: the plugin's state and "
        "settings, the machine, its hugepages",
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="POD",
        help="with --now: as if this pod had ended; NAMESPACE/NAME, NAME or uid",
    )
    add_machine_argument(parser)
    live.add_arguments(parser)
    parser.epilog = (
        "Exit status: 0, also if a pod is refused; 1 if a pod is refused and --fail-on-refusal is "
        "set; 2 if a file cannot be used."
    )


def main(args: argparse.Namespace) -> int:
    """Play the scenario, or try the objects; return the exit status."""
    content, origin = read_file(args.file), name_of(args.file)
    documents = load_documents(content, origin)
    if args.now or any(is_kubernetes_object(document) for document in documents):
        return _try_objects(args, content, documents)
    if args.without or args.machine is not None:
        option = "--without" if args.without else "--machine"
        raise UsageError(f"{option}: {origin} is a scenario; give objects of Kubernetes instead")
    return _play(args, load_scenario(content, origin, args.state))


def _play(args: argparse.Namespace, scenario: Scenario) -> int:
    outcomes = tuple(play(scenario))
    if args.output != "table":
        print_document(result_document(scenario, outcomes), args.output)
    else:
        from nri_numamem.cli.simulate import screen  # noqa: PLC0415 - only for people

        (screen.show_summary if args.summary else screen.show)(scenario, outcomes)
    is_refused = any(not outcome.document["ok"] for outcome in outcomes)
    return 1 if args.fail_on_refusal and is_refused else 0


def _try_objects(args: argparse.Namespace, content: bytes, documents: Sequence[object]) -> int:
    """Try objects of Kubernetes on this host, or on an empty machine."""
    origin = name_of(args.file)
    if args.state is not None:
        raise UsageError(f"--state: {origin} has objects of Kubernetes; give a scenario instead")
    if args.without and not args.now:
        raise UsageError("--without: only with --now; without it no pod runs on the machine")
    if args.now and args.machine is not None:
        raise UsageError("--machine: not with --now, which takes this host")
    workloads = _workloads(content, origin, documents)
    host, title = host_now(args) if args.now else _empty_host(args)
    host = replace(host, claim_specs=claim_specs(documents))
    result = try_workloads(host, workloads, args.without)
    if args.output != "table":
        print_document(workload_document(result), args.output)
    else:
        from nri_numamem.cli.simulate import workload_screen  # noqa: PLC0415 - only for people

        workload_screen.show(result, title, is_summary=args.summary)
    is_refused = not all(trial.fits for trial in result.trials)
    return 1 if args.fail_on_refusal and is_refused else 0


def workloads_in(content: bytes, origin: str) -> list[Workload]:
    """Return the objects in a file that make pods, at least one; raise UsageError."""
    return _workloads(content, origin, load_documents(content, origin))


def _workloads(content: bytes, origin: str, documents: Sequence[object]) -> list[Workload]:
    number = 0
    workloads: list[Workload] = []
    try:
        for number, document in enumerate(documents):  # noqa: B007 - for the place of an error
            for workload in workloads_of(document):
                check_pod(workload)
                workloads.append(workload)
    except (WorkloadError, SettingsError) as error:
        place = place_in(content, origin, error.path, number)
        raise UsageError(f"{place}: {error}") from error
    if not workloads:
        raise UsageError(f"{origin}: no pods; give a {', a '.join(KINDS[:4])}, a Job or a CronJob")
    return workloads


def host_now(args: argparse.Namespace) -> tuple[Host, str]:
    """Return this host with the plugin's state, and a title."""
    facts = live.collect(args)
    problem = facts.machine_problem or facts.state_problem or facts.plugin_problem
    if problem or facts.context is None:
        raise UsageError(f"{problem}; see nri-numamem status")
    state = facts.state or EngineState(facts.context.empty_accounting())
    title = "This host now"
    if facts.holder is None:
        title += "; the plugin does not run, so this is its last state"
    try:
        containers = movable_memory(roots_of(args))
    except MachineError as error:
        raise UsageError(str(error)) from error
    host = Host(facts.settings, facts.context, state, facts.pool_use, containers)
    return host, f"{title}; {_policy(facts.settings)}"


def _empty_host(args: argparse.Namespace) -> tuple[Host, str]:
    """Return a machine without pods, and a title."""
    settings, _ = plugin_settings(args.config, args.root)
    context = context_of(settings, machine_of(args.machine, roots_of(args)))
    host = Host(settings, context, EngineState(context.empty_accounting()))
    name = "This host" if args.machine is None else "The machine"
    return host, f"{name} without pods; {_policy(settings)}"


def _policy(settings: Settings) -> str:
    return f"{settings.topology_manager_policy}, scope {settings.topology_manager_scope}"


def load_scenario(content: bytes, origin: str, state_path: Path | None = None) -> Scenario:
    """Return the scenario in a document; UsageError names the place."""
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
    """Return the results as one object, with the accounting after the last step."""
    accounting = outcomes[-1].accounting if outcomes else scenario.accounting
    return {
        "version": DOCUMENT_VERSION,
        "steps": [outcome.document for outcome in outcomes],
        **state_json(accounting),
    }
