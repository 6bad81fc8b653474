"""Failures of the plugin in a sandbox; the demo's sandbox stands for all."""

import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from nri_numamem.cli.demo import GI, PodSpec
from nri_numamem.memorymanager import QosClass
from tests.laboratory import sandbox as sandbox_module
from tests.laboratory.demo import DemoSandbox
from tests.laboratory.sandbox import SandboxError

pytestmark = pytest.mark.slow

Make = Callable[[str], DemoSandbox]

_POD = PodSpec("small", "server", QosClass.GUARANTEED, GI)


def _directories(tmp_path: Path) -> list[Path]:
    return list(tmp_path.glob("numamem-*"))


def test_the_log_of_a_plugin_that_exits_is_quoted(make: Make, tmp_path: Path) -> None:
    with pytest.raises(SandboxError) as failed, make("ends"):
        pass
    first, *rest = str(failed.value).splitlines()
    assert first == "the plugin failed: it ended with status 1; the end of its log:"
    assert rest == ["no such thing"]
    assert _directories(tmp_path) == []


def test_a_plugin_that_does_not_connect(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_module, "_START_TIMEOUT_S", 0.2)
    with pytest.raises(SandboxError, match="the plugin failed: timed out; its log is empty"):
        make("mute").__enter__()


def test_a_plugin_that_logs_no_state(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_module, "_DUMP_TIMEOUT_S", 0.2)
    with (
        make("dumpless") as sandbox,
        pytest.raises(SandboxError, match="did not log its state; its log is empty"),
    ):
        sandbox.accounting()


def test_a_plugin_that_gets_no_processor_for_seconds_is_waited_for() -> None:
    with DemoSandbox() as sandbox:
        process = sandbox._process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        going_on = threading.Timer(10.5, process.send_signal, [signal.SIGCONT])
        going_on.start()
        try:
            assert sandbox.start_pod(_POD).cpuset_mems
            assert sandbox.accounting()["entries"]
        finally:
            process.send_signal(signal.SIGCONT)
            going_on.cancel()


def test_a_plugin_that_does_not_reply(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_module, "_REQUEST_TIMEOUT_S", 1.0)
    with make("slow") as sandbox, pytest.raises(SandboxError, match="no reply to CreateContainer"):
        sandbox.start_pod(_POD)


def test_a_plugin_that_violates_the_protocol(make: Make) -> None:
    with make("violates") as sandbox, pytest.raises(SandboxError, match="names no container"):
        sandbox.start_pod(_POD)


def test_the_end_of_the_terminal_ends_the_plugin(make: Make, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGHUP)
    sandbox = make("well")
    with sandbox:
        process = sandbox._process
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGHUP)
    assert process is not None
    assert process.returncode is not None
    assert _directories(tmp_path) == []
    assert signal.getsignal(signal.SIGHUP) == before


def test_a_plugin_that_ignores_sigterm_is_killed(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_module, "_EXIT_TIMEOUT_S", 0.2)
    with make("stubborn"):
        pass
    assert _directories(tmp_path) == []


def test_a_long_temporary_path_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / ("long" * 25)
    directory.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(directory))
    with pytest.raises(SandboxError, match="set TMPDIR to a short path"):
        DemoSandbox().__enter__()
    assert list(directory.iterdir()) == []


def test_state_requires_the_context() -> None:
    with pytest.raises(RuntimeError, match="enter the sandbox"):
        DemoSandbox().accounting()
    assert DemoSandbox().call_count == 0
    DemoSandbox().close()
