"""Tried objects of Kubernetes, for people."""

from collections.abc import Iterator, Mapping

from nri_numamem.cli.live.rebalancing import BY_HAND, sentence
from nri_numamem.cli.render.screen import Screen
from nri_numamem.cli.render.texts import listed
from nri_numamem.cli.simulate.screen import amounts_text, confined_text, show_rejection
from nri_numamem.cli.simulate.workloads import Result, Trial
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.engine.core.text import escape
from nri_numamem.memorymanager.state_json import state_json
from nri_numamem.numa import NodeSet
from nri_numamem.scenario.outcome import ConfinedResult

# Of pods that fit on the same nodes.
_NAMES_SHOWN = 3


def show(result: Result, title: str, *, is_summary: bool) -> None:
    """Print the machine and each trial; with `is_summary` without the tables of nodes."""
    screen = Screen()
    before = state_json(result.before)
    screen.heading(title)
    if not is_summary:
        screen.accounting(before, None, result.pod_names)
        screen.legend()
    for number, (trial, accounting) in enumerate(
        zip(result.trials, result.accountings, strict=True), start=1
    ):
        title = f"{number}. {escape(_title(trial))}: {verdict(trial)}"
        if is_summary:
            screen.text(title)
        else:
            screen.heading(title)
            screen.labelled("request", escape(_request(trial)))
        for text in _places(trial):
            screen.labelled("result", escape(text), "green")
        if trial.rejection is not None:
            show_rejection(
                screen,
                "rejected",
                trial.rejection,
                has_table=not is_summary,
                remedies=trial.remedies,
            )
        if trial.plan is not None:
            screen.labelled("plan", escape(sentence(trial.plan, result.names)))
            if trial.plan.moves:
                screen.labelled("", BY_HAND)
        if not is_summary:
            after = state_json(accounting)
            screen.accounting(after, before, result.pod_names)
            before = after
    screen.text("CPUs and devices are not considered.")


def verdict(trial: Trial) -> str:
    """Return whether the pods of an object fit."""
    wanted, fit = trial.workload.replicas, len(trial.placed)
    if trial.runs_on is not None:
        return "runs already"
    if trial.placed and not any(any(mems.values()) for _, mems in trial.placed):
        return "not managed"
    if wanted == 1:
        return "fits" if trial.fits else "does not fit"
    return f"{fit} of {wanted} pods fit"


def _title(trial: Trial) -> str:
    workload = trial.workload
    return f"{workload.kind} {workload.namespace}/{workload.name}"


def _request(trial: Trial) -> str:
    containers = [
        f"{container.name} {amounts_text(container.requests)}"
        for container in trial.pod.pod.containers
    ]
    return f"{trial.pod.qos}; {'; '.join(containers)}"


def _places(trial: Trial) -> Iterator[str]:
    """Yield where the pods fit; pods with the same nodes are one text."""
    if trial.runs_on is not None:
        yield f"on {format_nodes(trial.runs_on)}"
    by_place: dict[str, list[str]] = {}
    for name, mems in trial.placed:
        by_place.setdefault(_place(mems, trial.confined), []).append(name)
    for place, names in by_place.items():
        if trial.workload.replicas == 1:
            yield place
            continue
        yield f"{listed(names, _NAMES_SHOWN)}: {place}"


def _place(mems: Mapping[str, str | None], confined: Mapping[str, ConfinedResult]) -> str:
    """Return "c on node 0" for each container; "not managed" if none gets nodes."""
    if not any(mems.values()) and not confined:
        return "gets no nodes: the plugin does not manage it"
    return ", ".join(f"{name} {_nodes(mems[name], confined.get(name))}" for name in mems)


def _nodes(mems: str | None, confined: ConfinedResult | None) -> str:
    if mems is not None:
        return f"on {format_nodes(NodeSet.parse(mems))}"
    return "not managed" if confined is None else confined_text(confined)
