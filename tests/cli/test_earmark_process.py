"""Earmarks on a plugin process behind a fake runtime: they end the race of a plan by hand."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from nri_numamem.cli.demo import PodSpec, RefusedError
from nri_numamem.cli.main import main
from nri_numamem.memorymanager import QosClass
from nri_numamem.observe.plugin_file import plugin_file_of
from tests.cli.explain.test_rebalancing_process import _without_devices
from tests.laboratory.demo import DemoSandbox
from tests.simulated_host import WAIT_S, wait_for

pytestmark = pytest.mark.slow

_SETTINGS = "earmarks: {enabled: true, maxPercent: 60}\n"
# Percent of a node. The first and the third one end when all have started.
_PODS = {"filler": 90, "small": 20, "neighbour": 75, "large": 90, "last": 50}

__all__ = ["_without_devices"]  # a fixture


class Commands:
    """Commands on the host of a sandbox."""

    def __init__(self, sandbox: DemoSandbox, capsys: pytest.CaptureFixture[str]) -> None:
        root = sandbox._root
        self._options = ["--state-file", str(root / "nri_numamem_state")]
        for name, folder in (("sysfs", "sys"), ("proc", "proc"), ("cgroup", "cgroup")):
            self._options += [f"--{name}-root", str(root / folder)]
        self._capsys = capsys
        # The plugin writes its settings after it has started, on another thread.
        wait_for(plugin_file_of(root / "nri_numamem_state").exists, "the plugin's settings")

    def run(self, *words: str) -> tuple[int, str]:
        """Return the exit status, and what was printed."""
        try:
            status = main([*words, *self._options])
        except SystemExit as end:
            status = int(end.code or 0)
        captured = self._capsys.readouterr()
        return status, captured.out + captured.err

    def wait(self, condition: Callable[[dict[str, Any]], bool], *words: str) -> dict[str, Any]:
        """Repeat a command until its document is as expected; files are written later."""
        deadline, found = time.monotonic() + WAIT_S, dict[str, Any]()
        while time.monotonic() < deadline:
            status, text = self.run(*words, "--output", "json")
            found = json.loads(text) if status == 0 else {}
            if found and condition(found):
                return found
            time.sleep(0.1)
        raise AssertionError(f"{words}: {found}")


def _has_plan(document: dict[str, Any]) -> bool:
    plan = document["containers"][0]["plan"]
    return bool(plan and plan["moves"])


def test_the_room_of_a_plan_is_free_for_the_refused_pod_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with DemoSandbox(settings=_SETTINGS) as sandbox:
        commands = Commands(sandbox, capsys)
        nodes = sandbox.accounting()["machineState"].values()
        node_bytes = min(node["memoryMap"]["memory"]["allocatable"] for node in nodes)

        def spec(name: str, percent: int) -> PodSpec:
            return PodSpec(name, "main", QosClass.GUARANTEED, node_bytes * percent // 100)

        pods = {name: spec(name, percent) for name, percent in _PODS.items()}
        for pod in pods.values():
            sandbox.start_pod(pod)
        sandbox.remove_pod(pods["filler"])
        sandbox.remove_pod(pods["neighbour"])
        big = spec("big", 150)
        with pytest.raises(RefusedError, match="needs 2 NUMA nodes"):
            sandbox.start_pod(big)
        commands.wait(_has_plan, "explain", "big")
        status, made = commands.run("earmark", "make", "big")
        assert status == 0, made
        assert "on nodes 0-1 set aside for default/big until" in made
        uid = made.split()[-1]
        listed = commands.wait(lambda found: bool(found["earmarks"]), "earmark", "list")
        (entry,) = listed["earmarks"]
        assert entry["uid"] == uid
        assert entry["nodes"] == [0, 1]
        assert entry["leftBytes"] == {"memory": big.memory_bytes}
        # The replacement of a pod that was moved starts before the pod for which it moved.
        sandbox.remove_pod(pods["small"])
        assert sandbox.start_pod(pods["small"]).cpuset_mems == "3"
        with pytest.raises(RefusedError, match="on nodes 0-1 is set aside for other pods"):
            sandbox.start_pod(spec("thief", 60))
        assert sandbox.start_pod(big).cpuset_mems == "0-1"
        commands.wait(lambda found: not found["earmarks"][0]["leftBytes"], "earmark", "list")
        assert commands.run("earmark", "drop", uid) == (0, f"{uid} ended\n")
        commands.wait(lambda found: not found["earmarks"], "earmark", "list")


def test_the_plugin_refuses_what_cannot_be_set_aside(capsys: pytest.CaptureFixture[str]) -> None:
    with DemoSandbox(settings=_SETTINGS) as sandbox:
        commands = Commands(sandbox, capsys)
        words = ["--namespace", "ml", "--label", "app=train", "--memory", "900Gi"]
        status, text = commands.run("earmark", "make", *words, "--nodes", "0-1")
        assert status == 1, text
        assert text.startswith("refused: memory 900Gi is more than ")
        status, text = commands.run("earmark", "make", *words, "--nodes", "7")
        assert (status, text) == (1, "refused: there is no NUMA node 7 for pods\n")
        assert commands.run("earmark", "drop", "--all") == (0, "nothing is set aside\n")
        status, text = commands.run("earmark", "drop", "earmark-1")
        assert status == 2
        assert "'earmark-1' is no earmark; see nri-numamem earmark list" in text
