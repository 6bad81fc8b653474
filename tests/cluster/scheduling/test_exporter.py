"""`nri-numamem export` as a process beside a real API server with RBAC and the real CRD."""

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.export.exporter_process import ExporterProcess
from tests.cluster.kubernetes.api import Api, Document, wait_for
from tests.cluster.kubernetes.servers import ControlPlane
from tests.cluster.scheduling import documented
from tests.cluster.scheduling.account import Account, StartExporter
from tests.cluster.scheduling.objects import (
    CRD,
    CRDS,
    GI,
    TOPOLOGIES,
    bound_node,
    create_crd,
    create_pod,
    node_of,
    unschedulable_text,
)
from tests.cluster.scheduling.worker import Worker
from tests.conformance.scheduler_check import crd
from tests.packaging.manifests import KUSTOMIZE, render_chart

pytestmark = pytest.mark.timeout(1200)


def failure(exporter: ExporterProcess) -> dict[str, Any]:
    """Wait for a record of a failed write; return the newest."""
    wait_for(lambda: "topology_write_failed" in exporter.events(), "a record of a failed write")
    records = exporter.records()
    return [each for each in records if each["event"] == "topology_write_failed"][-1]


def free_gib(admin: Api, worker: Worker) -> list[int]:
    """Return the available memory of each zone of the object in the API server."""
    if not admin.exists(worker.path):
        return []
    zones = admin.get(worker.path)["zones"]
    resources = [{each["name"]: each for each in zone["resources"]} for zone in zones]
    return [int(each["memory"]["available"]) // GI for each in resources]


def wait_free(admin: Api, worker: Worker, expected: list[int]) -> None:
    wait_for(lambda: free_gib(admin, worker) == expected, f"{expected} GiB in the object")


def export_command(worker: Worker, account: Account, *arguments: str) -> tuple[int, str]:
    """Run `nri-numamem export` with an action; return exit status and standard error."""
    command = [sys.executable, "-m", "nri_numamem", "export", *arguments]
    done = subprocess.run(
        [*command, *worker.arguments(), *account.options()],
        env=account.environment(worker.name),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def test_the_node_owns_the_object(worker: Worker, exporter: ExporterProcess, admin: Api) -> None:
    found = admin.get(worker.path)
    owner = {"apiVersion": "v1", "kind": "Node", "name": worker.name, "uid": worker.uid}
    assert found["metadata"]["ownerReferences"] == [owner]
    (entry,) = found["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("nri-numamem", "Apply")
    assert free_gib(admin, worker) == [3, 3]
    assert exporter.stop() == 0
    assert admin.exists(worker.path)


def test_a_pending_pod_gets_a_node_after_the_exporter_has_written(
    worker: Worker, exporter: ExporterProcess, admin: Api
) -> None:
    create_pod(admin, "n", 5 * GI, scheduler="numa-aware")
    assert "cannot align" in unschedulable_text(admin, "n")
    assert node_of(admin, "n") == ""
    worker.end_pod("second")
    assert bound_node(admin, "n") == worker.name
    assert free_gib(admin, worker) == [3, 8]


def test_a_restart_of_the_api_server(
    worker: Worker, exporter: ExporterProcess, admin: Api, control_plane: ControlPlane
) -> None:
    control_plane.api_server.kill()
    try:
        worker.end_pod("second")
        assert failure(exporter)["failure"] == "unreachable"
    finally:
        control_plane.start_api_server()
    wait_free(admin, worker, [3, 8])


def test_a_rotated_token(
    worker: Worker, exporter: ExporterProcess, account: Account, admin: Api
) -> None:
    account.rotate()
    worker.end_pod("second")
    wait_free(admin, worker, [3, 8])
    assert "topology_write_failed" not in exporter.events()


def test_a_kubeconfig_with_a_token_file(
    worker: Worker, account: Account, control_plane: ControlPlane, tmp_path: Path, admin: Api
) -> None:
    account.permit(documented.exporter_role())
    token = account.directory / "token"
    kubeconfig = control_plane.kubeconfig("exporter", tokenFile=str(token))
    options = ("--kubeconfig", str(kubeconfig), "--node-name", worker.name)
    with ExporterProcess(tmp_path, worker, *options):
        wait_free(admin, worker, [3, 3])
        account.rotate()
        worker.end_pod("second")
        wait_free(admin, worker, [3, 8])


def test_an_object_of_another_writer(
    worker: Worker, account: Account, start_exporter: StartExporter, admin: Api
) -> None:
    account.permit(documented.exporter_role())
    other = worker.export()
    del other["zones"][1]
    admin.apply(worker.path, other, "other-exporter")
    exporter = start_exporter()
    found = failure(exporter)
    assert (found["failure"], found["http_status"]) == ("conflict", 409)
    assert found["field_managers"] == ["other-exporter"]
    assert free_gib(admin, worker) == [3]
    admin.delete(worker.path)
    wait_free(admin, worker, [3, 3])
    assert exporter.events().count("topology_write_failed") == 1


def test_a_missing_resource_definition(
    worker: Worker, account: Account, start_exporter: StartExporter, admin: Api
) -> None:
    account.permit(documented.exporter_role())
    admin.delete(f"{CRDS}/{CRD}")
    try:
        wait_for(lambda: not admin.exists(f"{CRDS}/{CRD}"), "the end of the CRD")
        wait_for(lambda: not admin.exists(worker.path), "the end of its API")
        found = failure(start_exporter())
        assert (found["failure"], found["http_status"]) == ("no_crd", 404)
    finally:
        create_crd(admin, crd())
    wait_free(admin, worker, [3, 3])


def test_a_missing_permission(
    worker: Worker, account: Account, start_exporter: StartExporter, admin: Api
) -> None:
    exporter = start_exporter()
    found = failure(exporter)
    assert (found["failure"], found["http_status"]) == ("forbidden", 403)
    assert account.user in found["cause"]
    account.permit(documented.exporter_role())
    wait_free(admin, worker, [3, 3])


@pytest.mark.parametrize("source", ["documentation", "chart", "kustomize"])
def test_each_role_suffices_to_write(
    worker: Worker, account: Account, start_exporter: StartExporter, admin: Api, source: str
) -> None:
    account.permit(role_of(source))
    exporter = start_exporter()
    wait_free(admin, worker, [3, 3])
    worker.end_pod("second")
    wait_free(admin, worker, [3, 8])
    assert "topology_write_failed" not in exporter.events()


@pytest.mark.parametrize(
    ("resource", "verb"),
    [("nodes", "get"), ("noderesourcetopologies", "patch"), ("noderesourcetopologies", "create")],
)
def test_each_permission_of_the_chart_is_needed(
    account: Account, start_exporter: StartExporter, resource: str, verb: str
) -> None:
    account.permit(role_without(role_of("chart"), resource, verb))
    found = failure(start_exporter())
    assert (found["failure"], found["http_status"]) == ("forbidden", 403)
    assert f'cannot {verb} resource "{resource}"' in found["cause"]


def test_delete_needs_its_permission(worker: Worker, account: Account, admin: Api) -> None:
    worker.publish()
    role = documented.exporter_role()
    account.permit(role_without(role, "noderesourcetopologies", "delete"))
    status, text = export_command(worker, account, "--delete")
    assert status == 1
    assert 'cannot delete resource "noderesourcetopologies"' in text
    assert admin.exists(worker.path)


def test_delete_removes_the_object(
    worker: Worker, exporter: ExporterProcess, account: Account, admin: Api
) -> None:
    assert exporter.stop() == 0
    assert export_command(worker, account, "--delete")[0] == 0
    assert not admin.exists(worker.path)
    assert export_command(worker, account, "--delete")[0] == 0  # there is none


def test_the_chart_deletes_all_objects_of_exporters(
    workers: list[Worker], account: Account, admin: Api
) -> None:
    for worker in workers:
        worker.publish()
    other = {**workers[0].export(), "metadata": {"name": "of-another-exporter"}}
    admin.apply(f"{TOPOLOGIES}/of-another-exporter", other, "other-exporter")
    account.permit(_chart_role("nri-numamem-export-delete"))
    assert export_command(workers[0], account, "--delete-all") == (0, "")
    names = [each["metadata"]["name"] for each in admin.get(TOPOLOGIES)["items"]]
    admin.delete(f"{TOPOLOGIES}/of-another-exporter")
    assert names == ["of-another-exporter"]


def role_of(source: str) -> Document:
    """Return the exporter's ClusterRole of the documentation or of a package."""
    if source == "documentation":
        return documented.exporter_role()
    if source == "chart":
        return _chart_role("nri-numamem-export")
    text = (KUSTOMIZE / "components/export/rbac.yaml").read_text()
    return _cluster_role(text, "nri-numamem-export")


def _chart_role(name: str) -> Document:
    return _cluster_role(render_chart({"export.enabled": True}), name)


def _cluster_role(text: str, name: str) -> Document:
    documents = (each for each in yaml.safe_load_all(text) if each)
    (role,) = (
        each
        for each in documents
        if each["kind"] == "ClusterRole" and each["metadata"]["name"] == name
    )
    found: Document = role
    return found


def role_without(role: Document, resource: str, verb: str) -> Document:
    """Return a role without one permission."""
    role = copy.deepcopy(role)
    for rule in role["rules"]:
        if resource in rule["resources"]:
            rule["verbs"].remove(verb)
    role["rules"] = [rule for rule in role["rules"] if rule["verbs"]]
    return role
