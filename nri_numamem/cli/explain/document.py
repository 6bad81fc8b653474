"""A story as a document for ``--output json`` and ``yaml``; docs/explain.md describes it."""

from nri_numamem.cli.explain.rebalancing import Plans
from nri_numamem.cli.explain.story import Away, ContainerStory, Story, outcome_of
from nri_numamem.cli.live.outside import use_document
from nri_numamem.cli.live.rebalancing import document as rebalancing_document
from nri_numamem.cli.render.texts import format_time
from nri_numamem.observe.history.records import Recorded

VERSION = 1


def document_of(story: Story, plans: Plans | None = None) -> dict[str, object]:
    """Return the document."""
    plans = plans or Plans()
    return {
        "version": VERSION,
        "query": story.query.text,
        "history": {
            "begins": _time(story.begins_s),
            "ends": _time(story.ends_s),
            "skippedLines": story.skipped_lines,
        },
        "pluginRuns": story.is_running,
        "away": [_away(one) for one in story.away],
        "containers": [_container(one, plans) for one in story.containers],
        "earlierPodUids": list(story.earlier_uids),
        "didYouMean": story.suggestion or None,
    }


def _container(story: ContainerStory, plans: Plans) -> dict[str, object]:
    names, refusals = story.names, story.refusals
    plan, advice = plans.of(names), plans.advice(story)
    return {
        "namespace": names.namespace,
        "pod": names.pod,
        "podUid": names.pod_uid,
        "container": names.container,
        "outcome": story.outcome.value,
        "repeated": None
        if refusals is None
        else {
            "count": refusals.count,
            "first": _time(refusals.first_s),
            "last": _time(refusals.last_s),
        },
        "decisions": [_entry(entry) for entry in story.decisions],
        "later": [_entry(entry) for entry in story.later],
        "siblings": [_entry(entry) for entry in story.siblings],
        "usedOutsideOfPods": [use_document(use) for use in plans.outside_of(names).uses],
        "remedy": ", or ".join(advice.texts) or None,
        "remedies": [dict(each) for each in advice.remedies],
        "commands": list(advice.commands),
        "plan": None if plan is None else rebalancing_document(plan, plans.pods),
    }


def _entry(recorded: Recorded) -> dict[str, object]:
    outcome, entry = outcome_of(recorded), recorded.entry
    return {
        "time": _time(entry.time_s),
        "event": entry.event,
        "outcome": None if outcome is None else outcome.value,
        "requestId": entry.request_id or None,
        "fields": dict(entry.fields),
    }


def _away(away: Away) -> dict[str, object]:
    return {"since": _time(away.since_s), "until": _time(away.until_s), "cause": away.cause}


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else format_time(seconds)
