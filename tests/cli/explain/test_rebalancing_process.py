"""A rebalancing plan for a plugin process behind a fake runtime, carried out by hand."""

import json
import time
from typing import Any

import pytest

from nri_numamem.cli.demo import PodSpec, RefusedError
from nri_numamem.cli.main import main
from nri_numamem.memorymanager import QosClass
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.demo import DemoSandbox
from tests.simulated_host import WAIT_S

pytestmark = pytest.mark.slow

# Percent of a node. The first and the third one end when all have started.
_PODS = {"filler": 90, "small": 20, "neighbour": 75, "large": 90, "last": 50}


def plan_of(sandbox: DemoSandbox, pod: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return the plan that explain shows, once the plugin has written history and state."""
    root = sandbox._root
    options = ["--state-file", str(root / "nri_numamem_state")]
    for name, folder in (("sysfs", "sys"), ("proc", "proc"), ("cgroup", "cgroup")):
        options += [f"--{name}-root", str(root / folder)]
    deadline, plan = time.monotonic() + WAIT_S, None
    while time.monotonic() < deadline:
        if main(["explain", pod, "--output", "json", *options]) == 0:
            (container,) = json.loads(capsys.readouterr().out)["containers"]
            plan = container["plan"]
            # The state is written up to a second later than the history.
            if plan and (plan["moves"] or plan["fitsNow"]):
                found: dict[str, Any] = plan
                return found
        capsys.readouterr()
        time.sleep(0.1)
    raise AssertionError(f"no plan for {pod}, but {plan}")


@pytest.fixture(autouse=True)
def _without_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the device of the fake runtime's containers, which must not move with it."""
    made = objects.container

    def without_devices(*arguments: Any, **options: Any) -> api.Container:  # noqa: ANN401
        container = made(*arguments, **options)
        del container.linux.devices[:]
        return container

    monkeypatch.setattr(objects, "container", without_devices)


def test_the_plan_holds(capsys: pytest.CaptureFixture[str]) -> None:
    with DemoSandbox() as sandbox:
        nodes = sandbox.accounting()["machineState"].values()
        node_bytes = min(node["memoryMap"]["memory"]["allocatable"] for node in nodes)

        def spec(name: str, percent: int) -> PodSpec:
            return PodSpec(name, "main", QosClass.GUARANTEED, node_bytes * percent // 100)

        pods = {name: spec(name, percent) for name, percent in _PODS.items()}
        mems = {name: sandbox.start_pod(pod).cpuset_mems for name, pod in pods.items()}
        assert mems == {"filler": "0", "small": "1", "neighbour": "1", "large": "2", "last": "3"}
        sandbox.remove_pod(pods["filler"])
        sandbox.remove_pod(pods["neighbour"])
        with pytest.raises(RefusedError, match="needs 2 NUMA nodes"):
            sandbox.start_pod(spec("big", 150))
        plan = plan_of(sandbox, "big", capsys)
        assert [(move["pod"], move["from"], move["to"]) for move in plan["moves"]] == [
            ("small", 1, 3)
        ]
        assert plan["nodes"] == [0, 1]
        sandbox.remove_pod(pods["small"])
        assert sandbox.start_pod(spec("big", 150)).cpuset_mems == "0-1"
        assert sandbox.start_pod(pods["small"]).cpuset_mems == "3"
