"""The process as a user runs it: it writes, survives the API server's failures, and ends."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.explain.stories import Past
from tests.cli.export.export_host import ExportHost
from tests.cli.export.exporter_process import ExporterProcess, in_pod
from tests.kubernetes_api import KubernetesApi, fails, garbage, half, hangs
from tests.simulated_host import WAIT_S, wait_for

pytestmark = pytest.mark.slow


@pytest.fixture(name="api")
def _api() -> Iterator[KubernetesApi]:
    with KubernetesApi() as api:
        yield api


def pods_of(document: Any) -> str:  # noqa: ANN401 - JSON
    fingerprint: str = document["metadata"]["annotations"]["topology.node.k8s.io/fingerprint"]
    return fingerprint


def test_the_life_of_an_exporter_in_a_pod(
    host: ExportHost, api: KubernetesApi, tmp_path: Path
) -> None:
    environment, options = in_pod(api, tmp_path)
    with ExporterProcess(tmp_path, host, *options, environment=environment) as exporter:
        exporter.wait_event("topology_written")
        first = api.objects["worker-1"]
        assert first["metadata"]["ownerReferences"][0]["uid"] == "uid-1"
        assert [zone["name"] for zone in first["zones"]] == [f"node-{n}" for n in range(4)]
        # A pod starts.
        host.run_pod("b")
        host.save()
        wait_for(lambda: pods_of(api.objects["worker-1"]) != pods_of(first))
        # The token is rotated, and then the former one is refused.
        api.tokens = {"secret", "second"}
        api.write_service_account(tmp_path / "account", "second")
        host.run_other_pod("c")
        wait_for(lambda: api.seen[-1].token == "second")  # noqa: S105 - of a test
        api.tokens = {"second"}
        # The API server is restarted.
        api.stop()
        host.run_other_pod("d")
        exporter.wait_event("topology_write_failed")
        api.start()
        wait_for(lambda: any("failed_attempts" in record for record in exporter.records()))
        assert exporter.events().count("topology_write_failed") == 1
        assert exporter.stop() == 0
    assert exporter.events()[0] == "export_started"
    assert exporter.events()[-1] == "export_stopped"
    assert "worker-1" in api.objects, "a process cannot distinguish an uninstall from a restart"
    assert {seen.manager for seen in api.seen if seen.method == "PATCH"} == {"nri-numamem"}


def test_a_kubeconfig_with_a_client_certificate(host: ExportHost, tmp_path: Path) -> None:
    with KubernetesApi(client_certificate=True) as api:
        api.tokens = set()
        certificates = Path(__file__).parents[2] / "certificates"
        user = {
            "client-certificate": str(certificates / "client.crt"),
            "client-key": str(certificates / "client.key"),
        }
        kubeconfig = api.write_kubeconfig(tmp_path / "kubeconfig", user)
        options = ["--kubeconfig", str(kubeconfig), "--node-name", "worker-1"]
        with ExporterProcess(tmp_path, host, *options) as exporter:
            exporter.wait_event("topology_written")
            assert exporter.stop() == 0


def test_another_writer_is_named(host: ExportHost, api: KubernetesApi, tmp_path: Path) -> None:
    api.managers["worker-1"] = "nfd-topology-updater"
    environment, options = in_pod(api, tmp_path)
    with ExporterProcess(tmp_path, host, *options, environment=environment) as exporter:
        record = exporter.wait_event("topology_write_failed")
        assert record["failure"] == "conflict"
        assert record["field_managers"] == ["nfd-topology-updater"]
        assert record["level"] == "warning"
        assert exporter.stop() == 0


@pytest.mark.parametrize(
    ("change", "failure"),
    [
        ({"has_crd": False}, "no_crd"),
        ({"forbidden": {"PATCH"}}, "forbidden"),
        ({"tokens": {"another"}}, "unauthorized"),
        ({"nodes": {}}, "no_node"),
        ({"faults": [fails(500)]}, "server_error"),
    ],
)
def test_failures_are_one_record(
    host: ExportHost, api: KubernetesApi, tmp_path: Path, change: dict[str, Any], failure: str
) -> None:
    for name, value in change.items():
        setattr(api, name, value)
    environment, options = in_pod(api, tmp_path)
    with ExporterProcess(tmp_path, host, *options, environment=environment) as exporter:
        record = exporter.wait_event("topology_write_failed")
        assert record["failure"] == failure
        assert record["remedy"]
        assert exporter.stop() == 0


def test_answers_that_are_none(host: ExportHost, api: KubernetesApi, tmp_path: Path) -> None:
    """They are one record, and it goes on."""
    api.faults = [garbage, half]
    environment, options = in_pod(api, tmp_path)
    with ExporterProcess(tmp_path, host, *options, environment=environment) as exporter:
        assert exporter.wait_event("topology_written")["failed_attempts"] == 2
        assert exporter.events().count("topology_write_failed") == 1
        assert exporter.stop() == 0


def test_sigterm_during_a_request(host: ExportHost, api: KubernetesApi, tmp_path: Path) -> None:
    api.faults = [hangs]
    environment, options = in_pod(api, tmp_path)
    with ExporterProcess(tmp_path, host, *options, environment=environment) as exporter:
        wait_for(lambda: len(api.seen) == 1)
        assert exporter.stop() == 0
    assert exporter.events() == ["export_started", "export_stopped"]


def test_systemd(host: ExportHost, api: KubernetesApi, tmp_path: Path) -> None:
    environment, options = in_pod(api, tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(WAIT_S)
        variables = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1000000"}
        environment |= variables
        with ExporterProcess(tmp_path, host, *options, environment=environment) as exporter:
            assert manager.recv(999) == b"WATCHDOG=1"
            while (message := manager.recv(999)) == b"WATCHDOG=1":
                pass
            assert message == b"READY=1\nSTATUS=wrote worker-1"
            assert manager.recv(999) == b"WATCHDOG=1"
            assert exporter.stop() == 0
            while manager.recv(999) != b"STOPPING=1":
                pass


def test_inputs_that_go_do_not_end_the_process(
    host: ExportHost, api: KubernetesApi, tmp_path: Path
) -> None:
    environment, options = in_pod(api, tmp_path)
    with ExporterProcess(tmp_path, host, *options, environment=environment) as exporter:
        exporter.wait_event("topology_written")
        host.write_kubelet("kind: Pod\n")
        host.state_file.unlink()
        host.run_pod("b")
        host.save()
        host.write_kubelet("kind: KubeletConfiguration\nreservedSystemCPUs: '0'\n")

        def allocatable() -> str:
            resources = api.objects["worker-1"]["zones"][0]["resources"]
            found: str = resources[0]["allocatable"]
            return found

        wait_for(lambda: allocatable() == "0")
        assert exporter.stop() == 0


def test_events_of_pods(host: ExportHost, api: KubernetesApi, tmp_path: Path) -> None:
    past = Past(host.state_file)
    past.begin()
    past.now_s = time.time()
    environment, options = in_pod(api, tmp_path)
    with ExporterProcess(tmp_path, host, *options, environment=environment) as exporter:
        exporter.wait_event("topology_written")
        pod = past.pod("shop/web-1")
        past.create(pod, "main", 600)
        wait_for(lambda: bool(api.events))
        (event,) = api.events.values()
        assert event["involvedObject"]["name"] == "web-1"
        assert event["message"].startswith("container main is refused; ")
        assert event["source"] == {"component": "nri-numamem", "host": "worker-1"}
        past.create(pod, "main", 600)
        wait_for(lambda: any(each["count"] == 2 for each in api.events.values()))
        assert len(api.events) == 1
    api.events.clear()
    silent = [*options, "--no-pod-events"]
    with ExporterProcess(tmp_path, host, *silent, environment=environment) as exporter:
        exporter.wait_event("topology_written")
        past.create(pod, "main", 600)
        host.run_pod("b")
        host.save()
        wait_for(lambda: exporter.events().count("topology_written") == 2)
        assert not api.events
