"""What breaks between plugin and runtime: they are killed or stopped, and replies are lost.

Each fault leaves the node as it would be found after it, perhaps goes on for a few steps, and then
brings back what systemd, the keeper or an operator would bring back.
"""

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable

from tests.faults.failure import Failure
from tests.faults.life import Life
from tests.faults.program import STALL_S
from tests.faults.steps import any_step


def meanwhile(life: Life, rng: random.Random) -> None:
    """Let the node live on for a while, whoever is missing."""
    for _ in range(rng.choice((0, 0, 1, 2, 3))):
        if not life.is_down:
            _step(life, rng)
            life.tell_content()


def _step(life: Life, rng: random.Random) -> None:
    """Do a step that does not wait."""
    life.is_hurried = True
    try:
        any_step(life, rng)
    finally:
        life.is_hurried = False


def kill_plugin(life: Life, rng: random.Random) -> bool:
    """Kill the plugin between two requests."""
    life.tell("SIGKILL for the plugin")
    life.plugin.kill()
    life.plugin_died()
    meanwhile(life, rng)
    life.bring_back()
    return True


def kill_plugin_in_request(life: Life, rng: random.Random) -> bool:
    """Kill the plugin while it answers."""
    life.tell("SIGKILL for the plugin in the middle of a request")
    pids, pause_s = life.plugin.workers(), rng.uniform(0, 0.004)

    def kill() -> None:
        time.sleep(pause_s)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    if life.wire is None:
        killer = threading.Thread(target=kill)
        killer.start()
        _step(life, rng)
        killer.join()
    else:
        life.wire.on_request = kill
        _step(life, rng)
        life.wire.on_request = None
        kill()
    life.plugin.kill(pids)
    life.plugin_died()
    meanwhile(life, rng)
    life.bring_back()
    return True


def restart_plugin(life: Life, rng: random.Random) -> bool:
    """Restart the plugin as it should be."""
    if life.wire is None:
        return False
    life.tell("SIGTERM for the plugin")
    status = life.plugin.stop()
    if status != 0:
        raise Failure(f"asked to stop, the plugin ended with status {status}")
    life.plugin_died()
    meanwhile(life, rng)
    life.bring_back()
    return True


def lose_reply(life: Life, rng: random.Random) -> bool:
    """Cut the connection between a request and its reply."""
    if life.wire is None:
        return False
    life.tell("the next reply is lost")
    life.wire.cut_at_reply()
    _step(life, rng)
    life.wire.cut_at_reply(0)
    life.bring_back()
    return True


def lose_while_connecting(life: Life, rng: random.Random) -> bool:
    """Cut the connection while the plugin registers, is configured or is synchronized."""
    if life.wire is None:
        return False
    number = rng.choice((1, 2, 3, 3, 4))
    life.tell(f"disconnected, and again when the plugin sends for the {number}. time")
    life.wire.cut()
    life.notice()
    meanwhile(life, rng)
    life.wire.cut_at_reply(number)
    if life.admit():
        _step(life, rng)
    life.wire.cut_at_reply(0)
    life.bring_back()
    return True


def kill_runtime(life: Life, rng: random.Random) -> bool:
    """Kill the runtime between two requests; sometimes containers end meanwhile."""
    life.tell("SIGKILL for the runtime")
    life.runtime_died()
    for container in list(life.node.containers()):
        if rng.random() < 0.1:
            life.tell(f"{container.pod.message.name}/{container.spec.name} ends meanwhile")
            life.node.end(container, on_books=life.is_on_books(container))
            if container.spec.is_init:
                container.pod.done.add(container.spec.name)
    life.bring_back()
    return True


def kill_runtime_in_request(life: Life, rng: random.Random) -> bool:
    """Kill the runtime while it waits for a reply."""
    if life.side.pid == 0 and life.wire is None:
        return False
    life.tell("SIGKILL for the runtime in the middle of a request")
    if life.side.pid:
        pid, pause_s = life.side.pid, rng.uniform(0, 0.004)
        life.is_killing = True
        killer = threading.Timer(pause_s, os.kill, (pid, signal.SIGKILL))
        killer.start()
        _step(life, rng)
        killer.join()
    elif life.wire is not None:
        life.wire.cut_at_reply()
        _step(life, rng)
        life.wire.cut_at_reply(0)
    if not life.is_down:
        life.runtime_died()
    life.bring_back()
    return True


def _stopped(life: Life, rng: random.Random, seconds: float, stop: Callable[[int], None]) -> None:
    stop(signal.SIGSTOP)
    timer = threading.Timer(seconds, stop, (signal.SIGCONT,))
    timer.start()
    try:
        _step(life, rng)
    finally:
        timer.join()


def freeze_plugin(life: Life, rng: random.Random) -> bool:
    """Stop the plugin for a moment, shorter or longer than the runtime waits."""
    seconds = life.side.request_timeout_s * rng.choice((0.1, 0.3, 0.5, 1.3))
    life.tell(f"the plugin is stopped for {seconds:.2f} s")
    _freeze(life, rng, seconds)
    return True


def _freeze(life: Life, rng: random.Random, seconds: float) -> None:
    before = life.plugin.workers()
    _stopped(life, rng, seconds, life.plugin.signal)
    if life.wire is None:
        time.sleep(0.05)
        if life.plugin.workers() != before:
            life.plugin_died()
    life.bring_back()


def hang_plugin(life: Life, rng: random.Random) -> bool:
    """Stop the plugin for longer than its watchdog allows."""
    if life.has_hung or life.wire is None or rng.random() < 0.6:
        return False
    life.has_hung = True
    life.tell("the plugin is stopped for longer than its watchdog allows")
    _freeze(life, rng, STALL_S + 0.3)
    return True


def stall_peer(life: Life, rng: random.Random) -> bool:
    """Let the runtime's side read nothing for a while."""
    wire = life.wire
    if wire is None:
        return False
    seconds = life.side.request_timeout_s * rng.choice((0.1, 0.4, 1.2))
    life.tell(f"the runtime's side does not read for {seconds:.2f} s")
    wire.stall()
    timer = threading.Timer(seconds, wire.flow)
    timer.start()
    _step(life, rng)
    timer.join()
    life.bring_back()
    return True


def freeze_runtime(life: Life, rng: random.Random) -> bool:
    """Stop the runtime's process for a moment."""
    pid = life.side.pid
    if not pid:
        return False
    seconds = life.side.request_timeout_s * rng.choice((0.2, 0.7))
    life.tell(f"the runtime is stopped for {seconds:.2f} s")

    def stop(number: int) -> None:
        os.kill(pid, number)

    _stopped(life, rng, seconds, stop)
    life.bring_back()
    return True
