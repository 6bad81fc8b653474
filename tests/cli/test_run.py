"""`nri-numamem run` as a process, with a runtime that comes, goes and comes again."""

from __future__ import annotations

import argparse
import signal
import subprocess
import time
from pathlib import Path

import pytest

from nri_numamem.cli import run
from nri_numamem.config.settings import effective_settings
from nri_numamem.memorymanager import QosClass
from tests.laboratory import objects
from tests.laboratory.runtime import FakeRuntime, PluginRefused
from tests.laboratory.version import RuntimeVersion
from tests.simulated_host import SimulatedHost

GI = 1 << 30
MI = 1 << 20

VERSIONS = [
    RuntimeVersion("containerd", "v1.7.6", (0, 3, 0)),
    RuntimeVersion("containerd", "1.7.24~ds1", (0, 6, 1)),
    RuntimeVersion("v2", "v2.0.1", (0, 8, 0)),
    RuntimeVersion("containerd", "v2.2.7", (0, 11, 0)),
    RuntimeVersion("cri-o", "1.37.0", (0, 12, 0)),
    RuntimeVersion("containerd", "v2.4.0", (0, 12, 2)),
]


@pytest.mark.parametrize(
    "version", VERSIONS, ids=lambda v: f"{v.runtime_name}-{v.nri_version_text}"
)
def test_the_life_of_a_pod_with_every_runtime(
    simulated_host: SimulatedHost, version: RuntimeVersion
) -> None:
    with FakeRuntime(version) as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start("--reserved-memory", "0:memory=1Gi;1:memory=1Gi")
        plugin = runtime.accept(30)
        runtime.synchronize()

        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=2 * GI))
        container = objects.container(pod, "server", memory_limit_bytes=2 * GI)
        created = runtime.create_container(pod, container)
        assert created.linux.resources.cpu.mems == "0"
        runtime.start_container(created)

        other = runtime.run_pod_sandbox(objects.pod("web", qos=QosClass.BURSTABLE))
        left = objects.container(other, "nginx", memory_limit_bytes=GI, qos=QosClass.BURSTABLE)
        alone = runtime.create_container(other, left)
        assert alone.linux.resources.cpu.mems == ""

        large = runtime.run_pod_sandbox(objects.pod("large", memory_limit_bytes=9 * GI))
        with pytest.raises(PluginRefused, match="numamem: container huge of pod default/large"):
            runtime.create_container(
                large, objects.container(large, "huge", memory_limit_bytes=9 * GI)
            )

        accounting = simulated_host.accounting(process)
        assert accounting["entries"] == {
            pod.uid: {"server": [{"numaAffinity": [0], "type": "memory", "size": 2 * GI}]}
        }
        runtime.stop_pod_sandbox(pod)
        runtime.remove_pod_sandbox(pod)
        assert simulated_host.accounting(process)["entries"] == {}

        assert plugin.why_closed == ""
        assert plugin.connection.recorder.violations == []
        assert runtime.ignored_errors == []
        assert simulated_host.stop(process) == 0
    events = [record["event"] for record in simulated_host.records()]
    assert events[0] == "machine"
    assert events[-1] == "stopped"
    assert "internal_error" not in events


def test_a_restarted_runtime_finds_the_same_accounting(simulated_host: SimulatedHost) -> None:
    process = simulated_host.start()
    with FakeRuntime() as first:
        first.listen(simulated_host.socket)
        first.accept(30)
        first.synchronize()
        pod = first.run_pod_sandbox(objects.pod("db", memory_limit_bytes=2 * GI))
        container = objects.container(pod, "server", memory_limit_bytes=2 * GI)
        first.start_container(first.create_container(pod, container))
        before = simulated_host.accounting(process)
    with FakeRuntime(store=first.store) as second:
        second.listen(simulated_host.socket)
        second.accept(30)
        assert second.synchronize() == []
        after = simulated_host.accounting(process)
        assert (after["entries"], after["machineState"]) == (
            before["entries"],
            before["machineState"],
        )
        assert simulated_host.stop(process) == 0
    events = [record["event"] for record in simulated_host.records()]
    assert "disconnected" in events
    configured, admitted = simulated_host.records("configured"), simulated_host.records("admitted")
    assert [record["request_id"] for record in configured] == ["1-1", "2-1"]
    assert [record["request_id"].partition("-")[0] for record in admitted] == ["1"]
    assert not any("request_id" in record for record in simulated_host.records("machine"))


def test_a_pod_older_than_the_runtime_ends_with_its_cgroup(simulated_host: SimulatedHost) -> None:
    """The runtime sends no event of the pod's end."""
    pod = objects.pod("db", memory_limit_bytes=GI)
    directory = simulated_host.make_cgroup(pod)
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start()
        runtime.accept(30)
        runtime.run_pod_sandbox(pod)
        container = objects.container(pod, "server", memory_limit_bytes=GI)
        runtime.create_container(pod, container)
        assert simulated_host.accounting(process)["entries"] != {}
        # Before a refusal the plugin looks for the cgroups of all pods.
        large = runtime.run_pod_sandbox(objects.pod("large", memory_limit_bytes=9 * GI))
        with pytest.raises(PluginRefused):
            runtime.create_container(
                large, objects.container(large, "huge", memory_limit_bytes=9 * GI)
            )
        directory.rmdir()
        wait_for_empty_accounting(simulated_host, process)
        assert simulated_host.stop(process) == 0
    (record,) = simulated_host.records("pod_released")
    assert record["detected_by"] == "cgroup_removed"


def test_pods_whose_cgroup_is_gone_are_released_before_a_refusal(
    simulated_host: SimulatedHost,
) -> None:
    old = objects.pod("old", memory_limit_bytes=7 * GI)
    directory = simulated_host.make_cgroup(old)
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start()
        runtime.accept(30)
        runtime.run_pod_sandbox(old)
        runtime.create_container(old, objects.container(old, "main", memory_limit_bytes=7 * GI))
        new = runtime.run_pod_sandbox(objects.pod("new", memory_limit_bytes=7 * GI))
        container = objects.container(new, "main", memory_limit_bytes=7 * GI)
        with pytest.raises(PluginRefused):
            runtime.create_container(new, container)
        directory.rmdir()
        assert runtime.create_container(new, container).linux.resources.cpu.mems == "0-1"
        assert simulated_host.stop(process) == 0


def wait_for_empty_accounting(host: SimulatedHost, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 30
    while host.accounting(process)["entries"] != {}:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_hugepages_of_the_pods_cgroup_reach_the_container(simulated_host: SimulatedHost) -> None:
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start()
        runtime.accept(30)
        runtime.synchronize()
        pod = objects.pod("router", memory_limit_bytes=GI)
        directory = simulated_host.make_cgroup(pod)
        (directory / "hugetlb.2MB.max").write_text(f"{8 * MI}\n")
        runtime.run_pod_sandbox(pod)
        created = runtime.create_container(
            pod, objects.container(pod, "dpdk", memory_limit_bytes=GI)
        )
        assert dict(created.linux.resources.unified) == {
            "hugetlb.2MB.max": str(8 * MI),
            "hugetlb.2MB.rsvd.max": str(8 * MI),
        }
        assert simulated_host.stop(process) == 0


def test_an_unreadable_pod_cgroup_is_logged_and_the_container_placed(
    simulated_host: SimulatedHost,
) -> None:
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start()
        runtime.accept(30)
        runtime.synchronize()
        pod = objects.pod("router", memory_limit_bytes=GI)
        directory = simulated_host.make_cgroup(pod)
        (directory / "hugetlb.2MB.max").write_text("many\n")
        runtime.run_pod_sandbox(pod)
        container = objects.container(pod, "dpdk", memory_limit_bytes=GI)
        assert runtime.create_container(pod, container).linux.resources.cpu.mems == "0"
        assert simulated_host.stop(process) == 0
    assert simulated_host.records("pod_cgroup_unreadable")


def test_a_missing_socket_is_logged_once_and_tried_again(simulated_host: SimulatedHost) -> None:
    process = simulated_host.start()
    simulated_host.wait_record("connect_failed")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.0)
    (record,) = simulated_host.records("connect_failed")
    assert "No such file" in str(record["cause"])
    assert simulated_host.stop(process) == 0


def test_a_refused_registration_is_logged_and_not_repeated_soon(
    simulated_host: SimulatedHost,
) -> None:
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start("--name", "no such name")
        with pytest.raises(Exception, match="no such name"):
            runtime.accept(30)
        with pytest.raises(TimeoutError):
            runtime.accept(2.5)
        assert simulated_host.stop(process) == 0
    (record,) = simulated_host.records("registration_rejected")
    assert record["level"] == "error"


def test_a_peer_of_another_protocol_is_disconnected(simulated_host: SimulatedHost) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(simulated_host.socket))
        listener.listen()
        listener.settimeout(30)
        process = simulated_host.start()
        peer, _ = listener.accept()
        with peer:
            peer.sendall(b"\xff" * 64)
            peer.settimeout(30)
            while peer.recv(4096):
                pass
        second, _ = listener.accept()
        second.close()
        assert simulated_host.stop(process) == 0
    assert simulated_host.records("disconnected")
    assert not any("exception" in record for record in simulated_host.records())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--reserved-memory", "9:memory=1Gi"], "--reserved-memory: reservedMemory[0]: the res"),
        (["--reserved-memory", "0:memory"], "expected type=quantatity"),
        (["--config", "/no/such/file"], "/no/such/file: No such file"),
        (["--config", "{root}/config.yaml"], "/config.yaml:4: reservedMemory[0].limits.memory: "),
        (["--sysfs-root", "{root}/odd"], "meminfo"),
        (["--sysfs-root", "/no/such"], "/no/such/devices/system: no such directory; mount the"),
        (["--idx", "1"], "two digits"),
        (["--name", "a/b"], "'a/b' is not a name; use letters, digits"),
        (["--name", ""], "'' is not a name; "),
        (["--socket", "/" + "x" * 107], "a socket's path has 1 to 107 bytes"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_status_2(
    simulated_host: SimulatedHost, arguments: list[str], expected: str
) -> None:
    odd = simulated_host.root / "odd/devices/system/node/node0"
    odd.mkdir(parents=True)
    (odd / "meminfo").write_text("Node 0 MemTotal: lots\n")
    config = "\nreservedMemory:\n- numaNode: 0\n  limits: {memory: 65Ti}\n"
    (simulated_host.root / "config.yaml").write_text(config)
    given = [word.format(root=simulated_host.root) for word in arguments]
    process = simulated_host.start(*given)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 2
    last = output.splitlines()[-1]
    assert last.startswith("nri-numamem")
    assert expected in last
    assert "Traceback" not in output


def test_the_configuration_file_counts_and_flags_win(
    simulated_host: SimulatedHost, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("reservedMemory: [{numaNode: 1, limits: {memory: 2Gi}}]\nlogLevel: error\n")
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start("--config", str(config), "--log-level", "info")
        runtime.accept(30)
        nodes = simulated_host.accounting(process)["machineState"]
        assert isinstance(nodes, dict)
        reserved = [node["memoryMap"]["memory"]["systemReserved"] for node in nodes.values()]
        assert reserved == [0, 2 * GI]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_memory_follows_the_device_of_a_container(simulated_host: SimulatedHost) -> None:
    function = simulated_host.root / "sys/devices/pci0000:98/0000:98:01.0"
    (function / "vfio-dev/vfio0").mkdir(parents=True)
    (function / "numa_node").write_text("1\n")
    links = simulated_host.root / "sys/dev/char"
    links.mkdir(parents=True)
    (links / "510:0").symlink_to("../../devices/pci0000:98/0000:98:01.0/vfio-dev/vfio0")
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start()
        runtime.accept(30)
        runtime.synchronize()
        for qos, expected in ((QosClass.GUARANTEED, "1"), (QosClass.BURSTABLE, "")):
            pod = runtime.run_pod_sandbox(objects.pod(f"guest-{qos.lower()}", qos=qos))
            container = objects.container(pod, "qemu", memory_limit_bytes=GI, qos=qos)
            container.linux.devices.add(path="/dev/vfio/devices/vfio0", type="c", major=510)
            assert runtime.create_container(pod, container).linux.resources.cpu.mems == expected
        assert simulated_host.stop(process) == 0
    (record,) = simulated_host.records("admitted")
    assert record["hints"]["devices"] == ["1"]


def test_the_kubelets_configuration_counts_for_what_is_left_out(
    simulated_host: SimulatedHost, tmp_path: Path
) -> None:
    config = tmp_path / "kubelet.yaml"
    config.write_text(
        "kind: KubeletConfiguration\n"
        "memoryManagerPolicy: Static\n"
        "topologyManagerScope: pod\n"
        "kubeReserved: {memory: 924Mi}\n"
        "reservedMemory: [{numaNode: 1, limits: {memory: 1Gi}}]\n"
    )
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start("--kubelet-config", str(config))
        runtime.accept(30)
        runtime.synchronize()
        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=5 * GI))
        for name in ("server", "backup"):
            container = objects.container(pod, name, memory_limit_bytes=GI)
            assert runtime.create_container(pod, container).linux.resources.cpu.mems == "0-1"
        runtime.stop_pod_sandbox(pod)
        assert simulated_host.accounting(process)["entries"] == {}
        assert simulated_host.stop(process) == 0
    (machine,) = simulated_host.records("machine")
    assert machine["level"] == "warning"
    assert "both memory managers are active" in str(machine["notes"])
    assert simulated_host.records("pod_admitted")


def test_flags_are_the_origins_of_their_settings(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    config, kubelet = tmp_path / "config.yaml", tmp_path / "kubelet.yaml"
    config.write_text("logLevel: debug\nfailOnTimeout: true\n")
    kubelet.write_text("kind: KubeletConfiguration\n")
    flags = [
        *("--config", str(config), "--kubelet-config", str(kubelet), "--state-file", "/x"),
        *("--reserved-memory", "0:memory=1Gi", "--metrics-address", "127.0.0.1:1"),
        *("--log-file", "/l", "--log-level", "error", "--log-format", "json"),
    ]
    found = effective_settings(run.settings_of(parser.parse_args(flags)))
    assert found["logLevel"] == ("error", "--log-level")
    assert found["failOnTimeout"] == (True, f"{config}:2")
    origins = {key: origin for key, (_value, origin) in found.items() if origin.startswith("--")}
    assert origins == {
        "kubeletConfigFile": "--kubelet-config",
        "logFile": "--log-file",
        "logFormat": "--log-format",
        "logLevel": "--log-level",
        "metricsAddress": "--metrics-address",
        "reservedMemory": "--reserved-memory",
        "stateFile": "--state-file",
    }


def test_another_socket_has_no_state_file() -> None:
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    found = effective_settings(run.settings_of(parser.parse_args(["--socket", "/run/other.sock"])))
    assert found["stateFile"] == ("", "--socket")
