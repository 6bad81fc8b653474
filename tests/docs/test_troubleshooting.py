"""docs/troubleshooting.md has the texts of refusals, and the events that need an operator."""

import re
from pathlib import Path

import pytest

from nri_numamem.engine.records.record import Level, meanings_of
from nri_numamem.memorymanager import rejection
from tests.engine.records.examples import EVENTS

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/troubleshooting.md").read_text()
# Without the fenced blocks, whose marks are not those of code in a line.
CODED = set(
    re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```", "", TEXT, flags=re.DOTALL | re.MULTILINE))
)

# What an operator cannot act on, or needs no page for: bugs, and records beside a described one.
NOT_LISTED = {
    "accounting_invariant_violated",
    "capabilities_kept",
    "commit_timed_out",
    "configuration_failed_exiting",
    "connection_closed_by_plugin",
    "container_cgroup_unreadable",
    "duplicate_container",
    "hugepage_pools_unreadable",
    "internal_error_after_reply",
    "job_failed",
    "lock_restored",
    "lock_unavailable",
    "machine_change_rejected",
    "machine_monitor_failed",
    "machine_unreadable",
    "metrics_endpoint_failed",
    "metrics_textfile_failed",
    "no_node_has_cpus",
    "not_started",
    "plugin_exited",
    "pod_adopted",
    "pod_cgroup_unreadable",
    "pod_rejected",
    "protobuf_vulnerable",
    "rejected",
    "reservation_without_effect",
    "resized",
    "restart_failed",
    "restarting_after_crash",
    "restarting_after_disconnect",
    "stale_reservation_dropped",
    "state_file_unreadable",
    "supervisor_unavailable",
    "synchronize_timed_out",
    "synchronize_too_large",
}


def test_events_that_need_an_operator_are_listed() -> None:
    events = {
        str(name)
        for name, event in EVENTS.items()
        if {event.usual_level, event.alternate_level and event.alternate_level.level}
        & {Level.WARNING, Level.ERROR}
    }
    listed = {word for text in CODED for word in re.findall(r"[a-z_]+", text)}
    assert sorted(events - listed) == sorted(NOT_LISTED)


KNOWN = (
    {*EVENTS}
    | {field for event in EVENTS.values() for field in meanings_of(event)}
    | {"nr_hugepages", "plugin_request_timeout"}
    | {"plugin_registration_timeout", "nri_plugin_registration_timeout"}
)


@pytest.mark.parametrize("text", sorted(CODED))
def test_names_exist(text: str) -> None:
    names = {
        word for word in re.findall(r"[\w./]+", text) if re.fullmatch(r"[a-z]+(_[a-z]+)+", word)
    }
    assert not names - KNOWN


# Parts of the texts that the code makes, of which the page has an example.
SOURCES = {
    "memorymanager/rejection.py": (
        "exceeds all NUMA nodes together",
        "fits on 1 empty NUMA node",
        "without topology constraints it would fit on",
        "which is unexpected",
        "so that the pod does not start in part",
    ),
    "memorymanager/node_reasons.py": (
        "blocks a group",
        "short, even if empty",
        "only movable memory (ZONE_MOVABLE), usable only with another node",
        "not enough together with the other nodes",
    ),
    "memorymanager/node_verdicts.py": ("used outside of pods",),
    "engine/admission/placement.py": ("the pod's memory is on",),
}


@pytest.mark.parametrize(
    ("module", "text"), [(module, text) for module, texts in SOURCES.items() for text in texts]
)
def test_texts_of_refusals(module: str, text: str) -> None:
    assert text in (ROOT / "nri_numamem" / module).read_text()
    assert text in CODED


def test_the_sentence_of_a_strict_policy() -> None:
    assert rejection.NOT_ALIGNED in CODED


@pytest.mark.parametrize("page", ["troubleshooting", "migration"])
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / f"docs/{page}.md").read_text()
    for target, anchor in re.findall(r"\]\(([^)#]+)(?:#([^)]*))?\)", text):
        linked = (ROOT / "docs" / target).read_text()
        headings = re.findall(r"^#+ (.*)$", linked, re.MULTILINE)
        slugs = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert not anchor or anchor in slugs, f"{target}#{anchor}"
