"""Tried objects of Kubernetes, for people."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from nri_numamem.cli.live.rebalancing import BY_HAND, sentence
from nri_numamem.cli.render.screen import Screen
from nri_numamem.cli.render.texts import listed
from nri_numamem.cli.simulate.claims import ClaimTrial
from nri_numamem.cli.simulate.screen import amounts_text, confined_text, show_rejection
from nri_numamem.cli.simulate.workloads import Result, Trial
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.engine.core.text import escape
from nri_numamem.export.claimfit import Device, Option
from nri_numamem.memorymanager.state_json import state_json
from nri_numamem.numa import NodeSet, humanize_bytes
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
            for claim in trial.claims:
                show_claim(screen, claim)
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


def show_claim(screen: Screen, trial: ClaimTrial) -> None:
    """Print a claim, and for each request which NUMA nodes have room for it."""
    kind, namespace, name = trial.claim.source
    text = f"{trial.claim.name}: {kind} {namespace}/{name}"
    if trial.fit is None:
        screen.labelled("claim", escape(f"{text}: {trial.problem}"))
        return
    screen.labelled("claim", escape(text))
    for option in dict.fromkeys(replace(option, name="") for option in trial.fit.options):
        count = f" on each of {option.count} NUMA nodes" if option.count > 1 else ""
        nodes = ", ".join(
            _room(option, device)
            for device in sorted(trial.fit.devices, key=lambda each: each.node_id)
            if device.resource == option.resource
        )
        wanted = f"{option.resource} {humanize_bytes(option.size_bytes, round_up=True)}{count}"
        screen.labelled("", escape(f"{wanted}: {nodes or 'no NUMA node has it'}"))
    if trial.fit.others:
        screen.labelled("", escape(f"not considered: {', '.join(trial.fit.others)}"))
    if not trial.fits:
        problem = trial.problem or "no NUMA nodes have room for all requests: the pod stays Pending"
        screen.labelled("", escape(problem), "red")


def _room(option: Option, device: Device) -> str:
    """Return whether a device has room for a request, with amounts."""
    node = f"node {device.node_id}"
    short = option.size_bytes - device.free_bytes
    if short > 0:
        return f"{node} {humanize_bytes(short, round_up=True)} short"
    if not device.fits(option):
        return f"{node} not empty"
    return f"{node} has {humanize_bytes(device.free_bytes)}"


def verdict(trial: Trial) -> str:
    """Return whether the pods of an object fit."""
    wanted, fit = trial.workload.replicas, len(trial.placed)
    if any(each.fit is None for each in trial.claims):
        return "its claim cannot be evaluated"
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
