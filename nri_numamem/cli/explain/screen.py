"""A story for people."""

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from nri_numamem.cli.decisions.names import names_of
from nri_numamem.cli.decisions.outcomes import (
    Considering,
    Outcome,
    amounts_text,
    outcome_of,
    request_of,
)
from nri_numamem.cli.decisions.unplaced import Unplaced
from nri_numamem.cli.explain.assigned import Assigned
from nri_numamem.cli.explain.decision import (
    facts_of,
    free_on,
    obstacles_text,
    pages_texts,
    used_outside_on,
)
from nri_numamem.cli.explain.rebalancing import Plans
from nri_numamem.cli.explain.story import Away, ContainerStory, Story
from nri_numamem.cli.live.rebalancing import BY_HAND, WITH_EARMARK, sentence
from nri_numamem.cli.render.bars import numeric, plain_table
from nri_numamem.cli.render.screen import Screen
from nri_numamem.cli.render.texts import duration, left_out_text, time_text
from nri_numamem.engine.core.text import escape
from nri_numamem.engine.features.residency import records as residency
from nri_numamem.engine.records import containers, running
from nri_numamem.engine.records.common import Decided
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.numa import humanize_bytes
from nri_numamem.numa.quantity import HUGEPAGES_PREFIX, MEMORY
from nri_numamem.observe.history.records import Recorded

_OUTCOMES = {
    Outcome.PLACED: "placed",
    Outcome.REFUSED: "refused",
    Outcome.UNPINNED: "runs unpinned",
    Outcome.NOT_MANAGED: "not managed",
    Outcome.UNKNOWN: "no decision in the history",
}

# Of what came after a decision.
_LATER_LIMIT = 5
LATER = ("policy", "source", "partition", "nodes", "cpus", "outcome", "cause")
"""Fields of events after a decision that are shown."""


def show(story: Story, plans: Plans, screen: Screen, now_s: float, state_file: Path) -> None:
    """Print a story; `now_s` is Unix time, `state_file` the file beside which the history is."""
    if story.is_empty:
        _show_unknown(story, screen, state_file)
    shown: set[str] = set()
    placed = {each.names.key for each in story.assigned}
    for container in story.containers:
        if container.names.key in placed and not container.decisions:
            continue  # shown from the state file
        if container.outcome is not Outcome.NOT_MANAGED:
            _show_container(container, plans, screen)
        elif container.names.pod_uid not in shown:  # its section has all of the pod
            shown.add(container.names.pod_uid)
            _show_container(container, plans, screen)
    for found in story.assigned:
        _show_assigned(found, story, screen)
    if story.earlier_uids:
        screen.text(
            f"Earlier pods with this name: {len(story.earlier_uids)}. To see the newest of them, "
            f"give its UID: {escape(story.earlier_uids[0])}"
        )
    _show_process(story, screen, now_s)
    if story.skipped_lines:
        screen.text(f"{story.skipped_lines} damaged lines of the history were skipped")


def _show_process(story: Story, screen: Screen, now_s: float) -> None:
    """Print since when no container is placed, unless a plugin is connected."""
    if story.away and story.away[-1].until_s is None:
        away = story.away[-1]
        since = f"{time_text(away.since_s)}, {duration(max(0.0, now_s - away.since_s))} ago"
        what = "The plugin waits for the runtime" if story.is_running else "No plugin"
        screen.heading(f"{what} since {since}")
        screen.text(
            f"{away.cause[0].upper()}{away.cause[1:]}. Containers that start now run "
            "unpinned and are not in the history. The plugin pins them when it connects again, if "
            "they fit."
        )
    elif not story.is_running and story.ends_s is not None:
        screen.heading("No plugin runs")
        screen.text(f"The last entry of the history is from {time_text(story.ends_s)}.")


def _show_assigned(found: Assigned, story: Story, screen: Screen) -> None:
    names = found.names
    condition = "ended, its memory is kept for its pod" if found.has_ended else "placed"
    pod = names.full_pod if names.pod else names.pod_uid
    screen.heading(f"{escape(pod)}, container {escape(names.container)}: {condition}")
    when = time_text(found.since_s) if found.since_s else "unknown"
    event = f"  {escape(found.event.replace('_', ' '))}" if found.event else ""
    screen.labelled("when", f"{when}{event}")
    screen.labelled("nodes", str(found.nodes))
    screen.labelled("memory", escape(amounts_text(found.amounts)))
    begins = "" if story.begins_s is None else f", which begins {time_text(story.begins_s)}"
    screen.labelled("because", f"unknown: the decision is not in the history{begins}")


def _show_unknown(story: Story, screen: Screen, state_file: Path) -> None:
    screen.heading(f"{escape(story.query.text)}: not in the history")
    if story.begins_s is None:
        screen.text(f"No history: the plugin has not run with the state file {state_file}.")
        return
    screen.text(
        f"The history begins {time_text(story.begins_s)}. It has Guaranteed containers, and "
        "Burstable ones if they or their pod have a memory limit. A pod without memory limits is "
        "not managed and not in the history."
    )
    over = [away for away in story.away if away.until_s and away.until_s - away.since_s >= 1.0]
    if over:
        times = "; ".join(map(_away_text, over))
        screen.labelled(
            "away", f"{times}. Containers that started then were adopted or pinned afterwards."
        )
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
    plan = plans.of(story.names).plan
    if plans.excluded and story.names.key in plans.present:
        screen.labelled("left out", left_out_text(plans.excluded))
    for index, use in enumerate(plans.of(story.names).outside.uses):
        screen.labelled("" if index else "outside", escape(use.text))
    for index, text in enumerate(plans.of(story.names).reserved):
        screen.labelled("" if index else "reserved", text)
    if plan is not None:
        screen.labelled("plan", escape(sentence(plan, plans.pods)))
        if plan.moves:
            with_earmark = WITH_EARMARK.format(pod=story.names.full_pod)
            screen.labelled("", escape(with_earmark) if plans.has_earmarks else BY_HAND)
    elif plans.problem and story.outcome is Outcome.REFUSED:
        screen.labelled("plan", f"unknown: {escape(plans.problem)}")
    advice = plans.advice(story)
    for index, text in enumerate(advice.texts):
        screen.labelled("" if index else "remedy", escape(f"or {text}" if index else text))
    for index, command in enumerate(advice.commands):
        screen.labelled("" if index else "try it", escape(command))


def _show_decision(entry: Recorded, siblings: Sequence[Recorded], screen: Screen) -> None:
    record = entry.record
    identifier = f"  [{escape(record.request_id)}]" if record.request_id else ""
    event = escape(record.event.replace("_", " "))
    screen.labelled("when", f"{time_text(entry.time_s)}  {event}{identifier}")
    if isinstance(record, containers.NotManaged):
        screen.labelled("because", escape(record.cause))
        for sibling in siblings:
            screen.labelled("", _sibling(sibling))
        return
    for label, text in facts_of(entry):
        screen.labelled(label, escape(text))
    content = containers.content_of(record)
    if isinstance(content, Considering) and content.candidates:
        screen.shown(_candidates(entry, content))


def _sibling(entry: Recorded) -> str:
    name = escape(names_of(entry).container)
    found = obstacles_text(entry)
    if found:
        return f"container {name} has {found}"
    record = entry.record
    if isinstance(record, containers.NotManaged) and record.qos_class == "Burstable":
        return (
            f"container {name} has both limits; its memory request is unknown: NRI does not show it"
        )
    return f"container {name}"


def _candidates(entry: Recorded, content: Considering) -> Table:
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
    for one in content.candidates:
        free, used = free_on(entry, one.nodes), used_outside_on(entry, one.nodes)
        amounts = [humanize_bytes(free[name]) if name in free else "-" for name in request]
        reason = escape(one.reason)
        if used:
            amounts_used = ", ".join(f"{name} {humanize_bytes(n)}" for name, n in used.items())
            reason += f"; {amounts_used} used outside of pods"
        table.add_row(str(one.nodes), *amounts, reason)
    omitted = content.considered.value.omitted_candidates if isinstance(content, Decided) else 0
    if omitted:
        table.add_row("...", *("" for _ in request), f"{omitted} more")
    return table


def _later(entry: Recorded) -> str:
    """Return an event after the decision, with the fields that say what it changed."""
    text = escape(entry.record.event.replace("_", " "))
    shown = fields_of(entry.record)
    for key in LATER:
        if shown.get(key):
            text += f", {key} {escape(str(shown[key]))}"
    match entry.record:
        case (
            running.CpusetMemsMissing(pages=pages)
            | running.CpusetMemsRestored(pages=pages)
            | residency.RemoteMemoryFound(pages=pages)
            | residency.RemoteMemoryCleared(pages=pages)
        ) if pages is not None:
            return ", ".join((text, *pages_texts(pages)))
        case _:
            return text


def show_unplaced(found: Sequence[Unplaced], screen: Screen, now_s: float) -> None:
    """Print a table; `now_s` is Unix time."""
    if not found:
        screen.heading("No container was refused or runs unpinned, as far as the history reaches")
        return
    screen.heading("Containers without NUMA nodes, by their last decision")
    table = plain_table("pod", "container", "", numeric("times"), "last", "request")
    for each in found:
        ago = f"{duration(max(0.0, now_s - each.refusals.last_s))} ago"
        gone = ", pod gone" if each.is_present is False else ""
        table.add_row(
            escape(each.names.full_pod),
            escape(each.names.container) or "(whole pod)",
            f"{_OUTCOMES[each.outcome]}{gone}",
            str(each.refusals.count),
            ago,
            amounts_text(each.request),
        )
    screen.shown(table)
    screen.text("nri-numamem explain NAMESPACE/POD says why, and what to do.")
