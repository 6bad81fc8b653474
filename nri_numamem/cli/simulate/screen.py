"""A played scenario for people: the request, the result and the nodes of each step.

A refusal has a table of the nodes and why each does not fit; nodes with the same cause share a
line.
"""

from collections.abc import Mapping, Sequence

from rich.table import Column, Table

from nri_numamem.cli.render.bars import numeric, plain_table
from nri_numamem.cli.render.screen import Screen
from nri_numamem.cli.render.texts import strategy_text
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.engine.core.text import escape
from nri_numamem.engine.records.plain import plain
from nri_numamem.memorymanager import ContainerKind, NodeVerdict, Rejection, State
from nri_numamem.memorymanager.remedy import Remedy
from nri_numamem.memorymanager.state_json import state_json
from nri_numamem.numa import NodeSet, format_quantity, humanize_bytes
from nri_numamem.scenario.outcome import ConfinedResult, CpusResult, Outcome, StrategyResult
from nri_numamem.scenario.scenario import Scenario
from nri_numamem.scenario.steps import Admit, Remove, Resize, Retry, Step, Stop
from nri_numamem.scenario.values import ScenarioPod

_NOTHING = "nothing"
_KINDS = {
    ContainerKind.INIT: " (init)",
    ContainerKind.RESTARTABLE_INIT: " (sidecar)",
    ContainerKind.APP: "",
}


def show_summary(scenario: Scenario, outcomes: Sequence[Outcome]) -> None:
    """Print one line per step, for large machines and long scenarios."""
    screen = Screen()
    for number, outcome in enumerate(outcomes, start=1):
        screen.text(f"{number}. {_title(scenario, outcome.step)}: {_summary(outcome)}")


def _summary(outcome: Outcome) -> str:
    """Return the result of a step in a few words."""
    if outcome.retried is not None:
        return "; ".join(_summary(each) for each in outcome.retried.values()) or "nothing to retry"
    texts = [
        f"{name} {_not_managed(outcome, name) if mems is None else f'on {mems}'}"
        f"{_mode(outcome, name)}"
        for name, mems in (outcome.cpuset_mems or {}).items()
    ]
    texts += [f"{name} rejected" for name in outcome.refused]
    if outcome.rejection is not None and not outcome.refused:
        texts.append("rejected")
    return ", ".join(texts) or "done"


def _not_managed(outcome: Outcome, container: str) -> str:
    found = outcome.found.confined.get(container)
    return "not managed" if found is None else f"not managed, {confined_text(found)}"


def confined_text(found: ConfinedResult) -> str:
    """Return "confined to nodes 2-3 by partition web"."""
    return f"confined to {format_nodes(found.nodes)} by partition {found.partition}"


def _mode(outcome: Outcome, container: str) -> str:
    results = outcome.found.memory_policies.get(container, ())
    texts = [each.policy for each in results if not each.cause]
    cpus = outcome.found.cpus.get(container)
    if cpus is not None and cpus.cpus:
        texts.append(f"CPUs {cpus.cpus}")
    return "".join(f" ({text})" for text in texts)


def show(scenario: Scenario, outcomes: Sequence[Outcome]) -> None:
    """Print the whole play on standard output."""
    screen = Screen()
    names = {uid: pod.name for uid, pod in scenario.pods.items()}
    before = state_json(scenario.accounting)
    has_nodes = bool(scenario.accounting.machine_state)
    if has_nodes:
        screen.heading(f"The machine; {_describe_settings(scenario)}")
        screen.accounting(before, None, names)
        _show_classes(screen, scenario)
        screen.legend()
    earlier = scenario.accounting
    for number, outcome in enumerate(outcomes, start=1):
        screen.heading(f"{number}. {_title(scenario, outcome.step)}")
        _show_outcome(screen, scenario, earlier, outcome)
        if has_nodes:
            after = state_json(outcome.accounting)
            screen.accounting(after, before, names)
            before = after
        earlier = outcome.accounting


def _show_classes(screen: Screen, scenario: Scenario) -> None:
    """Print the nodes that are excluded, or used only as a last resort."""
    classification = scenario.context.classification
    uses = {"excluded": classification.excluded, "last resort": classification.last_resort}
    for use, nodes in uses.items():
        if nodes:
            classes = sorted({classification.classes[node_id].value for node_id in nodes})
            screen.labelled("nodes", f"{nodes} {use} by memoryNodes: {', '.join(classes)}")


def _describe_settings(scenario: Scenario) -> str:
    settings = scenario.settings
    if not scenario.context.is_static:
        return "memoryManagerPolicy None"
    policy, scope = settings.topology_manager_policy, settings.topology_manager_scope
    return f"topologyManagerPolicy {policy}, scope {scope}"


def _title(scenario: Scenario, step: Step) -> str:
    match step:
        case Admit():
            return f"Admit {_pod(scenario, step.uid)}"
        case Resize():
            return f"Resize container {step.container} of {_pod(scenario, step.uid)}"
        case Stop():
            return f"Stop container {step.container} of {_pod(scenario, step.uid)}"
        case Retry(uid=uid):
            pods = "all pods" if uid is None else _pod(scenario, uid)
            return f"Retry the refused containers of {pods}"
        case Remove():
            return f"Remove {_pod(scenario, step.uid)}"


def _pod(scenario: Scenario, uid: str) -> str:
    pod = scenario.pods.get(uid)
    return f"pod {uid}" if pod is None else f"pod {pod.namespace}/{pod.name}"


def _show_outcome(screen: Screen, scenario: Scenario, before: State, outcome: Outcome) -> None:
    step = outcome.step
    if isinstance(step, Resize):
        screen.labelled("request", f"memory {format_quantity(step.memory_bytes)}")
    elif isinstance(step, Stop):
        screen.labelled("kept", _held(outcome.accounting, step.uid, step.container))
        return
    elif isinstance(step, Admit):
        screen.labelled("request", _requested(scenario.pods[step.uid]))
    if isinstance(step, Remove):
        held = before.assignments.get(step.uid, {})
        texts = [
            f"{name}: {_held(before, step.uid, name)}" for name in held if isinstance(name, str)
        ]
        screen.labelled("released", "; ".join(texts) or _NOTHING)
    elif isinstance(step, Retry):
        _show_retried(screen, scenario, outcome)
    elif outcome.rejection is not None:
        _show_mems(screen, outcome)
        _show_rejections(screen, outcome, outcome.rejection)
    else:
        _show_mems(screen, outcome)
        for rejection in (outcome.unpinned or {}).values():
            show_rejection(screen, "reason", rejection)


def _show_mems(screen: Screen, outcome: Outcome) -> None:
    if outcome.pod_strategy is not None:
        screen.labelled("strategy", f"the pod: {_strategy(outcome.pod_strategy)}")
    for name, mems in (outcome.cpuset_mems or {}).items():
        text = _not_managed(outcome, name) if mems is None else f"cpuset.mems {mems}"
        results = outcome.found.memory_policies.get(name, ())
        for each in results:
            if not each.cause:
                where = f" on nodes {each.nodes}" if each.nodes else ""
                text += f", memory policy {each.policy}{where}"
        cpus = outcome.found.cpus.get(name, CpusResult())
        text += f", cpuset.cpus {cpus.cpus}" if cpus.cpus else ""
        screen.labelled("result", f"{name}: {text}", "" if mems is None else "green")
        for each in results:
            if each.cause:
                problem = f"{name}: without the memory policy {each.policy}: {each.cause}"
                screen.labelled("warning", problem, "yellow")
        if name in outcome.found.strategies:
            text = _strategy(outcome.found.strategies[name])
            screen.labelled("strategy", f"{name}: {text}")
        if cpus.cause:
            problem = "these CPUs may not suffice" if cpus.cpus else "without cpuset.cpus"
            screen.labelled("warning", f"{name}: {problem}: {cpus.cause}", "yellow")
    for name, remote in outcome.found.misaligned.items():
        away = ", ".join(f"{what} on {_listed(nodes)}" for what, nodes in plain(remote).items())
        screen.labelled("warning", f"{name}: its memory is on no node of its {away}", "yellow")


def _strategy(found: StrategyResult) -> str:
    return strategy_text(found.strategy, found.source, found.equal_nodes)


def _listed(nodes: object) -> str:
    return " and ".join(map(str, nodes)) if isinstance(nodes, list) else str(nodes)


def _show_rejections(screen: Screen, outcome: Outcome, first: Rejection) -> None:
    """Show why containers were refused; name them if the pod has others."""
    if len(outcome.refused) + len(outcome.cpuset_mems or ()) < 2:
        show_rejection(screen, "rejected", first)
        return
    for name, rejection in outcome.refused.items():
        show_rejection(screen, "rejected", rejection, f"{name}: ")
    if outcome.cpuset_mems:
        text = f"the kubelet creates {', '.join(outcome.refused)} again; the others keep running"
        screen.labelled("then", text)


def _show_retried(screen: Screen, scenario: Scenario, outcome: Outcome) -> None:
    if not outcome.retried:
        screen.labelled("result", "no container was refused before")
    for uid, retried in (outcome.retried or {}).items():
        screen.labelled("pod", _pod(scenario, uid).removeprefix("pod "))
        _show_mems(screen, retried)
        if retried.rejection is not None:
            _show_rejections(screen, retried, retried.rejection)


def _requested(pod: ScenarioPod) -> str:
    named = [
        f"{container.name}{_KINDS[container.kind]} {amounts_text(container.requests)}"
        for container in pod.pod.containers
    ]
    return f"{pod.qos}; {'; '.join(named)}"


def amounts_text(amounts: Mapping[str, int]) -> str:
    """Return amounts as one line."""
    texts = [f"{resource} {format_quantity(size)}" for resource, size in amounts.items()]
    return ", ".join(texts) or "nothing"


def _held(accounting: State, uid: str, container: str) -> str:
    blocks = accounting.blocks(uid, container)
    if blocks is None:
        return _NOTHING
    return ", ".join(
        f"{b.type} {format_quantity(b.size)} on nodes {b.numa_affinity}" for b in blocks
    )


def show_rejection(
    screen: Screen,
    label: str,
    rejection: Rejection,
    who: str = "",
    *,
    has_table: bool = True,
    remedies: Sequence[Remedy] = (),
) -> None:
    """Print why a container was rejected, why each node was passed over, and what helps.

    `remedies` replace those of the rejection.
    """
    problem = rejection.summary
    screen.labelled(label, f"{who}{rejection.reason}: {problem}", "red")
    verdicts = rejection.explanation.per_node
    if verdicts and has_table:
        screen.shown(_verdicts(verdicts))
    for index, remedy in enumerate(remedies or rejection.remedies):
        text = f"or {remedy.text}" if index else remedy.text
        screen.labelled("" if index else "remedy", escape(text))


def _verdicts(verdicts: Sequence[NodeVerdict]) -> Table:
    table = plain_table(
        Column("nodes", overflow="fold", max_width=24),
        *(numeric(f"{resource} free") for resource in verdicts[0].tables),
        Column("why it was passed over"),
    )
    nodes: dict[tuple[str, ...], list[int]] = {}
    for verdict in verdicts:
        cells = [
            f"{humanize_bytes(t.free)} of {humanize_bytes(t.allocatable)}"
            for t in verdict.tables.values()
        ]
        nodes.setdefault((*cells, verdict.reason.text), []).append(verdict.node_id)
    for texts, ids in nodes.items():
        table.add_row(str(NodeSet(ids)), *texts)
    return table
