"""One random life of a node, made from a seed: what runs, what breaks, and what must hold.

Here is what the life is made of: its host, runtime side, plugin and pods, and the moves that steps
and faults have in common. Choices of each step come from a generator of their own, so that a life
whose timing differs (a reply was just in time, or just not) still has the same steps.
"""

import random
import signal
import time
from collections import Counter
from pathlib import Path

from nri_numamem.cli.posix_timer import EXPIRED_STATUS
from nri_numamem.nri import api_pb2 as api
from tests.faults.failure import Alarm, Failure
from tests.faults.ground import Ground, random_machine
from tests.faults.node import Container, Node, Pod
from tests.faults.plugin import Plugin
from tests.faults.program import SWEEP_S
from tests.faults.setting import ALL, Setting, choose
from tests.faults.sides import Answer, Side
from tests.faults.wire import Wire

MARGIN_S = 1.5  # besides the runtime's timeout: several lives run at once
_ATTEMPTS = 4


class Life:
    """A node, from its installation on. `kinds` limits which runtime sides it may have."""

    def __init__(self, seed: int, root: Path, kinds: str = ALL) -> None:
        rng = random.Random(f"{seed}")
        self.seed = seed
        self.story: list[str] = []
        self.faults: Counter[str] = Counter()
        self.calls = 0
        self.slowest_s = 0.0
        self.connections = 0
        self.is_down = False
        """The runtime is dead."""
        self.is_killing = False
        """Somebody is about to kill the runtime."""
        self.connected = False
        self.is_hurried = False
        """Something is going on that ends by itself: no step may wait."""
        self.has_hung = False
        self.era = 0
        """How often the plugin was started."""
        self.ended_names: dict[str, str] = {}
        self.ghosts: dict[str, bool] = {}
        """Uids of pods whose end nobody told -> whether the plugin must notice by itself."""
        self._counts: Counter[str] = Counter()
        self._synced_era = 0
        self._at_start: dict[tuple[str, str], str] = {}
        self.mark = 0
        self.overruns_seen = 0
        self.ground = Ground(root, random_machine(rng))
        self.setting: Setting = choose(rng, self.ground, kinds)
        self.node = Node(self.setting.habits)
        self.wire = None if self.setting.is_launched else Wire(root / "nri.sock")
        self.side: Side = self.setting.side(root, self.wire)
        self.plugin = Plugin(self.ground, self.setting.arguments(root))
        self.seen_machine = self.ground.machine
        self.tell(f"{self.side.name}, {self.setting}")

    def tell(self, text: str) -> None:
        """Add a line to the story."""
        self.story.append(text)

    def fate(self, answer: Answer) -> str:
        """Say in a few words what became of a call, for the story."""
        if answer.is_dead:
            return "; the runtime died over it"
        word = "; refused" if answer.refusal is not None else ""
        return word if self.connected else "; nobody was asked"

    def count(self, what: str) -> int:
        """Return the next number of something."""
        self._counts[what] += 1
        return self._counts[what]

    # The runtime and the plugin

    def begin(self) -> None:
        """Start both."""
        self.start_runtime()
        if not self.connected:
            self.reconnect()

    def start_runtime(self) -> None:
        """Start the runtime, and with it a launched plugin."""
        for _ in range(_ATTEMPTS):
            if self.setting.is_launched:
                self._process_starts()
            self.node.spread_excuses()
            updates = self.side.start(self.node.content())
            self.is_down = self.is_killing = False
            if not self.setting.is_launched:
                return
            if updates is not None:
                self._synchronized(updates)
                return
            # A machine that is busy with other lives is no find.
            self.tell("the launched plugin was not ready in time: the runtime is restarted")
            self.runtime_died()
            self.plugin.gone()
        raise Failure(f"the launched plugin did not come up: {self.last_words()}")

    def runtime_died(self) -> None:
        """Do what its death means for the others."""
        self.side.kill()
        self.is_down, self.connected = True, False
        self.node.runtime_died()

    def restart_runtime(self) -> None:
        """Start the runtime anew, which may still be alive."""
        if not self.is_down:
            self.runtime_died()
        if self.setting.forgets_running:
            self.reboot()
        if self.setting.is_launched and not self.plugin.gone():
            raise Failure(f"left behind by the runtime: {self.plugin.processes()}")
        self.start_runtime()

    def reboot(self) -> None:
        """Let everything that runs vanish."""
        self.tell("everything that runs is gone")
        for pod in list(self.node.pods.values()):
            self.ground.drop_cgroup(pod.message)
        self.node.pods.clear()
        self.ghosts.clear()

    def start_plugin(self) -> None:
        """Start the external plugin."""
        self._process_starts()
        self.plugin.start()

    def _process_starts(self) -> None:
        """Keep only such expectations as a process can know that reads the state file now."""
        self.era += 1
        self.seen_machine = self.ground.machine
        kept = self.ground.kept() if self.setting.has_state_file else {}
        self._at_start = {key: entry.nodes for key, entry in kept.items()}
        for pod in self.node.pods.values():
            for name, held in list(pod.held.items()):
                entry = kept.get((pod.uid, name))
                is_kept = entry is not None and entry.nodes == held.mems
                if entry is None or not is_kept or entry.memory_bytes < held.memory_bytes:
                    del pod.held[name]
        self.ghosts = dict.fromkeys(self.ghosts, False)

    def plugin_died(self) -> None:
        """Note that somebody killed the plugin's process."""
        if self.setting.is_launched and self.connected:
            self._process_starts()  # its keeper starts it again
        self.connected = False

    def notice(self) -> bool:
        """Notice that the connection ended, or the runtime gave the plugin up; tells if not."""
        if not self.is_down and self.connected:
            is_cut = self.wire is not None and not self.wire.is_connected
            if is_cut or self.side.is_dropped():
                self.plugin_died()
        return self.connected

    def bring_back(self) -> None:
        """Bring back what is missing, if something is."""
        self.tell_content()
        if not self.notice():
            self.reconnect()

    def tell_content(self) -> None:
        """Set what a launched plugin will be told that comes back at a moment of its own."""
        if not self.is_down:
            self.side.tell(self.node.content())

    def reconnect(self) -> None:
        """Bring the plugin back, as systemd, its keeper or the runtime's restart do."""
        if self.is_down:
            self.restart_runtime()
            if self.connected:
                return
        for _ in range(_ATTEMPTS):
            if self.wire is not None:
                self._supervise()
            if self.admit():
                return
            if self.wire is None and not self.plugin.processes():
                self.tell("the plugin has ended with its connection: the runtime is restarted")
                self.restart_runtime()
                return
        raise Failure(f"the plugin did not come back: {self.last_words()}")

    def _supervise(self) -> None:
        status = self.plugin.status
        if status is not None and not self.plugin.is_asked_to_end:
            # Its look at threads that have just begun to run again may end in SIGSEGV.
            if not self.has_hung or status not in (EXPIRED_STATUS, -signal.SIGSEGV):
                raise Failure(f"the plugin ended with status {status}: {self.last_words()}")
            self.tell("the watchdog has ended the plugin")
        if not self.plugin.is_running():
            self.start_plugin()

    def last_words(self) -> str:
        """Return the end of the plugin's log."""
        self.plugin.journal.read()
        tail = [str(record) for record in self.plugin.journal.records[-3:]]
        return " | ".join([*tail, *self.plugin.journal.odd_lines[-3:]])

    def admit(self) -> bool:
        """Let the plugin in once; tells whether it then was there."""
        self.plugin.journal.read()
        self.mark = len(self.plugin.journal.records)
        self.node.spread_excuses()
        updates = self.side.admit(self.node.content(), self._is_hopeless)
        if updates is None:
            return False
        self._synchronized(updates)
        return self.notice()

    def _is_hopeless(self) -> bool:
        return not (self.plugin.is_running() or self.plugin.processes())

    def _synchronized(self, updates: list[api.ContainerUpdate]) -> None:
        self.node.update(updates)
        self.node.synchronizations += 1
        self.connections += 1
        self.connected = True
        self._synced_era = self.era
        self.overruns_seen = self.overruns()
        listed = {pod.uid for pod in self.node.pods.values() if pod.has_ended}
        self.ghosts = {uid: must for uid, must in self.ghosts.items() if uid in listed}

    def overruns(self) -> int:
        """Return how many answers were cut short."""
        events = ("request took too long, answered neutrally", "Synchronize took too long")
        return sum(len(self.plugin.journal.named(event)) for event in events)

    # Calls

    def call(
        self,
        op: str,
        pod: api.PodSandbox,
        container: api.Container | None = None,
        resources: api.LinuxResources | None = None,
    ) -> Answer:
        """Let the runtime do an operation; only creations and resizes may be refused."""
        if self.is_down:
            return Answer(is_dead=True)
        answer = self.side.call(op, pod, container, resources)
        self.calls += 1
        self.slowest_s = max(self.slowest_s, answer.took_s)
        if answer.is_dead:
            if not self.is_killing:
                raise Alarm(f"{op} ended the runtime")
            self.runtime_died()
        limit_s = self.side.request_timeout_s + MARGIN_S
        if answer.took_s > limit_s:
            raise Failure(f"{op} took {answer.took_s:.2f} s, more than {limit_s:.2f} s")
        if answer.refusal is not None and op not in ("CreateContainer", "UpdateContainer"):
            raise Alarm(f"{op} was refused: {answer.refusal}")
        if answer.took_s >= self.side.request_timeout_s:
            self._await_drop()
        self.notice()
        return answer

    def _await_drop(self) -> None:
        """Wait until it shows that the runtime gave the plugin up, as it does after its timeout."""
        deadline = time.monotonic() + MARGIN_S
        while self.notice() and time.monotonic() < deadline:
            time.sleep(0.01)

    def is_on_books(self, container: Container) -> bool:
        """Tell whether the plugin must have a container on its books, if it is pinned."""
        if self._synced_era == self.era:
            return True
        return self._at_start.get(container.key) == container.mems

    def forget(self, pod: Pod) -> None:
        """Let the runtime forget a sandbox."""
        self.node.pods.pop(pod.message.id, None)

    def let_sweep(self) -> None:
        """Give the plugin time to see the cgroups of all pods that it knows."""
        if self.is_hurried or not self.notice():
            return
        time.sleep(3 * SWEEP_S)
        for pod in self.node.running():
            pod.swept_by = self.era

    def close(self) -> None:
        """End whatever is left of it."""
        self.ground.free()
        if not self.is_down:
            self.side.kill()
        self.plugin.end()
        if self.wire is not None:
            self.wire.close()
        self.ground.close()
