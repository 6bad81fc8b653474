"""The metrics of a running plugin, as a scraper gets them."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from nri_numamem.cli import run
from nri_numamem.daemon.instance import StateStore
from nri_numamem.daemon.metrics_endpoint import MetricsEndpoint
from nri_numamem.engine.records.record import Record
from nri_numamem.nri.poller import HostClock
from nri_numamem.observe.metrics.counters import Meter
from tests.laboratory import objects
from tests.laboratory.runtime import FakeRuntime, PluginRefused
from tests.launched_processes import launching_runtime
from tests.simulated_host import WAIT_S, SimulatedHost, wait_for

GI = 1 << 30
PROGRAM = Path(sys.executable).with_name("nri-numamem")


@pytest.fixture
def address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return f"127.0.0.1:{sock.getsockname()[1]}"


def scrape(address: str) -> dict[str, float]:
    """Return sample name with label values -> value; waits for the server to come up."""
    texts: list[str] = []

    def is_up() -> bool:
        try:
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=WAIT_S) as reply:
                texts.append(reply.read().decode())
        except OSError:
            return False
        return True

    wait_for(is_up, "a reply of the metrics endpoint")
    return {
        " ".join((sample.name.removeprefix("nri_numamem_"), *sample.labels.values())): sample.value
        for family in text_string_to_metric_families(texts[0])
        for sample in family.samples
    }


def test_a_service_serves_its_metrics(simulated_host: SimulatedHost, address: str) -> None:
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start("--metrics-address", address)
        runtime.accept(WAIT_S)
        runtime.synchronize()
        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=GI))
        created = runtime.create_container(
            pod, objects.container(pod, "server", memory_limit_bytes=GI)
        )
        node = created.linux.resources.cpu.mems
        large = runtime.run_pod_sandbox(objects.pod("large", memory_limit_bytes=9 * GI))
        with pytest.raises(PluginRefused):
            runtime.create_container(
                large, objects.container(large, "huge", memory_limit_bytes=9 * GI)
            )

        def has_counted() -> bool:
            """Decisions are counted after the reply, and a thread writes the state file."""
            found = scrape(address)
            is_written = found.get("state_file_last_write_timestamp_seconds", 0) > 1e9
            return is_written and found["containers_total rejected"] == 1

        wait_for(has_counted)
        found = scrape(address)
        assert simulated_host.stop(process) == 0
    assert found["connected"] == 1
    assert found["registrations_total"] == 1
    assert found["containers_total admitted"] == 1
    assert found["containers_total rejected"] == 1
    assert found["rejections_total UnexpectedAdmissionError"] == 1
    assert found["synchronizations_total"] == 1
    assert found["starts_total service"] == 1
    assert found["last_synchronize_timestamp_seconds"] > 1e9
    assert found["request_duration_seconds_count CreateContainer"] == 2
    assert found[f"node_reserved_bytes {node} memory"] == GI
    assert found["internal_errors_total"] == 0
    (record,) = simulated_host.records("metrics_endpoint_started")
    assert record["address"] == address


def test_a_lost_connection_shows(simulated_host: SimulatedHost, address: str) -> None:
    with FakeRuntime() as first:
        first.listen(simulated_host.socket)
        process = simulated_host.start("--metrics-address", address)
        first.accept(WAIT_S)
        wait_for(lambda: scrape(address)["connected"] == 1)
    wait_for(lambda: scrape(address)["connected"] == 0)
    with FakeRuntime() as second:
        second.listen(simulated_host.socket)
        second.accept(WAIT_S)
        wait_for(lambda: scrape(address)["registrations_total"] == 2)
        assert simulated_host.stop(process) == 0


def test_a_port_in_use_does_not_stop_the_plugin(
    simulated_host: SimulatedHost, address: str
) -> None:
    host, _, port = address.partition(":")
    with socket.create_server((host, int(port))), FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start("--metrics-address", address)
        runtime.accept(WAIT_S)
        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=GI))
        container = objects.container(pod, "server", memory_limit_bytes=GI)
        assert runtime.create_container(pod, container).linux.resources.cpu.mems != ""
        event = "metrics_endpoint_retrying"
        wait_for(lambda: bool(simulated_host.records(event)))
        assert simulated_host.stop(process) == 0


def test_a_launched_plugin_serves_metrics_too(tmp_path: Path, address: str) -> None:
    config = (
        f"metricsAddress: {address}\nlogFile: {tmp_path / 'log'}\nstateFile: {tmp_path / 'state'}\n"
    )
    with launching_runtime() as runtime:
        plugin = runtime.launch(PROGRAM, "10-nri-numamem", config)
        runtime.synchronize()
        wait_for(lambda: scrape(address)["synchronizations_total"] == 1)
        found = scrape(address)
        assert found["request_duration_seconds_count Configure"] == 1
        assert found["starts_total launched"] == 1
        assert plugin.process is not None
        os.kill(plugin.process.pid, signal.SIGTERM)
        assert plugin.process.wait(WAIT_S) == 0


def test_without_an_address_the_library_is_not_loaded(simulated_host: SimulatedHost) -> None:
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        script = "import nri_numamem.cli.main as m, sys; s = m.main(); "
        script += "print([n for n in sys.modules if n.startswith(('prom', 'http.'))]); sys.exit(s)"
        process = simulated_host.start(command=(sys.executable, "-c", script))
        runtime.accept(WAIT_S)
        runtime.synchronize()
        process.terminate()
        output, _ = process.communicate(timeout=WAIT_S)
    assert output.strip() == "[]"
    assert process.returncode == 0


def test_an_address_that_is_none_is_one_line_and_status_2(simulated_host: SimulatedHost) -> None:
    process = simulated_host.start("--metrics-address", "9551")
    output, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 2
    assert output.strip() == (
        "nri-numamem: --metrics-address: '9551' is not an address; "
        "write HOST:PORT such as 127.0.0.1:9551 or [::1]:9551, "
        "or unix:///run/nri-numamem/metrics.sock"
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ""),
        (["--metrics-address", "localhost:1"], "localhost:1"),
        (["--config", "{root}/config.yaml"], "[::1]:9551"),
        (["--config", "{root}/config.yaml", "--metrics-address", "localhost:1"], "localhost:1"),
        (["--config", "{root}/config.yaml", "--metrics-address", ""], ""),
    ],
)
def test_the_flag_wins(tmp_path: Path, arguments: list[str], expected: str) -> None:
    (tmp_path / "config.yaml").write_text('metricsAddress: "[::1]:9551"\n')
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    args = parser.parse_args([word.format(root=tmp_path) for word in arguments])
    assert run.settings_of(args).metrics_address == expected


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[MetricsEndpoint]:
    records: list[Record] = []
    clock = HostClock()
    store = StateStore(records.append, clock)
    meter = Meter(clock.wall_s)
    made = MetricsEndpoint(meter, records.append, clock, lambda: None, store, tmp_path)
    yield made
    made.close()


def test_an_endpoint_is_opened_once_and_moves(endpoint: MetricsEndpoint, address: str) -> None:
    endpoint.open("")
    endpoint.close()
    endpoint.open(address)
    assert scrape(address)["connected"] == 0
    server = endpoint._server
    endpoint.open(address)  # a configuration that is taken a second time
    assert endpoint._server is server
    endpoint.meter.registered()
    assert scrape(address)["connected"] == 1
    endpoint.open("")
    host, _, port = address.partition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


def get(path: Path, name: str) -> tuple[int, str]:
    """Return status and body of a reply at a Unix socket, once it is there."""

    def listens() -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(path)) == 0

    wait_for(listens)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(WAIT_S)
        sock.connect(str(path))
        sock.sendall(f"GET {name} HTTP/1.0\r\n\r\n".encode())
        reply = b"".join(iter(lambda: sock.recv(1 << 16), b""))
    head, _, body = reply.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


def test_a_service_on_a_unix_socket_with_its_health(
    simulated_host: SimulatedHost, tmp_path: Path
) -> None:
    path = tmp_path / "run" / "metrics.sock"
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start("--metrics-address", f"unix://{path}")
        runtime.accept(WAIT_S)
        runtime.synchronize()
        wait_for(lambda: get(path, "/healthz") == (200, "ok\n"))
        status, text = get(path, "/metrics")
        assert (status, "nri_numamem_connected 1.0" in text) == (200, True)
    wait_for(lambda: get(path, "/healthz")[0] == 503)
    assert get(path, "/healthz")[1] == "the plugin is not registered with the runtime\n"
    assert simulated_host.stop(process) == 0
    assert not path.exists()


def test_a_launched_plugin_writes_a_text_file(tmp_path: Path) -> None:
    path = tmp_path / "nri_numamem.prom"
    config = (
        f"metricsTextfile: {path}\nlogFile: {tmp_path / 'log'}\nstateFile: {tmp_path / 'state'}\n"
    )
    with launching_runtime() as runtime:
        plugin = runtime.launch(PROGRAM, "10-nri-numamem", config)
        wait_for(path.exists)
        assert "nri_numamem_connected 1.0" in path.read_text()
        assert plugin.process is not None
        os.kill(plugin.process.pid, signal.SIGTERM)
        assert plugin.process.wait(WAIT_S) == 0
    assert not path.exists()
