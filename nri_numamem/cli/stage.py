"""A stage: a temporary directory with a simulated machine, a runtime, and the plugin.

The plugin is a real process that is told to look at the simulated machine, and the embedded
runtime talks real NRI with it. Entering the stage starts everything, leaving it takes everything
away. What goes wrong is a StageError whose text holds the end of the plugin's log. Who comes on the
stage is up to its kinds: the demo's pods, a scenario's.
"""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar, cast

from nri_numamem.cli.tables import Books
from nri_numamem.machine.overlay import overlay_of, write_overlay
from nri_numamem.memorymanager import Machine
from nri_numamem.nri import api_pb2 as api
from nri_numamem.nri.runtime import EmbeddedRuntime, ProtocolViolation
from nri_numamem.nri.runtime_plugin import PluginGone

# Python starts in a fraction of a second; a loaded machine may take a few.
_START_TIMEOUT_S = 20.0
_BOOKS_TIMEOUT_S = 5.0
_EXIT_TIMEOUT_S = 5.0
_POLL_S = 0.01
# The plugin answers in milliseconds; containerd's 2 s would only fail on a busy machine.
_REQUEST_TIMEOUT_S = 10.0
_TAIL_LINES = 12
_CONTROLLERS = "cpuset cpu io memory hugetlb pids\n"

PLUGIN_COMMAND = (sys.executable, "-m", "nri_numamem", "run")

_Result = TypeVar("_Result")


class StageError(Exception):
    """The play cannot go on; one line what, then the end of the plugin's log."""


class PluginStage:
    """A machine, a runtime and a plugin for as long as the context lasts.

    `config` is the plugin's configuration as YAML, `command` starts it; the stage's options are
    added. `hide_hugepage_limits` is containerd's way.
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
        self._runtime = EmbeddedRuntime(
            hide_hugepage_limits=hide_hugepage_limits,
            request_timeout_s=_REQUEST_TIMEOUT_S,
            registration_timeout_s=_START_TIMEOUT_S,
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._books_seen = 0

    def __enter__(self) -> Self:
        """Start everything; StageError when the plugin does not come up."""
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
        """Take everything away."""
        self.close()

    @property
    def call_count(self) -> int:
        """How many calls the plugin has answered."""
        plugin = self._runtime.plugin
        return len(plugin.calls) if plugin is not None else 0

    def books(self) -> Books:
        """Ask the plugin for its books, and wait for them in its log."""
        process = self._process
        if process is None:
            raise RuntimeError("enter the stage first")
        process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + _BOOKS_TIMEOUT_S
        while True:
            found = [record for record in self._records() if record.get("event") == "books"]
            if len(found) > self._books_seen:
                self._books_seen = len(found)
                return cast("Books", found[-1])
            if process.poll() is not None or time.monotonic() > deadline:
                raise StageError(self._told("the plugin did not log its books"))
            time.sleep(_POLL_S)

    def close(self) -> None:
        """End the plugin and remove the directory. Harmless when repeated."""
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
        # The file by which cgroup v2 is known.
        (self._root / "cgroup" / "cgroup.controllers").write_text(_CONTROLLERS, encoding="ascii")
        (self._root / "config.yaml").write_text(self._config, encoding="utf-8")
        try:
            self._runtime.listen(self._root / "nri.sock")
        except OSError as error:
            text = f"{self._root}: no socket there ({error}); set TMPDIR to a short path"
            raise StageError(text) from error
        self._before_plugin()
        self._process = self._spawn()
        self._guard(self._connect)

    def _before_plugin(self) -> None:
        """Let pods come that the plugin finds when it starts; none here."""

    def _spawn(self) -> subprocess.Popen[bytes]:
        options = {
            "--socket": "nri.sock",
            "--config": "config.yaml",
            "--sysfs-root": "sys",
            "--proc-root": "proc",
            "--cgroup-root": "cgroup",
            "--log-file": "plugin.log",
            "--state-file": "memory_manager_state",
        }
        command = [*self._command, "--idx", "10", "--log-format", "json"]
        for option, name in options.items():
            command += [option, str(self._root / name)]
        with (self._root / "plugin.out").open("wb") as output:
            return subprocess.Popen(  # noqa: S603 - this very program
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
                    raise PluginGone(f"it ended with status {status}") from None
                if time.monotonic() > deadline:
                    raise
            else:
                break
        self._runtime.synchronize()

    def _make_cgroup(self, pod: api.PodSandbox, files: Mapping[str, str]) -> None:
        """Do what the kubelet does before a sandbox."""
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
        """Do it; whatever the plugin did wrong becomes a StageError."""
        try:
            result = action()
        except (PluginGone, ProtocolViolation, TimeoutError) as error:
            raise StageError(self._told(f"the plugin failed: {error}")) from error
        plugin = self._runtime.plugin
        if plugin is not None and plugin.why_closed:
            raise StageError(self._told(f"the plugin failed: {plugin.why_closed}"))
        return result

    def _records(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self._log_lines()]

    def _log_lines(self) -> list[str]:
        """Return the complete lines of the log."""
        path = self._root / "plugin.log"
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        return text.splitlines() if text.endswith("\n") else text.splitlines()[:-1]

    def _told(self, problem: str) -> str:
        """Return the problem with the end of what the plugin said."""
        output = self._root / "plugin.out"
        said = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
        lines = [*self._log_lines(), *said.splitlines()][-_TAIL_LINES:]
        if not lines:
            return f"{problem}; it said nothing"
        return "\n".join([f"{problem}; the end of its log:", *lines])
