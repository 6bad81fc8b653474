"""Behaviour of CRI-O and of old runtimes, and exact timing, with FakeRuntime."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conformance.bench import BUSY_S, FAULTY_PLUGIN, MI
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.runtime import FakeRuntime, PluginRefused
from tests.laboratory.version import RuntimeVersion
from tests.simulated_host import GI, WAIT_S, SimulatedHost

CRIO = RuntimeVersion("cri-o", "1.36.0", (0, 11, 0))
OLD = RuntimeVersion("containerd", "v1.7.25", (0, 6, 1))
NEW = RuntimeVersion("containerd", "v2.3.4", (0, 12, 0))


@contextmanager
def _connected(
    host: SimulatedHost, runtime: FakeRuntime, *, faulty: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """Yield the process of a connected plugin before its Synchronize."""
    runtime.listen(host.socket)
    process = host.start(command=FAULTY_PLUGIN) if faulty else host.start()
    runtime.accept(WAIT_S)
    yield process
    assert runtime.plugin is not None
    assert runtime.plugin.connection.recorder.violations == []
    assert runtime.plugin.connection.requests_received == ["RegisterPlugin"]


def _write_cgroup(host: SimulatedHost, container: api.Container, mems: str) -> None:
    """Write the cgroup of a running container."""
    directory = host.root / "cgroup" / container.linux.cgroups_path.lstrip("/")
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    (directory / "memory.max").write_text(f"{container.linux.resources.memory.limit.value}\n")
    (directory / "cpuset.mems").write_text(f"{mems}\n")
    (directory / "memory.numa_stat").write_text("anon N0=4096 N1=4096\nfile N0=0 N1=0\n")


@pytest.mark.scenario(33)
def test_a_container_before_its_pod(host: SimulatedHost) -> None:
    """With the smallest parts a container arrives long before its pod."""
    with FakeRuntime(NEW, sync_limit_bytes=20_000) as runtime:
        pods = [objects.pod(f"pod-{number}") for number in range(40)]
        for pod in pods:
            runtime.store.pods[pod.id] = pod
        last = objects.container(pods[-1], "c", memory_limit_bytes=GI)
        last.state = api.CONTAINER_RUNNING
        runtime.store.add_container(last)
        with _connected(host, runtime) as process:
            (update,) = runtime.synchronize()
            assert update.container_id == last.id
            assert runtime.plugin is not None
            assert runtime.plugin.calls.count("Synchronize") >= 3
            assert list(host.accounting(process)["entries"]) == [pods[-1].uid]


@pytest.mark.scenario(43)
def test_crio_does_not_undo_a_failed_creation(host: SimulatedHost) -> None:
    with FakeRuntime(CRIO) as runtime, _connected(host, runtime) as process:
        runtime.synchronize()
        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=GI))
        for attempt in range(3):
            container = objects.container(pod, "c", memory_limit_bytes=3 * GI, attempt=attempt)
            with pytest.raises(RuntimeError, match="failed after"):
                runtime.create_container(pod, container, fails_later=True)
        ((block,),) = host.accounting(process)["entries"][pod.uid].values()
        assert block["size"] == 3 * GI
        runtime.stop_pod_sandbox(pod)
        assert host.accounting(process)["entries"] == {}


@pytest.mark.scenario(41, 42)
def test_containerd_undoes_a_failed_creation(host: SimulatedHost) -> None:
    with FakeRuntime(NEW) as runtime, _connected(host, runtime) as process:
        runtime.synchronize()
        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=GI))
        container = objects.container(pod, "c", memory_limit_bytes=3 * GI)
        with pytest.raises(RuntimeError, match="failed after"):
            runtime.create_container(pod, container, fails_later=True)
        again = objects.container(pod, "c", memory_limit_bytes=3 * GI, attempt=1)
        assert runtime.create_container(pod, again).linux.resources.cpu.mems == "0"
        runtime.stop_pod_sandbox(pod)
        runtime.remove_pod_sandbox(pod)
        assert host.accounting(process)["entries"] == {}


@pytest.mark.scenario(69)
def test_crio_forgets_updated_mems_when_it_restarts(host: SimulatedHost) -> None:
    with FakeRuntime(CRIO) as first:
        pod = objects.pod("db", memory_limit_bytes=GI)
        first.store.pods[pod.id] = pod
        container = objects.container(pod, "c", memory_limit_bytes=GI)
        container.state = api.CONTAINER_RUNNING
        first.store.add_container(container)
        with _connected(host, first):
            (update,) = first.synchronize()
            wanted = update.linux.resources.cpu.mems
            assert container.linux.resources.cpu.mems == wanted
            _write_cgroup(host, container, wanted)
    with FakeRuntime(CRIO, store=first.store) as second:
        assert container.linux.resources.cpu.mems == ""
        second.listen(host.socket)
        second.accept(WAIT_S)
        (update,) = second.synchronize()
        assert update.linux.resources.cpu.mems == wanted


@pytest.mark.scenario(60)
def test_events_between_listing_and_registration(host: SimulatedHost) -> None:
    """Old runtimes lose events between listing and registration; later events arrive."""
    with FakeRuntime(OLD) as runtime, _connected(host, runtime) as process:
        pod = objects.pod("lost", memory_limit_bytes=GI)
        container = objects.container(pod, "c", memory_limit_bytes=GI)
        runtime.synchronize()
        runtime.store.pods[pod.id] = pod
        container.state = api.CONTAINER_RUNNING
        runtime.store.add_container(container)
        runtime.stop_container(container)
        later = objects.container(pod, "c", memory_limit_bytes=GI, attempt=1)
        assert runtime.create_container(pod, later).linux.resources.cpu.mems == "0"
        assert runtime.synchronize() == []
        assert list(host.accounting(process)["entries"]) == [pod.uid]


@pytest.mark.scenario(69)
@pytest.mark.parametrize(("runtime_version", "sent"), [(CRIO, ["1", "1"]), (NEW, ["0", None])])
def test_runtime_and_cgroup_differ(
    host: SimulatedHost, runtime_version: RuntimeVersion, sent: list[str | None]
) -> None:
    """The runtime's name decides which value is current; containerd's is sent once."""
    with FakeRuntime(runtime_version) as runtime:
        pod = objects.pod("db", memory_limit_bytes=GI)
        runtime.store.pods[pod.id] = pod
        container = objects.container(pod, "c", memory_limit_bytes=GI, cpuset_mems="0")
        del container.linux.devices[:]
        container.state = api.CONTAINER_RUNNING
        runtime.store.add_container(container)
        _write_cgroup(host, container, "1")
        with _connected(host, runtime) as process:
            for wanted in sent:
                updates = [one.linux.resources.cpu.mems for one in runtime.synchronize()]
                assert updates == ([] if wanted is None else [wanted])
                if wanted is None:
                    assert host.wait_record("cpuset_mems_conflict")["nodes"] == "1"
                else:
                    assert host.wait_record("cpuset_mems_reapplied")["nodes"] == wanted
                ((block,),) = host.accounting(process)["entries"][pod.uid].values()
                assert block["numaAffinity"] == [int(wanted or "1")]
                container.linux.resources.cpu.mems = "0"
            container.linux.resources.cpu.mems = "1"
            assert runtime.synchronize() == []


@pytest.mark.scenario(60)
def test_a_container_created_during_synchronize_is_found(host: SimulatedHost) -> None:
    with FakeRuntime(CRIO) as runtime, _connected(host, runtime) as process:
        pod = objects.pod("lost", memory_limit_bytes=2 * GI)
        runtime.store.pods[pod.id] = pod
        runtime.synchronize()
        lost = objects.container(pod, "lost", memory_limit_bytes=GI)
        lost.state = api.CONTAINER_RUNNING
        runtime.store.add_container(lost)
        _write_cgroup(host, lost, "")
        found = host.wait_record("unreported_container_found")
        assert found["container_id"] == lost.id
        later = objects.container(pod, "later", memory_limit_bytes=GI)
        assert runtime.create_container(pod, later).linux.resources.cpu.mems == "0"
        assert lost.linux.resources.cpu.mems == "0"
        assert set(host.accounting(process)["entries"][pod.uid]) == {lost.id, "later"}
        assert runtime.synchronize() == []
        assert set(host.accounting(process)["entries"][pod.uid]) == {"lost", "later"}


@pytest.mark.scenario(34)
def test_an_old_runtimes_large_synchronize(host: SimulatedHost) -> None:
    """Twelve megabytes in one message with the timeout of two seconds."""
    with FakeRuntime(OLD) as runtime:
        for number in range(100):
            pod = objects.pod(f"pod-{number}")
            runtime.store.pods[pod.id] = pod
            container = objects.container(pod, "c", memory_limit_bytes=MI)
            container.state = api.CONTAINER_RUNNING
            container.env.append("PADDING=" + "x" * 120_000)
            runtime.store.add_container(container)
        with _connected(host, runtime):
            assert len(runtime.synchronize()) == 100


@pytest.mark.scenario(16)
def test_a_slow_handler_with_a_short_timeout(host: SimulatedHost) -> None:
    with (
        FakeRuntime(NEW, request_timeout_s=1.0) as runtime,
        _connected(host, runtime, faulty=True),
    ):
        runtime.synchronize()
        pod = runtime.run_pod_sandbox(objects.pod("slow", memory_limit_bytes=GI))
        container = objects.container(pod, "sleep-1.5", memory_limit_bytes=GI)
        assert runtime.create_container(pod, container).linux.resources.cpu.mems == ""
        assert runtime.plugin is not None
        assert runtime.plugin.why_closed == ""
        valid = objects.container(pod, "valid", memory_limit_bytes=GI)
        assert runtime.create_container(pod, valid).linux.resources.cpu.mems == "0"


@pytest.mark.scenario(64)
def test_a_hanging_process_ends(host: SimulatedHost) -> None:
    """No thread of the process can run, so it must end: the runtime needs the end of the stream."""
    with FakeRuntime(NEW) as runtime:
        runtime.listen(host.socket)
        process = host.start(command=FAULTY_PLUGIN)
        runtime.accept(WAIT_S)
        runtime.synchronize()
        pod = runtime.run_pod_sandbox(objects.pod("hung", memory_limit_bytes=GI))
        begin = time.monotonic()
        runtime.create_container(pod, objects.container(pod, "hang", memory_limit_bytes=GI))
        assert time.monotonic() - begin < BUSY_S
        # The observer ends it after some 12 s, or later: it ignores samples that come late on a
        # machine under load.
        assert process.wait(2 * WAIT_S) != 0


@pytest.mark.scenario(64)
def test_a_process_that_stops_for_three_seconds_reconnects(host: SimulatedHost) -> None:
    """The runtime closes the connection after two seconds; the process reconnects."""
    with FakeRuntime(NEW) as runtime, _connected(host, runtime) as process:
        runtime.synchronize()
        process.send_signal(signal.SIGSTOP)
        runtime.run_pod_sandbox(objects.pod("frozen"))
        assert runtime.plugin is not None
        assert runtime.plugin.why_closed != ""
        time.sleep(1.0)
        process.send_signal(signal.SIGCONT)
        runtime.accept(WAIT_S)
        runtime.synchronize()
        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=GI))
        container = objects.container(pod, "c", memory_limit_bytes=GI)
        assert runtime.create_container(pod, container).linux.resources.cpu.mems == "0"


@pytest.mark.scenario(24)
def test_a_refusal_of_an_old_runtime(host: SimulatedHost) -> None:
    with FakeRuntime(NEW) as runtime:
        runtime.listen(host.socket)
        host.start("--name", "no such name")
        with pytest.raises(Exception, match="no such name"):
            runtime.accept(WAIT_S)
        with pytest.raises(TimeoutError):
            runtime.accept(2.5)
    assert host.wait_record("registration_rejected")["level"] == "error"


@pytest.mark.scenario(5)
def test_a_refused_creation_has_a_short_error_text(host: SimulatedHost) -> None:
    with FakeRuntime(NEW) as runtime, _connected(host, runtime):
        runtime.synchronize()
        pod = runtime.run_pod_sandbox(objects.pod("large", memory_limit_bytes=64 * GI))
        with pytest.raises(PluginRefused) as caught:
            runtime.create_container(pod, objects.container(pod, "c", memory_limit_bytes=64 * GI))
        assert len(caught.value.text) < 1000
        assert Path(host.log).exists()
