"""Registration, configuration, frames, reconnection: with NRI's Go runtime side."""

import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nri_numamem.nri.configuration import (
    SUBSCRIPTION,
    WITH_POD_UPDATES,
)
from tests.conformance.bench import BUSY_S, FAULTY_PLUGIN, MI, Bench, cpu_seconds, mems_of
from tests.conformance.go_runtime import GoError, numbers_of
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.table_plugin import TablePlugin
from tests.simulated_host import GI, WAIT_S, wait_for

Unique = Callable[[str], str]

_EVENTS_OF_0_3 = 0x07FF


@pytest.mark.scenario(1, 62)
def test_registers_as_configured(version: str, tmp_path: Path) -> None:
    with Bench(version, tmp_path, "--idx", "42", "--name", "other.name") as bench:
        bench.connected()
        # Processor time, which does not depend on other processes; the plugin waits for nothing.
        assert cpu_seconds(bench.process.pid) < 1.0
        first = next(m for m in bench.connection.messages if m.by_plugin)
        assert (first.conn_id, first.stream_id) == (2, 1)
        assert first.content.method == "RegisterPlugin"  # type: ignore[union-attr]
        request = api.RegisterPluginRequest.FromString(first.content.payload)
        assert (request.plugin_idx, request.plugin_name) == ("42", "other.name")
        assert bench.runtime.logged('plugin "42-other.name"')


@pytest.mark.scenario(26, 27, 28)
def test_configuration(live: Bench) -> None:
    """The fields of Configure depend on the version; so do the pod's updates."""
    record = live.host.wait_record("configured")
    nri = live.runtime.nri_version
    expected = "v" + ".".join(map(str, nri)) if nri >= (0, 12) else None
    assert record["nri_version"] == expected
    reply = api.ConfigureResponse.FromString(live.connection.last_reply("Configure").payload)
    assert reply.events == (WITH_POD_UPDATES if nri >= (0, 12) else SUBSCRIPTION)
    assert SUBSCRIPTION & ~_EVENTS_OF_0_3 == 0
    assert reply.events != 0
    assert live.runtime.logged("invalid plugin events") == 0


@pytest.mark.scenario(27)
def test_containerd_2_0_calls_itself_v2(version: str, tmp_path: Path) -> None:
    options: dict[str, object] = {"name": "v2", "version": "v2.0.1"}
    with Bench(version, tmp_path, options=options) as bench:
        bench.connected()
        record = bench.host.wait_record("configured")
        assert (record["runtime"], record["runtime_version"]) == ("v2", "v2.0.1")


@pytest.mark.scenario(3, 4, 5, 58)
def test_replies_of_every_size_and_an_exception(version: str, tmp_path: Path) -> None:
    with Bench(version, tmp_path, command=FAULTY_PLUGIN) as bench:
        bench.connected()
        pod = objects.pod("large")
        for size in (4060, 4086, 4200, 70_000, 2 * MI):
            created = bench.create(pod, objects.container(pod, f"reply-{size}"))
            assert mems_of(created) == "0" * size
        with pytest.raises(GoError, match="over the limit"):
            bench.create(pod, objects.container(pod, f"reply-{5 * MI}"))
        failed = bench.create(pod, objects.container(pod, "raise"))
        assert mems_of(failed) == ""
        bench.host.wait_record("internal_error")
        valid = bench.create(pod, objects.container(pod, "valid", memory_limit_bytes=GI))
        assert mems_of(valid) == "0"
        sizes = [size for _, size in bench.connection.recorder.frames]
        assert max(sizes) > 2 * MI - 4096
        assert len(bench.proxy.connections) == 1


@pytest.mark.scenario(30, 31)
def test_a_pause_between_configure_and_synchronize(version: str, tmp_path: Path) -> None:
    """The pause is longer than both timeouts, which this test shortens."""
    options: dict[str, object] = {"registration-timeout": "1s", "request-timeout": "1s"}
    with Bench(version, tmp_path, options=options, delay_ms=1200) as bench:
        bench.connected()
        synchronized = bench.runtime.synchronizations()[-1]
        assert (synchronized.error, synchronized.result) == ("", b"")
        pod = objects.pod("late")
        created = bench.create(pod, objects.container(pod, "server", memory_limit_bytes=GI))
        assert mems_of(created) == "0"


@pytest.mark.scenario(14, 23, 36)
def test_the_runtime_restarts(version: str, tmp_path: Path) -> None:
    with Bench(version, tmp_path) as bench:
        bench.connected()
        stays, removed = objects.pod("stays"), objects.pod("removed")
        kept = objects.container(stays, "server", memory_limit_bytes=GI)
        lost = objects.container(removed, "server", memory_limit_bytes=GI)
        for pod, container in ((stays, kept), (removed, lost)):
            bench.runtime.call("RunPodSandbox", pod=pod)
            bench.create(pod, container)
            container.state = api.CONTAINER_RUNNING
        before = bench.entries()
        bench.restart_runtime([stays], [kept])
        synchronized = bench.runtime.synchronizations()[-1]
        assert synchronized.result == b""
        assert bench.entries() == {stays.uid: before[stays.uid]}
        assert bench.connection.calls_of_runtime()[:2] == ["Configure", "Synchronize"]
        assert bench.host.stop(bench.process) == 0
        assert not any("exception" in record for record in bench.host.records())
    assert len(bench.proxy.connections) >= 2


@pytest.mark.scenario(65)
def test_a_short_request_timeout_is_kept(version: str, tmp_path: Path) -> None:
    # A shorter timeout would fail on a busy machine.
    options: dict[str, object] = {"request-timeout": "1s"}
    with Bench(version, tmp_path, command=FAULTY_PLUGIN, options=options) as bench:
        bench.connected()
        pod = objects.pod("slow")
        bench.create(pod, objects.container(pod, "sleep-1.5"))
        created = bench.create(pod, objects.container(pod, "server", memory_limit_bytes=GI))
        assert mems_of(created) == "0"
        assert len(bench.proxy.connections) == 1


@pytest.mark.scenario(16)
def test_a_slow_handler_does_not_end_the_connection(version: str, tmp_path: Path) -> None:
    with Bench(version, tmp_path, command=FAULTY_PLUGIN) as bench:
        bench.connected()
        pod = objects.pod("slow")
        created = bench.create(pod, objects.container(pod, "sleep-2.5"))
        assert mems_of(created) == ""
        created = bench.create(pod, objects.container(pod, "server", memory_limit_bytes=GI))
        assert mems_of(created) == "0"
        assert len(bench.proxy.connections) == 1


@pytest.mark.scenario(64)
def test_a_stopped_process_is_disconnected_and_reconnects(version: str, tmp_path: Path) -> None:
    """The runtime continues after its timeout; later the plugin registers again."""
    options: dict[str, object] = {"request-timeout": "1s"}
    with Bench(version, tmp_path, options=options) as bench:
        bench.connected()
        pod = objects.pod("frozen")
        bench.process.send_signal(signal.SIGSTOP)
        begin = time.monotonic()
        bench.runtime.call("RunPodSandbox", pod=pod)
        assert time.monotonic() - begin < BUSY_S
        bench.process.send_signal(signal.SIGCONT)
        bench.runtime.wait_connected(2)
        created = bench.create(pod, objects.container(pod, "server", memory_limit_bytes=GI))
        assert mems_of(created) == "0"


@pytest.mark.scenario(61)
def test_a_second_instance_registers_after_the_first_one(version: str, tmp_path: Path) -> None:
    """As in a rolling update: it waits for the end of the first."""
    with Bench(version, tmp_path) as bench:
        bench.connected()
        pod = objects.pod("rolled")
        first = bench.create(pod, objects.container(pod, "one", memory_limit_bytes=GI))
        second = bench.host.start(log=tmp_path / "second.log")
        assert second.stdout is not None
        assert "another instance holds" in second.stdout.readline()
        assert len(bench.proxy.connections) == 1
        assert bench.host.stop(bench.process) == 0
        bench.runtime.wait_connected(2)
        created = bench.create(pod, objects.container(pod, "two", memory_limit_bytes=GI))
        assert mems_of(first) == mems_of(created) == "0"


@pytest.mark.scenario(61)
def test_the_second_of_two_instances_adopts(version: str, tmp_path: Path) -> None:
    """With two state files no lock prevents it; the adaptation shows it what the first set."""
    with Bench(version, tmp_path) as bench:
        bench.connected()
        log = tmp_path / "second.log"
        other = ("--state-file", str(tmp_path / "other"), "--idx", "20")
        bench.host.start(*other, log=log)
        bench.runtime.wait_connected(2)
        with bench.pod("shared") as pod:
            container = objects.container(pod, "c", memory_limit_bytes=GI)
            container.linux.resources.hugepage_limits.add(page_size="2MB", limit=4 * MI)
            assert mems_of(bench.create(pod, container)) == "0"
            wait_for(lambda: '"adopted"' in log.read_text(), "the second to adopt")
            bench.stop(pod, container)
            bench.remove(pod, container)
    assert bench.host.records("admitted")


@pytest.mark.scenario(41)
def test_another_plugin_claims_mems(version: str, tmp_path: Path) -> None:
    """The adaptation fails the creation; the runtime undoes it, and the plugin must release it."""
    claim = api.CreateContainerResponse()
    claim.adjust.linux.resources.cpu.mems = "1"
    replies = {"CreateContainer": lambda _payload: claim.SerializeToString()}
    with Bench(version, tmp_path) as bench:
        bench.connected()
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(tmp_path / "go.sock"))
        with TablePlugin(sock, replies, name="other", idx="20"):
            bench.runtime.wait_connected(2)
            pod = objects.pod("claimed")
            bench.runtime.call("RunPodSandbox", pod=pod)
            container = objects.container(pod, "c", memory_limit_bytes=GI)
            with pytest.raises(GoError, match="both tried to set"):
                bench.create(pod, container)
            bench.stop(pod, container)
            bench.remove(pod, container)
        again = objects.container(pod, "c", memory_limit_bytes=GI, attempt=1)
        assert mems_of(bench.create(pod, again)) == "0"
        bench.runtime.call("StopPodSandbox", pod=pod)
        assert bench.entries() == {}


@pytest.mark.scenario(60)
def test_events_while_synchronize_waits(version: str, tmp_path: Path) -> None:
    """Events are lost or delayed, by version: no deadlock, and the pod's end is processed."""
    with Bench(version, tmp_path, delay_ms=500) as bench:
        wait_for(lambda: bool(bench.host.records("configured")), "a configuration")
        pods = [objects.pod(f"burst-{number}") for number in range(20)]
        containers = [objects.container(pod, "c", memory_limit_bytes=MI) for pod in pods]
        for pod, container in zip(pods, containers, strict=True):
            bench.runtime.call("RunPodSandbox", pod=pod)
            bench.create(pod, container)
        bench.connected()
        for pod, container in zip(pods[1:], containers[1:], strict=True):
            bench.stop(pod, container)
            bench.runtime.call("StopPodSandbox", pod=pod)
            bench.runtime.call("RemovePodSandbox", pod=pod)
        later = objects.container(pods[0], "c", memory_limit_bytes=GI, attempt=1)
        assert mems_of(bench.create(pods[0], later)) == "0"
        assert list(bench.entries()) == [pods[0].uid]


@pytest.mark.scenario(24)
def test_a_refused_registration_is_not_retried_immediately(version: str, tmp_path: Path) -> None:
    if numbers_of(version) < (0, 12):
        pytest.skip("before 0.12 every name is accepted, and `run` accepts only valid indexes")
    with Bench(version, tmp_path, "--name", "no such name") as bench:
        wait_for(lambda: bool(bench.host.records("registration_rejected")), "a refusal")
        assert bench.connection.closed.wait(WAIT_S)
        with pytest.raises(AssertionError):
            bench.runtime.wait(lambda: len(bench.proxy.connections) > 1, "nothing", 2.5)


def test_the_proxy_records_the_session(live: Bench) -> None:
    """The checks of frames are void unless the proxy has all messages."""
    assert live.connection.calls_of_runtime()[:2] == ["Configure", "Synchronize"]
    assert live.connection.recorder.frames
