"""Signals to a running plugin: which end it, which do not, and what SIGHUP does."""

from __future__ import annotations

import os
import signal
import subprocess

from tests.laboratory import objects
from tests.laboratory.runtime import FakeRuntime
from tests.processes import HARMLESS, children, ignores_signals
from tests.simulated_host import SimulatedHost, wait_for

GI = 1 << 30


def send_harmless(process: subprocess.Popen[str]) -> bool:
    """Send each harmless signal; return True."""
    for number in HARMLESS:
        process.send_signal(number)
    return True


def test_harmless_signals_end_no_plugin_at_any_time(simulated_host: SimulatedHost) -> None:
    process = simulated_host.start()
    wait_for(lambda: ignores_signals(process.pid))
    # While it starts, and while it waits for a runtime.
    wait_for(lambda: send_harmless(process) and bool(simulated_host.records("connect_failed")))
    wait_for(lambda: send_harmless(process) and bool(simulated_host.records("log_reopened")))
    for _ in range(2):  # the second runtime is the first one after a restart
        with FakeRuntime() as runtime:
            runtime.listen(simulated_host.socket)
            send_harmless(process)
            runtime.accept(30)
            send_harmless(process)
            runtime.synchronize()
            send_harmless(process)
            pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=GI))
            container = objects.container(pod, "server", memory_limit_bytes=GI)
            assert runtime.create_container(pod, container).linux.resources.cpu.mems != ""
    send_harmless(process)
    assert simulated_host.stop(process) == 0


def test_a_log_file_that_was_renamed_is_opened_again(simulated_host: SimulatedHost) -> None:
    process = simulated_host.start()
    simulated_host.wait_record("connect_failed")
    simulated_host.log.rename(simulated_host.root / "plugin.log.1")
    process.send_signal(signal.SIGHUP)
    assert simulated_host.wait_record("log_reopened")["level"] == "info"
    assert simulated_host.stop(process) == 0
    events = [record["event"] for record in simulated_host.records()]
    assert events == ["log_reopened", "configuration_reloaded", "stopped"]


def test_a_changed_configuration_is_read_again(simulated_host: SimulatedHost) -> None:
    config = simulated_host.root / "config.yaml"
    config.write_text("logLevel: info\n")
    process = simulated_host.start("--config", str(config))
    simulated_host.wait_record("connect_failed")
    config.write_text("logLevel: debug\ntopologyManagerScope: pod\n")
    process.send_signal(signal.SIGHUP)
    record = simulated_host.wait_record("configuration_reloaded")
    assert record["level"] == "warning"
    assert record["applied"] == ["logLevel"]
    assert record["needs_restart"] == ["topologyManagerScope"]
    config.write_text("logLevel: [\n")
    process.send_signal(signal.SIGHUP)
    assert f"{config}:" in simulated_host.wait_record("configuration_reload_failed")["error"]
    process.send_signal(signal.SIGUSR2)
    assert simulated_host.wait_record("log_level_changed")["log_level"] == "info"
    assert simulated_host.stop(process) == 0


def test_requests_are_served_while_a_large_configuration_is_read(
    simulated_host: SimulatedHost,
) -> None:
    config = simulated_host.root / "config.yaml"
    config.write_text("logLevel: info\n")
    process = simulated_host.start("--config", str(config))
    simulated_host.wait_record("connect_failed")
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        runtime.accept(30)
        runtime.synchronize()
        # Parsing takes about a second.
        many = "".join(f"- a{number}\n" for number in range(32_000))
        config.write_text(f"logLevel: debug\nunknown:\n{many}")
        process.send_signal(signal.SIGHUP)
        simulated_host.wait_record("log_reopened")
        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=GI))
        container = objects.container(pod, "server", memory_limit_bytes=GI)
        assert runtime.create_container(pod, container).linux.resources.cpu.mems != ""
        failed = simulated_host.wait_record("configuration_reload_failed")
        assert "unknown key" in failed["error"]
    assert simulated_host.stop(process) == 0


def test_signals_to_all_processes_have_their_effect_once(simulated_host: SimulatedHost) -> None:
    process = simulated_host.start()
    simulated_host.wait_record("connect_failed")
    (observer,) = children(process.pid)
    wait_for(lambda: ignores_signals(observer))
    for number in HARMLESS:
        for pid in (process.pid, observer):
            os.kill(pid, number)
    wait_for(lambda: bool(simulated_host.records("log_level_changed")))
    assert children(process.pid) == [observer]
    assert simulated_host.stop(process) == 0
    assert len(simulated_host.records("log_level_changed")) == 1
