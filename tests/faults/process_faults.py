"""Faults between plugin and runtime: processes are killed or stopped, and replies are lost.

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
from tests.faults.steps import any_step


def meanwhile(life: Life, rng: random.Random) -> None:
    """Do up to three steps in the present situation."""
    for _ in range(rng.choice((0, 0, 1, 2, 3))):
        if not life.runtime_is_down:
            _step(life)
            life.update_content()


def _step(life: Life) -> None:
    """Do a step that does not wait."""
    life.must_not_wait = True
    try:
        any_step(life)
    finally:
        life.must_not_wait = False


def kill_plugin(life: Life, rng: random.Random) -> bool:
    """Kill the plugin between two requests."""
    life.note("SIGKILL for the plugin")
    life.plugin.kill()
    life.plugin_died()
    meanwhile(life, rng)
    life.restore_connection()
    return True


def kill_plugin_in_request(life: Life, rng: random.Random) -> bool:
    """Kill the plugin during a request."""
    life.note("SIGKILL for the plugin during a request")
    pids, pause_s = life.plugin.workers(), rng.uniform(0, 0.004)

    def kill() -> None:
        time.sleep(pause_s)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    if life.proxy is None:
        killer = threading.Thread(target=kill)
        killer.start()
        _step(life)
        killer.join()
    else:
        life.proxy.on_request = kill
        _step(life)
        life.proxy.on_request = None
        kill()
    life.plugin.kill(pids)
    life.plugin_died()
    meanwhile(life, rng)
    life.restore_connection()
    return True


def restart_plugin(life: Life, rng: random.Random) -> bool:
    """Restart the plugin regularly."""
    if life.proxy is None:
        return False
    life.note("SIGTERM for the plugin")
    status = life.plugin.stop()
    if status != 0:
        raise Failure(f"after SIGTERM the plugin ended with status {status}")
    life.plugin_died()
    meanwhile(life, rng)
    life.restore_connection()
    return True


def lose_reply(life: Life, rng: random.Random) -> bool:
    """Cut the connection between a request and its reply."""
    if life.proxy is None:
        return False
    life.note("the next reply is lost")
    life.proxy.cut_at_reply()
    _step(life)
    life.proxy.cut_at_reply(0)
    life.restore_connection()
    return True


def lose_while_connecting(life: Life, rng: random.Random) -> bool:
    """Cut the connection while the plugin registers, is configured or is synchronized."""
    if life.proxy is None:
        return False
    number = rng.choice((1, 2, 3, 3, 4))
    life.note(f"disconnected, and again at message {number} of the next connection")
    life.proxy.cut()
    life.check_connection()
    meanwhile(life, rng)
    life.proxy.cut_at_reply(number)
    if life.accept_plugin():
        _step(life)
    life.proxy.cut_at_reply(0)
    life.restore_connection()
    return True


def kill_runtime(life: Life, rng: random.Random) -> bool:
    """Kill the runtime between two requests; sometimes containers end meanwhile."""
    life.note("SIGKILL for the runtime")
    life.runtime_died()
    for container in list(life.node.containers()):
        if rng.random() < 0.1:
            life.note(f"{container.pod.message.name}/{container.spec.name} ends meanwhile")
            life.node.end(container, is_recorded=life.is_recorded(container))
            if container.spec.is_init:
                container.pod.done.add(container.spec.name)
    life.restore_connection()
    return True


def kill_runtime_in_request(life: Life, rng: random.Random) -> bool:
    """Kill the runtime while it waits for a reply."""
    if life.runtime.pid == 0 and life.proxy is None:
        return False
    life.note("SIGKILL for the runtime during a request")
    if life.runtime.pid:
        pid, pause_s = life.runtime.pid, rng.uniform(0, 0.004)
        life.is_runtime_kill_pending = True
        killer = threading.Timer(pause_s, os.kill, (pid, signal.SIGKILL))
        killer.start()
        _step(life)
        killer.join()
    elif life.proxy is not None:
        life.proxy.cut_at_reply()
        _step(life)
        life.proxy.cut_at_reply(0)
    if not life.runtime_is_down:
        life.runtime_died()
    life.restore_connection()
    return True


def _while_stopped(life: Life, seconds: float, stop: Callable[[int], None]) -> None:
    stop(signal.SIGSTOP)
    wait = life.clock.after(seconds, lambda: stop(signal.SIGCONT))
    try:
        _step(life)
        # A runtime that gave the plugin up kills it, and its successor synchronizes at once.
        life.update_content()
    finally:
        wait()


def flap_runtime(life: Life, rng: random.Random) -> bool:
    """Kill and start the runtime several times in a short time."""
    times = 3 if life.parameters.is_launched else rng.choice((3, 6, 12))
    life.note(f"the runtime is killed {times} times")
    for _ in range(times):
        life.runtime_died()
        life.clock.sleep(rng.choice(life.clock.flaps_s))
        life.restart_runtime()
        life.clock.sleep(rng.choice(life.clock.flaps_s))
    life.restore_connection()
    return True


def pause_plugin(life: Life, rng: random.Random) -> bool:
    """Stop the plugin for less or more than the request timeout."""
    seconds = life.runtime.request_timeout_s * rng.choice((0.1, 0.3, 0.5, 0.9, 1.3))
    life.note(f"the plugin is stopped for {seconds:.2f} s")
    _pause(life, seconds)
    return True


def _pause(life: Life, seconds: float) -> None:
    before = life.plugin.workers()
    _while_stopped(life, seconds, life.plugin.signal)
    if life.proxy is None:
        time.sleep(0.05)
        if life.plugin.workers() != before:
            life.plugin_died()
    life.restore_connection()


def pause_plugin_for_seconds(life: Life, rng: random.Random) -> bool:
    """Stop the plugin for seconds, once in a life; its own guards must not end it."""
    if life.faults["plugin stopped for seconds"]:
        return False
    seconds = rng.choice(life.clock.pauses_s)
    life.note(f"the plugin is stopped for {seconds:g} s")
    _pause(life, seconds)
    return True


def stall_runtime_reads(life: Life, rng: random.Random) -> bool:
    """Make the runtime read nothing for a while."""
    proxy = life.proxy
    if proxy is None:
        return False
    seconds = life.runtime.request_timeout_s * rng.choice((0.1, 0.4, 1.2))
    life.note(f"the runtime does not read for {seconds:.2f} s")
    proxy.stall()
    wait = life.clock.after(seconds, proxy.resume_reading)
    _step(life)
    wait()
    life.restore_connection()
    return True


def pause_runtime(life: Life, rng: random.Random) -> bool:
    """Stop the runtime's process for less than the request timeout."""
    pid = life.runtime.pid
    if not pid:
        return False
    seconds = life.runtime.request_timeout_s * rng.choice((0.2, 0.7))
    life.note(f"the runtime is stopped for {seconds:.2f} s")

    def stop(number: int) -> None:
        os.kill(pid, number)

    _while_stopped(life, seconds, stop)
    life.restore_connection()
    return True
