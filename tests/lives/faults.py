"""The faults of virtual lives, timed by the virtual clock.

Most are shared with tests/faults. Added are those that need exact timing, such as a request that
overruns or a process that dies at a given function call, and those of the virtual disk.
"""

import random
from collections.abc import Callable, Mapping
from functools import partial

from nri_numamem.nri.plugin_service import Overrun
from tests.faults.failure import Failure
from tests.faults.faults import FaultPlayer
from tests.faults.host_faults import change_machine, change_machine_under, damage_state
from tests.faults.life import Life
from tests.faults.process_faults import (
    flap_runtime,
    kill_plugin,
    kill_runtime,
    lose_reply,
    lose_while_connecting,
    meanwhile,
    pause_plugin,
    pause_plugin_for_seconds,
    restart_plugin,
    stall_runtime_reads,
)
from tests.faults.steps import any_step, create
from tests.faults.verdict import check
from tests.lives.plugin import VirtualPlugin
from tests.lives.runtime import LifeRuntime
from tests.sequences.operations import CreateNext
from tests.virtual.system import Machinery
from tests.virtual.world import Killed

# A creation calls some 100 functions of the package, a Synchronize some thousands.
_CALLS = (1, 3, 10, 20, 40, 60, 80, 100, 150, 400)


def _step(life: Life) -> None:
    """Do a step that does not wait."""
    life.must_not_wait = True
    try:
        any_step(life)
    finally:
        life.must_not_wait = False


def update_plugin(machinery: Machinery, life: Life, rng: random.Random) -> bool:
    """Replace the plugin's process by another one, as a rolling update of a DaemonSet does."""
    plugin = life.plugin
    assert isinstance(plugin, VirtualPlugin)
    if not life.parameters.has_state_file:
        return False
    life.note("a second instance starts")
    if not plugin.start_successor():
        raise Failure("the second instance does not wait")
    for _ in range(rng.choice((0, 1, 3))):
        any_step(life)
    check(life)
    if rng.random() < 0.3:
        life.note("SIGKILL for the first instance")
        plugin.kill()
    else:
        life.note("SIGTERM for the first instance")
        if plugin.stop() != 0:
            raise Failure("after SIGTERM the first instance ended with an error")
    life.plugin_died()
    if rng.random() < 0.5:
        machinery.world.advance(rng.choice((0.05, 0.2, 3.0)))
    meanwhile(life, rng)
    life.restore_connection()
    waits, ends = (len(plugin.journal.named(event)) for event in ("standby", "taken_over"))
    if waits != ends:
        raise Failure(f"instances that waited: {waits}, that took over: {ends}")
    return True


def time_out_request(machinery: Machinery, life: Life, rng: random.Random) -> bool:
    """Let a request take too long, in the middle of its computation."""
    calls = rng.choice(_CALLS)
    life.note(f"the next request overruns at function call {calls}")
    machinery.interruption.error, machinery.interruption.after_calls = Overrun, calls
    _step(life)
    machinery.interruption.error = None
    life.restore_connection()
    return True


def kill_in_request(machinery: Machinery, life: Life, rng: random.Random) -> bool:
    """Kill the plugin in the middle of a request's computation."""
    calls = rng.choice(_CALLS)
    life.note(f"SIGKILL for the plugin at function call {calls} of the next request")
    life.plugin.is_end_expected = True
    machinery.interruption.error, machinery.interruption.after_calls = Killed, calls
    _step(life)
    machinery.interruption.error = None
    life.plugin.kill()
    life.plugin_died()
    life.restore_connection()
    return True


def kill_runtime_in_request(machinery: Machinery, life: Life, rng: random.Random) -> bool:
    """Kill the runtime in the middle of a call: before the request, or before its reply."""
    runtime = life.runtime
    assert isinstance(runtime, LifeRuntime)
    runtime.dies_in_call, runtime.is_request_sent = rng.choice((1, 1, 2, 3)), rng.random() < 0.8
    sent = "before its reply" if runtime.is_request_sent else "before it is sent"
    life.note(f"SIGKILL for the runtime in request {runtime.dies_in_call} from now, {sent}")
    life.is_runtime_kill_pending = True
    _step(life)
    life.is_runtime_kill_pending, runtime.dies_in_call = False, 0
    if not life.runtime_is_down:
        life.runtime_died()
    machinery.world.advance(rng.choice((0.0, 0.1, 3.0)))
    life.restore_connection()
    return True


def start_while_connecting(_machinery: Machinery, life: Life, rng: random.Random) -> bool:
    """Let a container be started while the plugin connects: updates miss its cgroup."""
    waiting = [pod for pod in life.node.running() if pod.is_guaranteed and pod.next_spec()]
    if not waiting or life.proxy is None:
        return False
    pod = rng.choice(waiting)
    spec = pod.next_spec()
    assert spec is not None
    life.proxy.cut()
    life.check_connection()
    life.node.is_start_delayed = True
    create(life, pod, spec, CreateNext(pod.key))
    life.node.is_start_delayed = False
    container = pod.containers.get(spec.name)
    if container is not None and rng.random() < 0.8:
        del container.message.linux.devices[:]
        container.must_not_move = rng.random() < 0.2
    life.note(f"{pod.message.name}/{spec.name} starts while the plugin connects")
    life.restore_connection()
    life.clock.sleep(rng.choice((0.1, 3.0, 9.0, 40.0)))
    if container is not None:
        life.node.finish_start(container)
    return True


def wait_long(_machinery: Machinery, life: Life, rng: random.Random) -> bool:
    """Let nothing happen for a while."""
    seconds = rng.choice((2.0, 7.0, 40.0, 600.0))
    life.note(f"nothing happens for {seconds:g} s")
    life.clock.sleep(seconds)
    return True


def fill_disk(machinery: Machinery, life: Life, rng: random.Random) -> bool:
    """Let the disk of the state file be full for some steps."""
    machinery.disk.is_full = True
    _without_disk(machinery, life, rng, "full")
    return True


def freeze_disk(machinery: Machinery, life: Life, rng: random.Random) -> bool:
    """Let the disk of the state file be frozen for some steps."""
    machinery.disk.is_frozen = True
    _without_disk(machinery, life, rng, "frozen")
    return True


def _without_disk(machinery: Machinery, life: Life, rng: random.Random, how: str) -> None:
    disk = machinery.disk
    life.host.is_full = True  # the state file is not compared
    life.note(f"the disk is {how}")
    for _ in range(rng.choice((1, 2, 4))):
        any_step(life)
    check(life)
    if rng.random() < 0.4:
        kill_plugin(life, rng)
        any_step(life)
    disk.is_full = disk.is_frozen = life.host.is_full = False
    life.note("the disk works again")


# Those that need only a kill, a cut or another machine, and those of the virtual machine.
_SHARED: Mapping[str, FaultPlayer] = {
    "plugin killed": kill_plugin,
    "plugin restarted": restart_plugin,
    "reply lost": lose_reply,
    "cut while connecting": lose_while_connecting,
    "runtime killed": kill_runtime,
    "runtime flaps": flap_runtime,
    "plugin stopped": pause_plugin,
    "plugin stopped for seconds": pause_plugin_for_seconds,
    "runtime does not read": stall_runtime_reads,
    "machine changed while away": change_machine,
    "machine changed": change_machine_under,
    "state file damaged": damage_state,
}
_VIRTUAL: Mapping[str, Callable[[Machinery, Life, random.Random], bool]] = {
    "request overruns": time_out_request,
    "plugin killed in a request": kill_in_request,
    "rolling update": update_plugin,
    "runtime killed in a request": kill_runtime_in_request,
    "start while connecting": start_while_connecting,
    "disk full": fill_disk,
    "disk frozen": freeze_disk,
    "idle": wait_long,
}
KINDS = (*_SHARED, *_VIRTUAL)


def faults_of(machinery: Machinery) -> dict[str, FaultPlayer]:
    """Return the faults on a virtual machine."""
    return {**_SHARED, **{kind: partial(play, machinery) for kind, play in _VIRTUAL.items()}}
