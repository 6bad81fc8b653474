"""Events of pods from the history."""

import argparse
from pathlib import Path
from queue import SimpleQueue

import pytest

from nri_numamem.cli import export
from nri_numamem.cli.export.collect import HostInputs
from nri_numamem.cli.export.podevents import PodEvents, pod_events
from nri_numamem.export.conditions import Input, Problem
from nri_numamem.observe.files import beside
from nri_numamem.observe.history.lines import NAMES
from tests.cli.explain.stories import START_S, Past, recorded
from tests.cli.export.export_host import ExportHost

NAMES_OF = {"namespace": "ns", "pod": "p", "pod_uid": "u", "container": "c", "container_id": "i"}


def test_refusals_of_a_real_engine(tmp_path: Path) -> None:
    """The message has the command that shows more, the cause, and a remedy that was tried."""
    past = Past(tmp_path / "state.json")
    past.begin()
    reader = PodEvents()
    pod = past.pod("shop/b")
    for _ in range(3):
        assert past.create(pod, "main", 600)
    first, *_ = events = reader.read(past.state_file)
    assert {each.name for each in events} == {first.name}, "one Event for the retries"
    assert (first.namespace, first.reason) == ("shop", "NUMAMemoryRejected")
    assert first.time_s >= START_S
    assert first.message.startswith(
        "container main is refused; on its host `nri-numamem explain shop/b` shows all: requested "
    )
    assert "; remedy: " in first.message
    assert reader.read(past.state_file) == ()


@pytest.mark.parametrize(
    ("event", "fields", "reason", "message"),
    [
        (
            "running_unpinned_no_capacity",
            {"message": "node 0: full"},
            "NUMAMemoryUnpinned",
            "container c runs on all NUMA nodes; MORE: node 0: full",
        ),
        (
            "request_timed_out",
            {"qos_class": "Guaranteed", "sandbox_id": "s"},
            "NUMAMemoryUnpinned",
            (
                "container c runs on all NUMA nodes; MORE: its creation took too long and got an "
                "empty reply"
            ),
        ),
        (
            "memory_policy_rejected",
            {"cause": "the kernel has no such mode"},
            "NUMAMemoryRejected",
            "container c is refused; MORE: the kernel has no such mode",
        ),
        (
            "cpuset_mems_missing",
            {"outcome": "unpinned", "cause": "the runtime lost it"},
            "NUMAMemoryUnpinned",
            "container c runs on all NUMA nodes; MORE: the runtime lost it",
        ),
        (
            "pod_rejected",
            {"message": "full"},
            "NUMAMemoryRejected",
            "the pod is refused; MORE: full",
        ),
    ],
)
def test_reasons_and_messages(
    event: str, fields: dict[str, object], reason: str, message: str
) -> None:
    entry = recorded(5.0, event, "1-7", {**NAMES_OF, **fields, "remedies": []})
    (found,) = pod_events((entry,))
    more = "on its host `nri-numamem explain ns/p` shows all"
    assert (found.reason, found.message) == (reason, message.replace("MORE", more))
    assert (found.time, found.time_s, found.count) == ("1970-01-01T00:00:05Z", 5.0, 1)


def test_repeated_refusals_count() -> None:
    fields = {**NAMES_OF, "refusal_id": "1-7", "repeat_count": 4}
    first, again = pod_events(
        (recorded(5.0, "rejected", "1-7", fields), recorded(9.0, "rejected", "1-9", fields))
    )
    other = recorded(9.0, "rejected", "2-1", {**fields, "refusal_id": "2-1"})
    assert first.count == again.count == 5
    assert first.name == again.name
    assert next(pod_events((other,))).name != first.name


@pytest.mark.parametrize("missing", ["namespace", "pod", "pod_uid"])
def test_a_pod_without_names_has_no_event(missing: str) -> None:
    names = {**NAMES_OF, missing: ""}
    assert not list(pod_events((recorded(5.0, "rejected", "", names),)))


def test_other_decisions_have_no_event() -> None:
    for event in ("admitted", "container_ended", "not_managed", "configured"):
        assert not list(pod_events((recorded(5.0, event, "", NAMES_OF),)))


def test_the_files_of_the_plugin(tmp_path: Path) -> None:
    reader = PodEvents()
    assert reader.read(None) == ()
    assert reader.files == ()
    state_file = tmp_path / "state.json"
    assert reader.read(state_file) == ()
    assert reader.files == tuple(beside(state_file, name) for name in NAMES)
    past = Past(tmp_path / "other" / "state.json")
    past.state_file.parent.mkdir()
    past.create(past.pod("shop/b"), "main", 600)
    assert len(reader.read(past.state_file)) == 1, "the state file is another one"


@pytest.fixture(name="inputs")
def _inputs(host: ExportHost) -> HostInputs:
    parser = argparse.ArgumentParser()
    export.add_arguments(parser)
    return HostInputs(parser.parse_args(host.arguments()), "worker-1", None, SimpleQueue())


def test_a_reading_of_the_host_has_the_new_events(host: ExportHost, inputs: HostInputs) -> None:
    assert inputs.read().events == ()
    before = inputs.stamp()
    past = Past(host.state_file)
    past.begin()
    past.create(past.pod("shop/b"), "main", 600)
    assert inputs.stamp() != before, "a decision is noticed"
    (found,) = inputs.read().events
    assert found.pod == "b"
    assert inputs.read().events == ()


def test_a_history_that_cannot_be_read(host: ExportHost, inputs: HostInputs) -> None:
    beside(host.state_file, NAMES[0]).mkdir()
    reading = inputs.read()
    assert reading.document is not None
    assert reading.problems[-1] == Problem(
        Input.HISTORY, "no Events of pods: cannot read the history: Is a directory"
    )
