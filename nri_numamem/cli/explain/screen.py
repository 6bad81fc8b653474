"""A story for people."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from nri_numamem.cli.explain.advice import (
    amounts_text,
    free_on,
    obstacles_text,
    request_of,
    used_outside_on,
)
from nri_numamem.cli.explain.rebalancing import Plans
from nri_numamem.cli.explain.select import names_of
from nri_numamem.cli.explain.story import Away, ContainerStory, Outcome, Story, outcome_of
from nri_numamem.cli.live.rebalancing import BY_HAND, sentence
from nri_numamem.cli.render.duration import duration
from nri_numamem.cli.render.plain_table import plain_table
from nri_numamem.cli.render.screen import Screen
from nri_numamem.cli.render.strategy import strategy_text
from nri_numamem.cli.render.times import time_text
from nri_numamem.engine.core.text import escape
from nri_numamem.numa import humanize_bytes
from nri_numamem.numa.quantity import HUGEPAGES_PREFIX, MEMORY
from nri_numamem.observe.history.lines import Entry

_OUTCOMES = {
    Outcome.PLACED: "placed",
    Outcome.REFUSED: "refused",
    Outcome.UNPINNED: "runs unpinned",
    Outcome.NOT_MANAGED: "not managed",
    Outcome.UNKNOWN: "no decision in the history",
}

_POLICIES = {
    "unpinned_no_capacity": "whenUnsatisfiable is RunUnpinned, and nothing fits",
    "running_unpinned_no_capacity": "it was created while the plugin was away, and nothing fits",
    "unreported_container_found": "the runtime did not report it, and nothing fits",
    "request_timed_out": "its creation took too long, and got an empty reply",
    "internal_error": "a bug: its creation got an empty reply",
    "cpuset_mems_missing": "its cgroup has no cpuset.mems",
    "memory_policy_rejected": "its memory policy cannot be set",
    "burstable_not_pinned": "it could not be pinned",
    "burstable_unpinned": "a resize unpinned it",
}

# Of what came after a decision.
_LATER_LIMIT = 5


def show(story: Story, plans: Plans, screen: Screen, now_s: float, state_file: Path) -> None:
    """Print a story; `now_s` is Unix time, `state_file` the file beside which the history is."""
    if not story.containers:
        _show_unknown(story, screen, state_file)
    shown: set[str] = set()
    for container in story.containers:
        if container.outcome is not Outcome.NOT_MANAGED:
            _show_container(container, plans, screen)
        elif container.names.pod_uid not in shown:  # its section has all of the pod
            shown.add(container.names.pod_uid)
            _show_container(container, plans, screen)
    if story.earlier_uids:
        screen.text(
            f"{len(story.earlier_uids)} earlier pods with this name; the newest has the UID "
            f"{escape(story.earlier_uids[0])}, which can be named instead"
        )
    if story.away and story.away[-1].until_s is None:
        away = story.away[-1]
        since = f"{time_text(away.since_s)}, {duration(max(0.0, now_s - away.since_s))} ago"
        screen.heading(f"No plugin since {since}")
        screen.text(
            f"{away.cause[0].upper()}{away.cause[1:]}. What starts meanwhile runs unpinned, and is "
            "not in the history; the plugin pins it when it connects again, if it fits."
        )
    elif not story.is_running and story.ends_s is not None:
        screen.heading("No plugin runs")
        screen.text(f"The last entry of the history is of {time_text(story.ends_s)}.")
    if story.skipped_lines:
        screen.text(f"{story.skipped_lines} damaged lines of the history were skipped")


def _show_unknown(story: Story, screen: Screen, state_file: Path) -> None:
    screen.heading(f"{escape(story.query.text)}: never seen")
    if story.begins_s is None:
        screen.text(f"No history: the plugin has not run with the state file {state_file}.")
        return
    screen.text(
        f"The history begins {time_text(story.begins_s)}. It has Guaranteed containers, and "
        "Burstable ones if they or their pod have a memory limit. A pod without memory limits is "
        "not managed and not in it."
    )
    over = [away for away in story.away if away.until_s and away.until_s - away.since_s >= 1.0]
    if over:
        times = "; ".join(map(_away_text, over))
        screen.labelled("away", f"{times}. What started then was adopted or pinned afterwards.")
    if story.suggestion:
        screen.text(f"Did you mean {escape(story.suggestion)}?")


def _away_text(away: Away) -> str:
    return f"{time_text(away.since_s)} to {time_text(away.until_s or 0.0)} ({away.cause})"


def _show_container(story: ContainerStory, plans: Plans, screen: Screen) -> None:
    names = story.names
    what = f", container {escape(names.container)}" if names.container else ", the pod as a whole"
    if story.outcome is Outcome.NOT_MANAGED:
        what = ""
    screen.heading(f"{escape(names.full_pod)}{what}: {_OUTCOMES[story.outcome]}")
    refusals = story.refusals
    if refusals is not None and refusals.count > 1:
        screen.labelled(
            "repeated",
            f"at least {refusals.count} times, first {time_text(refusals.first_s)}, last "
            f"{time_text(refusals.last_s)}",
        )
    for entry in story.decisions:
        _show_decision(entry, story.siblings, screen)
    for entry in story.later[-_LATER_LIMIT:]:
        screen.labelled("later", f"{time_text(entry.time_s)}  {_later(entry)}")
    _show_present(story, plans, screen)


def _show_present(story: ContainerStory, plans: Plans, screen: Screen) -> None:
    """Print what the host shows now, and what to do."""
    plan = plans.of(story.names)
    for index, use in enumerate(plans.outside_of(story.names).uses):
        screen.labelled("" if index else "outside", escape(use.text))
    if plan is not None:
        screen.labelled("plan", escape(sentence(plan, plans.pods)))
        if plan.moves:
            screen.labelled("", BY_HAND)
    elif plans.problem and story.outcome is Outcome.REFUSED:
        screen.labelled("plan", f"unknown: {escape(plans.problem)}")
    advice = plans.advice(story)
    for index, text in enumerate(advice.texts):
        screen.labelled("" if index else "remedy", escape(f"or {text}" if index else text))
    for index, command in enumerate(advice.commands):
        screen.labelled("" if index else "try it", escape(command))


def _show_decision(entry: Entry, siblings: Sequence[Entry], screen: Screen) -> None:
    identifier = f"  [{escape(entry.request_id)}]" if entry.request_id else ""
    event = escape(entry.event.replace("_", " "))
    screen.labelled("when", f"{time_text(entry.time_s)}  {event}{identifier}")
    if outcome_of(entry) is Outcome.NOT_MANAGED:
        screen.labelled("because", escape(str(entry.fields.get("cause"))))
        for sibling in siblings:
            screen.labelled("", _sibling(sibling))
        return
    for label, text in _facts(entry):
        screen.labelled(label, escape(text))
    if entry.fields.get("candidates"):
        screen.shown(_candidates(entry))


def _sibling(entry: Entry) -> str:
    name = escape(names_of(entry).container)
    found = obstacles_text(entry)
    if found:
        return f"container {name} has {found}"
    if entry.fields.get("qos_class") == "Burstable":
        return f"container {name} has both limits; its memory request is unknown, NRI hides it"
    return f"container {name}"


def _facts(entry: Entry) -> Iterator[tuple[str, str]]:
    """Yield label and text of what a decision was about."""
    fields = entry.fields
    if entry.event in _POLICIES:
        yield "because", str(fields.get("cause") or _POLICIES[entry.event])
    request = request_of(entry)
    if request:
        whole = " for the whole pod" if fields.get("pod_request_bytes") else ""
        yield "request", f"{amounts_text(request)}{whole}"
    hints = fields.get("hints") or {}
    others = list(_others(hints))
    if others:
        yield "others", ", ".join(others)
    merged = fields.get("merged_hint")
    if isinstance(merged, dict):
        kind = "preferred" if merged.get("preferred") else "not preferred"
        yield "merged", f"{_nodes(merged.get('affinity') or 'any')}, {kind}"
    if fields.get("policy"):
        yield "policy", _policy(entry)
    if fields.get("previous_nodes"):
        yield "before", _nodes(fields["previous_nodes"])
    if fields.get("nodes"):
        yield "nodes", f"{fields['nodes']}{_adjustment(fields.get('adjustment'))}"
    if fields.get("strategy"):
        yield "strategy", strategy_text(fields)
    yield from _amounts(fields)


def _amounts(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if fields.get("shortfall_bytes"):
        yield "short", f"{amounts_text(fields['shortfall_bytes'])} more than is allocatable there"
    for holder in (fields.get("holders") or ())[:3]:
        where = _nodes(holder.get("nodes"))
        who = "/".join(str(holder.get(key)) for key in ("namespace", "pod", "container"))
        yield "holds", f"{who} has {amounts_text(holder['held_bytes'])} on {where}"


def _others(hints: Mapping[str, object]) -> Iterator[str]:
    """Yield a text for each hint of another provider than memory."""
    for name, nodes in hints.items():
        if isinstance(nodes, dict):
            yield from (f"network interface {each} on {_nodes(nodes[each])}" for each in nodes)
        elif name != MEMORY and nodes:
            yield f"{name} on {_nodes(nodes)}"


def _policy(entry: Entry) -> str:
    fields = entry.fields
    if entry.event == "memory_policy_rejected":
        return f"memory policy {fields['policy']}, by {fields.get('source')}"
    return f"topologyManagerPolicy {fields['policy']}; {fields.get('reason')}"


def _nodes(nodes: object) -> str:
    """Return "node 0", "nodes 0-1", or a list of those."""
    if isinstance(nodes, list):
        return " and ".join(map(_nodes, nodes))
    text = str(nodes)
    if not text[:1].isdigit():
        return f"{text} nodes"
    return f"node {text}" if text.isdecimal() else f"nodes {text}"


def _adjustment(value: object) -> str:
    if not isinstance(value, dict):
        return ""
    limits = value.get("hugepage_limits_bytes")
    return f"; hugepage limit {amounts_text(limits)}" if isinstance(limits, dict) else ""


def _candidates(entry: Entry) -> Table:
    """Return a table of the node sets that were considered."""
    request = request_of(entry) or {MEMORY: 0}
    is_after = outcome_of(entry) is Outcome.PLACED
    table = plain_table()
    table.add_column("nodes", justify="right", no_wrap=True)
    for name in request:
        heading = name if name == MEMORY else f"{name.removeprefix(HUGEPAGES_PREFIX)} pages"
        suffix = "free after" if is_after else "free"
        table.add_column(f"{heading} {suffix}", justify="right", no_wrap=True)
    table.add_column("rule", overflow="fold")
    for one in entry.fields["candidates"]:
        nodes = str(one.get("nodes"))
        free, used = free_on(entry, nodes), used_outside_on(entry, nodes)
        amounts = [humanize_bytes(free[name]) if name in free else "-" for name in request]
        # Histories of earlier versions have only the rule.
        reason = escape(str(one.get("reason") or str(one.get("rule")).replace("_", " ")))
        if used:
            amounts_used = ", ".join(f"{name} {humanize_bytes(n)}" for name, n in used.items())
            reason += f"; {amounts_used} used outside of pods"
        table.add_row(nodes, *amounts, reason)
    omitted = entry.fields.get("omitted_candidates")
    if omitted:
        table.add_row("...", *("" for _ in request), f"{omitted} more")
    return table


def _later(entry: Entry) -> str:
    text = escape(entry.event.replace("_", " "))
    for key in ("policy", "source", "nodes", "cpus", "outcome", "cause"):
        value = entry.fields.get(key)
        if value:
            text += f", {key} {escape(str(value))}"
    for label, key in (("memory", "resident_bytes"), ("remote", "remote_bytes")):
        value = entry.fields.get(key)
        if isinstance(value, dict) and value:
            text += f", {label} {escape(_by_node(value))}"
    return text


def _by_node(amounts: Mapping[str, object]) -> str:
    """Return "64Mi on node 0 and 3Mi on node 1"."""
    known = ((node, size) for node, size in amounts.items() if isinstance(size, int))
    return " and ".join(f"{humanize_bytes(size)} on {_nodes(node)}" for node, size in known)
