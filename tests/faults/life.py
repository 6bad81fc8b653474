"""A life of a node that is played on a runtime: a host, a runtime, the plugin and pods.

Steps and faults share the operations defined here. What happens is data (tests/sequences), so a
life whose timing differs (a reply in time, or just too late) still has the same steps.
"""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from nri_numamem.numa import NodeSet
from tests.faults.clock import RealClock
from tests.faults.failure import CertainFailure, Failure
from tests.faults.host import LifeHost, StateEntry
from tests.faults.node import Container, Key, Node, Pod
from tests.faults.parameters import ALL, choose
from tests.faults.parts import Parts
from tests.faults.plugin import PluginProcesses
from tests.faults.proxy import SocketProxy
from tests.faults.runtimes import Reply
from tests.laboratory import api_pb2 as api
from tests.sequences.node_life import NodeLife
from tests.sequences.operations import Fault, Operation

# Searches for ended pods and writes of the state file take less than a second with the intervals
# of plugin_program; a busy machine needs more.
EVENTUALLY_S = 8.0

MARGIN_S = 1.5  # in addition to the request timeout, because several lives run at once
_ATTEMPTS = 4


class Life:
    """A node from its installation on."""

    def __init__(self, data: NodeLife, parts: Parts) -> None:
        self.data = data
        self.seed = data.seed
        self.steps: Iterator[Operation | Fault] = data.steps(0.0)
        """What happens next."""
        self.history: list[str] = []
        self.faults: Counter[str] = Counter()
        self.calls = 0
        self.slowest_s = 0.0
        self.connections = 0
        self.runtime_is_down = False
        """The runtime is dead."""
        self.is_runtime_kill_pending = False
        """A thread is about to kill the runtime."""
        self.connected = False
        self.must_not_wait = False
        """A fault with a time limit is active: steps must not wait."""
        self.plugin_starts = 0
        """How often the plugin was started."""
        self.unreported_pods: dict[str, bool] = {}
        """Uids of pods whose end was not reported -> whether the plugin must detect it."""
        self._synchronized_start = 0
        self._at_start: dict[Key, StateEntry] = {}
        self.known_timeouts = 0
        self.host = parts.host
        self.parameters = parts.parameters
        self.node = Node(
            self.parameters.traits,
            pins_burstable=data.settings.pins_burstable,
            has_partitions=bool(data.settings.partitions),
        )
        self.proxy = parts.proxy
        self.runtime = parts.runtime
        self.plugin = parts.plugin
        self.clock = parts.clock
        self.eventually_s = parts.eventually_s
        self.seen_machine = self.host.machine
        self.note(f"{self.runtime.name}, {self.parameters}")

    def note(self, text: str) -> None:
        """Add a line to the history."""
        self.history.append(text)

    def outcome(self, reply: Reply) -> str:
        """Return the outcome of a call in a few words, for the history."""
        if reply.runtime_died:
            return "; the runtime died"
        word = "; refused" if reply.refusal is not None else ""
        return word if self.connected else "; no plugin"

    # The runtime and the plugin

    def begin(self) -> None:
        """Start runtime and plugin."""
        self.start_runtime()
        if not self.connected:
            self.reconnect()

    def start_runtime(self) -> None:
        """Start the runtime, and with it a launched plugin."""
        for _ in range(_ATTEMPTS):
            if self.parameters.is_launched:
                self._process_starts()
            self.node.spread_exemptions()
            updates = self.runtime.start(self.node.content())
            self.runtime_is_down = self.is_runtime_kill_pending = False
            if not self.parameters.is_launched:
                return
            if updates is not None:
                self._synchronized(updates)
                return
            # On a busy machine this is no failure of the plugin.
            self.note("the launched plugin was not ready in time: the runtime is restarted")
            self.runtime_died()
            self.plugin.wait_until_gone()
        raise Failure(f"the launched plugin did not start: {self.log_tail()}")

    def runtime_died(self) -> None:
        """Kill the runtime if it is alive, and apply the effects of its death."""
        self.runtime.kill()
        self.runtime_is_down, self.connected = True, False
        self.node.runtime_died()

    def restart_runtime(self) -> None:
        """Start the runtime again; a living one is killed first."""
        if not self.runtime_is_down:
            self.runtime_died()
        if self.parameters.forgets_running:
            self.reboot()
        if self.parameters.is_launched and not self.plugin.wait_until_gone():
            raise Failure(f"processes remain of the runtime: {self.plugin.processes()}")
        self.start_runtime()

    def reboot(self) -> None:
        """Remove all pods, as a reboot does."""
        self.note("all pods are gone")
        for pod in list(self.node.pods.values()):
            self.host.drop_cgroup(pod.message)
        self.node.pods.clear()
        self.unreported_pods.clear()

    def start_plugin(self) -> None:
        """Start the external plugin."""
        self._process_starts()
        self.plugin.start()

    def _process_starts(self) -> None:
        """Drop expectations that a new process cannot meet with the present state file.

        A process that was killed may leave an older state. Its entries of an earlier sandbox of a
        pod are not kept when that sandbox is gone, so they are no entries of the present one.
        """
        self.plugin_starts += 1
        self.seen_machine = self.host.machine
        self._at_start = self.host.state_entries() if self.parameters.has_state_file else {}
        for pod in self.node.pods.values():
            pod.is_sum_lost |= any(self._entry(pod, name) is None for name in pod.containers)
            for name, reservation in list(pod.reservations.items()):
                entry = self._entry(pod, name)
                if (
                    entry is None
                    or not reservation.may_be_on(NodeSet.parse(entry.nodes))
                    or entry.memory_bytes < reservation.memory_bytes
                ):
                    del pod.reservations[name]
        self.unreported_pods = dict.fromkeys(self.unreported_pods, False)

    def plugin_died(self) -> None:
        """Note the death of the plugin's process."""
        if self.parameters.is_launched and self.connected:
            self._process_starts()  # its supervisor starts it again
        self.connected = False

    def check_connection(self) -> bool:
        """Detect the end of the connection; return whether the plugin is connected."""
        if not self.runtime_is_down and self.connected:
            is_cut = self.proxy is not None and not self.proxy.is_connected
            if is_cut or self.runtime.is_dropped():
                self.plugin_died()
        return self.connected

    def expect_connection(self) -> None:
        """Raise Failure if the connection ended without a fault.

        One exception: a launched plugin that never receives a Synchronize continues as an external
        one.
        """
        if not self.check_connection():
            self.note("the connection has ended")
            if not self.parameters.forgets_running:
                raise Failure(f"the connection has ended without a fault: {self.log_tail()}")

    def restore_connection(self) -> None:
        """Reconnect if the plugin is disconnected."""
        self.update_content()
        if not self.check_connection():
            self.reconnect()

    def update_content(self) -> None:
        """Set the content for a launched plugin, which may reconnect at any time."""
        if not self.runtime_is_down:
            self.runtime.set_content(self.node.content())

    def reconnect(self) -> None:
        """Reconnect as systemd, the supervisor or a restart of the runtime does."""
        if self.runtime_is_down:
            self.restart_runtime()
            if self.connected:
                return
        for _ in range(_ATTEMPTS):
            if self.proxy is not None:
                self._restart_plugin_if_ended()
            if self.accept_plugin():
                return
            if self.proxy is None and not self.plugin.processes():
                self.note("the plugin ended with its connection: the runtime is restarted")
                self.restart_runtime()
                return
        raise Failure(f"the plugin did not reconnect: {self.log_tail()}")

    def _restart_plugin_if_ended(self) -> None:
        status = self.plugin.status
        if status is not None and not self.plugin.is_end_expected:
            raise Failure(f"the plugin ended with status {status}: {self.log_tail()}")
        if not self.plugin.is_running():
            self.start_plugin()

    def log_tail(self) -> str:
        """Return the end of the plugin's log."""
        self.plugin.journal.read()
        tail = [str(record) for record in self.plugin.journal.records[-3:]]
        return " | ".join([*tail, *self.plugin.journal.other_lines[-3:]])

    def accept_plugin(self) -> bool:
        """Accept one connection of the plugin; return whether it is connected afterwards."""
        self.node.spread_exemptions()
        updates = self.runtime.accept_plugin(self.node.content(), self._cannot_connect)
        if updates is None:
            return False
        self._synchronized(updates)
        return self.check_connection()

    def _cannot_connect(self) -> bool:
        return not (self.plugin.is_running() or self.plugin.processes())

    def _synchronized(self, updates: list[api.ContainerUpdate]) -> None:
        self.node.update(updates)
        self.node.synchronizations += 1
        self.connections += 1
        self.connected = True
        self._synchronized_start = self.plugin_starts
        self.known_timeouts = self.timeouts()
        listed = {pod.uid for pod in self.node.pods.values() if pod.has_ended}
        self.unreported_pods = {
            uid: must for uid, must in self.unreported_pods.items() if uid in listed
        }

    def timeouts(self) -> int:
        """Return the number of requests that the plugin timed out."""
        events = ("request_timed_out", "synchronize_timed_out")
        return sum(len(self.plugin.journal.named(event)) for event in events)

    # Calls

    def call(
        self,
        op: str,
        pod: api.PodSandbox,
        container: api.Container | None = None,
        resources: api.LinuxResources | None = None,
    ) -> Reply:
        """Make a call; only creations and resizes may be refused. Raises Failure."""
        if self.runtime_is_down:
            return Reply(runtime_died=True)
        reply = self.runtime.call(op, pod, container, resources)
        self.calls += 1
        self.slowest_s = max(self.slowest_s, reply.took_s)
        if reply.runtime_died:
            if not self.is_runtime_kill_pending:
                raise CertainFailure(f"{op} ended the runtime")
            self.runtime_died()
        limit_s = self.runtime.request_timeout_s + MARGIN_S
        if reply.took_s > limit_s:
            raise Failure(f"{op} took {reply.took_s:.2f} s, more than {limit_s:.2f} s")
        if reply.refusal is not None and op not in ("CreateContainer", "UpdateContainer"):
            raise CertainFailure(f"{op} was refused: {reply.refusal}")
        if reply.took_s >= self.runtime.request_timeout_s:
            self._await_drop()
        self.check_connection()
        return reply

    def _await_drop(self) -> None:
        """Wait until the runtime drops the plugin, as it does after its timeout."""
        deadline_s = self.clock.monotonic_s() + MARGIN_S
        while self.check_connection() and self.clock.monotonic_s() < deadline_s:
            self.clock.sleep(0.01)

    def is_recorded(self, container: Container) -> bool:
        """Return whether the plugin must have recorded a container, if it is pinned."""
        if self._synchronized_start == self.plugin_starts:
            return True
        entry = self._entry(container.pod, container.spec.name)
        return entry is not None and entry.nodes == container.mems

    def _entry(self, pod: Pod, name: str) -> StateEntry | None:
        """Return the entry of a sandbox's container in the state file at the plugin's start."""
        entry = self._at_start.get((pod.uid, name))
        return entry if entry is not None and entry.sandbox_id == pod.message.id else None

    def forget(self, pod: Pod) -> None:
        """Remove a sandbox from the runtime."""
        self.node.pods.pop(pod.message.id, None)

    def wait_for_sweep(self) -> None:
        """Wait until the plugin has seen the cgroups of all pods."""
        if self.must_not_wait or not self.check_connection():
            return
        self.clock.sleep(self.plugin.sweep_s)
        for pod in self.node.running():
            pod.swept_by = self.plugin_starts

    def close(self) -> None:
        """End all processes and free all resources."""
        self.host.free()
        if not self.runtime_is_down:
            self.runtime.kill()
        self.plugin.end()
        if self.proxy is not None:
            self.proxy.close()
        self.host.close()


def process_parts(data: NodeLife, root: Path, kinds: str = ALL) -> Parts:
    """Return the parts of a life with real processes; `kinds` limits the choice of runtimes."""
    host = LifeHost(root, data.machine)
    parameters = choose(random.Random(f"{data.seed}"), host, data.settings, kinds)
    proxy = None if parameters.is_launched else SocketProxy(root / "nri.sock")
    return Parts(
        host,
        parameters,
        parameters.side(root, proxy),
        PluginProcesses(host, parameters.arguments(host)),
        proxy,
        RealClock(),
        EVENTUALLY_S,
    )
