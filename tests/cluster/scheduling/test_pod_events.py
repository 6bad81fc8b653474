"""Events of pods that `nri-numamem export` writes, at a real API server with RBAC."""

import time

import pytest

from tests.cli.explain.stories import Past
from tests.cli.export.exporter_process import ExporterProcess
from tests.cluster.kubernetes.api import Api, Document, wait_for
from tests.cluster.scheduling import documented
from tests.cluster.scheduling.account import Account, StartExporter
from tests.cluster.scheduling.worker import Worker

pytestmark = pytest.mark.timeout(1200)


def test_refused_pods_have_events(worker: Worker, exporter: ExporterProcess, admin: Api) -> None:
    """The API server takes what is applied, counts retries, and needs the permission."""
    past = Past(worker.state_file)
    past.begin()
    past.now_s = time.time()
    pod = past.pod("default/refused")
    events = "/api/v1/namespaces/default/events"

    def found() -> list[Document]:
        items: list[Document] = admin.get(events)["items"]
        return [each for each in items if each["involvedObject"]["name"] == "refused"]

    past.create(pod, "main", 600)
    wait_for(found, "an Event of the pod")
    past.create(pod, "main", 600)
    wait_for(lambda: found()[0]["count"] == 2, "the count of the retries")
    (event,) = found()
    assert (event["type"], event["reason"]) == ("Warning", "NUMAMemoryRejected")
    assert event["involvedObject"]["uid"] == "uid-refused"
    assert event["source"] == {"component": "nri-numamem", "host": worker.name}
    assert event["lastTimestamp"] > event["firstTimestamp"]


def test_events_without_the_permission(
    worker: Worker, account: Account, start_exporter: StartExporter, admin: Api
) -> None:
    role = documented.exporter_role()
    role["rules"] = [rule for rule in role["rules"] if rule["resources"] != ["events"]]
    account.permit(role)
    exporter = start_exporter()
    wait_for(lambda: admin.exists(worker.path), "the first write")
    past = Past(worker.state_file)
    past.begin()
    past.now_s = time.time()
    past.create(past.pod("default/refused-too"), "main", 600)
    wait_for(lambda: "pod_events_failed" in exporter.events(), "a record of the failure")
    (record,) = (each for each in exporter.records() if each["event"] == "pod_events_failed")
    assert record["failure"] == "forbidden"
    assert "grant this user patch and create of events" in record["remedy"]
    before = admin.get(worker.path)["zones"]
    worker.end_pod("second")
    wait_for(lambda: admin.get(worker.path)["zones"] != before, "the object of the scheduler")
