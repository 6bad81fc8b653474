"""What `nri-numamem run` leaves to its successor, and how a second instance fares."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from nri_numamem.cli import run
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.runtime import FakeRuntime
from tests.simulated_host import SimulatedHost, wait_for

GI = 1 << 30


def test_a_new_process_keeps_reusable_memory_of_a_pod(
    simulated_host: SimulatedHost,
) -> None:
    with FakeRuntime() as first:
        first.listen(simulated_host.socket)
        process = simulated_host.start()
        first.accept(30)
        first.synchronize()
        pod = first.run_pod_sandbox(objects.pod("db", memory_limit_bytes=2 * GI))
        init = objects.container(pod, "init", memory_limit_bytes=2 * GI)
        created = first.create_container(pod, init)
        first.start_container(created)
        first.stop_container(created)
        before = simulated_host.accounting(process)
        assert simulated_host.stop(process) == 0
    with FakeRuntime(store=first.store) as second:
        second.listen(simulated_host.socket)
        process = simulated_host.start()
        second.accept(30)
        second.synchronize()
        after = simulated_host.accounting(process)
        assert after["entries"] == before["entries"] != {}
        assert simulated_host.stop(process) == 0
    (record,) = simulated_host.records("state_restored")
    assert record["containers"] == 1


def test_a_killed_process_has_written_its_state(simulated_host: SimulatedHost) -> None:
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start()
        runtime.accept(30)
        runtime.synchronize()
        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=GI))
        runtime.create_container(pod, objects.container(pod, "server", memory_limit_bytes=GI))
        state = simulated_host.state_file
        wait_for(lambda: state.exists() and b"server" in state.read_bytes())
        for name in ("plugin.json", "history-0.log"):
            wait_for((state.parent / name).exists)
        process.kill()
        process.wait()
        # A write that the signal interrupted leaves its temporary file.
        names = {path.name for path in state.parent.iterdir() if path.suffix != ".new"}
        lock = "memory_manager_state.lock"
        assert names == {"history-0.log", "nri_numamem_state", lock, "plugin.json"}
    with FakeRuntime(store=runtime.store) as second:
        second.listen(simulated_host.socket)
        again = simulated_host.start()  # the lock went with the process
        second.accept(30)
        second.synchronize()
        assert simulated_host.stop(again) == 0
    assert simulated_host.records("state_restored")


def test_a_state_directory_that_was_removed_comes_back_with_its_lock(
    simulated_host: SimulatedHost,
) -> None:
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        first = simulated_host.start()
        runtime.accept(30)
        runtime.synchronize()
        # In one step: the plugin may write files of the directory while it is removed.
        directory = simulated_host.state_file.parent
        directory.rename(directory.with_name("removed"))
        simulated_host.wait_record("lock_restored")
        wait_for(simulated_host.state_file.exists)
        wait_for((directory / "plugin.json").exists)
        second = simulated_host.start()
        assert second.stdout is not None
        assert f"pid {first.pid}, since 2" in second.stdout.readline()
        assert simulated_host.stop(second) == 0
        assert simulated_host.stop(first) == 0


def test_without_a_state_file_nothing_is_written(simulated_host: SimulatedHost) -> None:
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start("--state-file", "")
        runtime.accept(30)
        runtime.synchronize()
        assert simulated_host.stop(process) == 0
    assert not simulated_host.state_file.parent.exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], None),
        (["--state-file", ""], ""),
        (["--state-file", "/x/state"], "/x/state"),
        (["--config", "{root}/config.yaml"], "/y/state"),
        (["--config", "{root}/config.yaml", "--state-file", ""], ""),
        (["--socket", "/tmp/nri.sock"], ""),
        (["--socket", "/var/run/../run/nri/nri.sock"], None),
        (["--socket", "/tmp/nri.sock", "--config", "{root}/config.yaml"], "/y/state"),
        (["--socket", "/tmp/nri.sock", "--state-file", "/x/state"], "/x/state"),
    ],
)
def test_which_state_file(tmp_path: Path, arguments: list[str], expected: str | None) -> None:
    """None is the host's, which experiments at other sockets must not touch."""
    (tmp_path / "config.yaml").write_text("stateFile: /y/state\n")
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    args = parser.parse_args([word.format(root=tmp_path) for word in arguments])
    assert run.settings_of(args).state_file == expected


def test_a_memory_resize_takes_more_nodes(simulated_host: SimulatedHost) -> None:
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start()
        runtime.accept(30)
        runtime.synchronize()
        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=2 * GI))
        container = objects.container(pod, "server", memory_limit_bytes=2 * GI)
        created = runtime.create_container(pod, container)
        runtime.start_container(created)
        cpu_only = api.LinuxResources(cpu=api.LinuxCPU(cpus="0"))
        assert runtime.update_container(created, cpu_only).cpu.mems == ""
        wanted = api.LinuxResources(
            memory=api.LinuxMemory(limit=api.OptionalInt64(value=5 * GI)),
            cpu=api.LinuxCPU(cpus="0"),
        )
        given = runtime.update_container(created, wanted)
        assert (given.cpu.mems, given.cpu.cpus) == ("0-1", "0")
        assert given.memory.limit.value == 5 * GI
        assert simulated_host.stop(process) == 0
    assert simulated_host.records("resized")
