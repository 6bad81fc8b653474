"""A sandbox: a simulated machine in a temporary directory, a fake runtime, and a plugin process.

The plugin is a real process whose host roots are those of the simulated machine. The fake runtime
speaks NRI with it over a socket. Entering the context starts both; leaving it ends the process and
removes the directory. A failure is a SandboxError with the last lines of the plugin's log.
Subclasses start pods: those of the demo, or those of a scenario.
"""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self, TypeVar, cast

from nri_numamem.memorymanager.state_json import StateJson
from nri_numamem.numa import Machine
from tests.laboratory import api_pb2 as api
from tests.laboratory.fake_sysfs import overlay_of, write_overlay
from tests.laboratory.plugin import PluginUnavailable
from tests.laboratory.runtime import FakeRuntime, ProtocolViolation

# The plugin starts in half a second and replies in milliseconds, but at a low priority on a loaded
# machine it gets a hundredth of a processor. An end of the plugin is noticed at once.
_START_TIMEOUT_S = 120.0
_DUMP_TIMEOUT_S = 120.0
_EXIT_TIMEOUT_S = 5.0
_POLL_S = 0.01
_REQUEST_TIMEOUT_S = 120.0
_TAIL_LINES = 12
_CONTROLLERS = "cpuset cpu io memory hugetlb pids\n"

PLUGIN_COMMAND = (sys.executable, "-m", "nri_numamem", "run")

_Result = TypeVar("_Result")


class SandboxError(Exception):
    """The plugin failed; the text is one line, then the last lines of the plugin's log."""


class PluginSandbox:
    """A machine, a fake runtime and a plugin process, as a context.

    `config` is the plugin's configuration as YAML. `command` starts the plugin; the sandbox adds
    options. With `hide_hugepage_limits` the runtime does not show hugepage limits, as containerd.
    """

    def __init__(
        self,
        machine: Machine,
        config: str,
        command: Sequence[str] = PLUGIN_COMMAND,
        *,
        hide_hugepage_limits: bool = True,
    ) -> None:
        self._machine = machine
        self._config = config
        self._command = command
        self._root = Path()
        self._runtime = FakeRuntime(
            hide_hugepage_limits=hide_hugepage_limits,
            request_timeout_s=_REQUEST_TIMEOUT_S,
            registration_timeout_s=_START_TIMEOUT_S,
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._dumps_seen = 0
        self._hangup: Callable[[int, FrameType | None], object] | int | None = None
        """The handler of SIGHUP before the sandbox."""

    def __enter__(self) -> Self:
        """Start runtime and plugin; raise SandboxError if the plugin does not register."""
        if threading.current_thread() is threading.main_thread():
            # The end of the terminal; the plugin ignores it, so it must be ended here.
            self._hangup = signal.signal(signal.SIGHUP, signal.default_int_handler)
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the plugin and remove the directory."""
        self.close()

    @property
    def call_count(self) -> int:
        """Number of calls to which the plugin has replied."""
        plugin = self._runtime.plugin
        return len(plugin.calls) if plugin is not None else 0

    def accounting(self) -> StateJson:
        """Signal the plugin to dump its state, and return the dump from its log."""
        process = self._process
        if process is None:
            raise RuntimeError("enter the sandbox first")
        process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + _DUMP_TIMEOUT_S
        while True:
            found = [record for record in self._records() if record.get("event") == "state_dump"]
            if len(found) > self._dumps_seen:
                self._dumps_seen = len(found)
                return cast("StateJson", found[-1])
            if process.poll() is not None or time.monotonic() > deadline:
                raise SandboxError(self._with_log("the plugin did not log its state"))
            time.sleep(_POLL_S)

    def close(self) -> None:
        """End the plugin and remove the directory. A repeated call has no effect."""
        if self._hangup is not None:
            signal.signal(signal.SIGHUP, self._hangup)
            self._hangup = None
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_EXIT_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        self._runtime.close()
        if self._root != Path():
            shutil.rmtree(self._root, ignore_errors=True)

    def _start(self) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="numamem-"))
        write_overlay(overlay_of(self._machine), self._root)
        (self._root / "cgroup").mkdir()
        # This file identifies cgroup v2.
        (self._root / "cgroup" / "cgroup.controllers").write_text(_CONTROLLERS, encoding="ascii")
        (self._root / "config.yaml").write_text(self._config, encoding="utf-8")
        try:
            self._runtime.listen(self._root / "nri.sock")
        except OSError as error:
            text = f"{self._root}: cannot create a socket ({error}); set TMPDIR to a short path"
            raise SandboxError(text) from error
        self._before_plugin()
        self._process = self._spawn()
        self._guard(self._connect)

    def _before_plugin(self) -> None:
        """Start pods that exist before the plugin; none by default."""

    def _spawn(self) -> subprocess.Popen[bytes]:
        options = {
            "--socket": "nri.sock",
            "--config": "config.yaml",
            "--sysfs-root": "sys",
            "--proc-root": "proc",
            "--cgroup-root": "cgroup",
            "--log-file": "plugin.log",
            "--state-file": "nri_numamem_state",
        }
        command = [*self._command, "--idx", "10", "--log-format", "json"]
        for option, name in options.items():
            command += [option, str(self._root / name)]
        with (self._root / "plugin.out").open("wb") as output:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )

    def _connect(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                self._runtime.accept(0.1)
            except TimeoutError:
                if self._process is not None and self._process.poll() is not None:
                    status = self._process.returncode
                    raise PluginUnavailable(f"it ended with status {status}") from None
                if time.monotonic() > deadline:
                    raise
            else:
                break
        self._runtime.synchronize()

    def _make_cgroup(self, pod: api.PodSandbox, files: Mapping[str, str]) -> None:
        """Create a pod's cgroup, as the kubelet does before a pod sandbox starts."""
        directory = self._cgroup(pod)
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (directory / name).write_text(text, encoding="ascii")

    def _end_pod(self, pod: api.PodSandbox) -> None:
        self._runtime.stop_pod_sandbox(pod)
        self._runtime.remove_pod_sandbox(pod)
        shutil.rmtree(self._cgroup(pod))

    def _cgroup(self, pod: api.PodSandbox) -> Path:
        return self._root / "cgroup" / pod.linux.cgroup_parent.lstrip("/")

    def _guard(self, action: Callable[[], _Result]) -> _Result:
        """Return the action's result; raise SandboxError if the plugin failed."""
        try:
            result = action()
        except (PluginUnavailable, ProtocolViolation, TimeoutError) as error:
            raise SandboxError(self._with_log(f"the plugin failed: {error}")) from error
        plugin = self._runtime.plugin
        if plugin is not None and plugin.why_closed:
            raise SandboxError(self._with_log(f"the plugin failed: {plugin.why_closed}"))
        return result

    def _records(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self._log_lines()]

    def _log_lines(self) -> list[str]:
        """Return the complete lines of the log."""
        path = self._root / "plugin.log"
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        return text.splitlines() if text.endswith("\n") else text.splitlines()[:-1]

    def _with_log(self, problem: str) -> str:
        """Return the problem with the last lines of the plugin's log and output."""
        output = self._root / "plugin.out"
        printed = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
        lines = [*self._log_lines(), *printed.splitlines()][-_TAIL_LINES:]
        if not lines:
            return f"{problem}; its log is empty"
        return "\n".join([f"{problem}; the end of its log:", *lines])
