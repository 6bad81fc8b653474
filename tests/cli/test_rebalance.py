"""The command ``rebalance``: a plan on a plugin process, carried out with an API server."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nri_numamem.cli.demo import PodSpec, RefusedError
from nri_numamem.cli.main import main
from nri_numamem.cli.rebalance.host import Host
from nri_numamem.host.sysfs import MachineError
from nri_numamem.memorymanager import QosClass
from tests.cli.explain.shop import Shop
from tests.cli.explain.test_rebalancing_process import _without_devices
from tests.cli.test_earmark import Desk
from tests.cli.test_earmark_process import _PODS, _SETTINGS, Commands, _has_plan
from tests.kubernetes_api import KubernetesApi, status
from tests.laboratory.demo import DemoSandbox
from tests.simulated_host import WAIT_S

__all__ = ["_without_devices"]  # a fixture


class Stage:
    """A host on which a pod was refused for which there is a plan, and an API server."""

    def __init__(self, capsys: pytest.CaptureFixture[str], root: Path) -> None:
        self.sandbox = DemoSandbox(settings=_SETTINGS).__enter__()
        self.commands = Commands(self.sandbox, capsys)
        nodes = self.sandbox.accounting()["machineState"].values()
        self._node_bytes = min(node["memoryMap"]["memory"]["allocatable"] for node in nodes)
        for name, percent in _PODS.items():
            self.sandbox.start_pod(self.spec(name, percent))
        for name in ("filler", "neighbour"):
            self.sandbox.remove_pod(self.spec(name, _PODS[name]))
        self.big, self.small = self.spec("big", 150), self.spec("small", _PODS["small"])
        with pytest.raises(RefusedError, match="needs 2 NUMA nodes"):
            self.sandbox.start_pod(self.big)
        self.commands.wait(_has_plan, "explain", "big")
        self.api = KubernetesApi().__enter__()
        self.kubeconfig = self.api.write_kubeconfig(root / "kubeconfig")
        owners = [{"kind": "StatefulSet", "controller": True}]
        self.api.pods = {
            f"default/{name}": {"metadata": {"uid": uid, "ownerReferences": owners}, "spec": {}}
            for uid, name in self.sandbox.pod_names.items()
        }
        self.placed: dict[str, str] = {}

    def spec(self, name: str, percent: int) -> PodSpec:
        size = self._node_bytes * percent // 100
        return PodSpec(name, "main", QosClass.GUARANTEED, size)

    def restart(self) -> None:
        """Do what kubelet and controller do after an eviction: the replacement starts first."""
        self.sandbox.remove_pod(self.small)
        replacement = self.spec("replacement", _PODS["small"])
        self.placed["replacement"] = self.sandbox.start_pod(replacement).cpuset_mems
        self.placed["big"] = self.sandbox.start_pod(self.big).cpuset_mems

    def apply(self, *more: str) -> tuple[int, list[str]]:
        """Return the status, and the lines without their times."""
        words = ("rebalance", "big", "--apply", *more)
        status_, text = self.commands.run(*words)
        return status_, [line[9:] if line[2:3] == ":" else line for line in text.splitlines()]

    def close(self) -> None:
        self.api.__exit__(None, None, None)
        self.sandbox.close()


@pytest.fixture
def stage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Iterator[Stage]:
    found = Stage(capsys, tmp_path)
    yield found
    found.close()


def _later(call: Callable[[], None]) -> tuple[int, object]:
    threading.Timer(0.2, call).start()
    return 201, {"status": "Success"}


@pytest.mark.slow
def test_the_plan_is_carried_out_and_the_replacement_does_not_take_the_room(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [(429, status(429, "TooManyRequests", "its disruption budget allows none"))]
    stage.api.evict = lambda _name: answers.pop() if answers else _later(stage.restart)
    monkeypatch.setattr("nri_numamem.cli.rebalance.carry_out.BUSY_S", 0.1)
    status_, lines = stage.apply("--kubeconfig", str(stage.kubeconfig))
    assert status_ == 0, lines
    assert lines[0].startswith(
        "plan for default/big: would fit on nodes 0-1 if default/small moved from"
    )
    assert [line.partition(" on nodes")[0] for line in lines[1:]] == [
        f"setting aside {lines[1].split()[2]} memory",
        "default/small cannot be evicted yet: its disruption budget allows none",
        "evicted default/small; waiting until it ends",
        "default/small has ended",
        "default/big runs",
    ]
    assert lines[-1] == "default/big runs on nodes 0-1"
    assert stage.placed == {"replacement": "3", "big": "0-1"}
    listed = stage.commands.wait(lambda found: not found["earmarks"], "earmark", "list")
    assert listed["earmarks"] == []


@pytest.mark.slow
def test_an_eviction_that_is_forbidden_leaves_nothing(stage: Stage) -> None:
    stage.api.evict = lambda _name: (403, status(403, "Forbidden", "pods/eviction is forbidden"))
    status_, lines = stage.apply("--kubeconfig", str(stage.kubeconfig))
    assert status_ == 1
    assert lines[-1] == (
        "default/small is not evicted: pods/eviction is forbidden; no pod was evicted"
    )
    stage.commands.wait(lambda found: not found["earmarks"], "earmark", "list")


@pytest.mark.slow
def test_by_hand_the_pods_to_delete_are_printed(stage: Stage) -> None:
    threading.Timer(1.0, stage.restart).start()
    status_, lines = stage.apply("--by-hand")
    assert status_ == 0, lines
    assert "now run: kubectl delete pod --namespace default small" in lines
    assert lines[-1] == "default/big runs on nodes 0-1"


@pytest.mark.slow
def test_an_interrupt_names_the_state(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_self: object, _seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Host, "sleep", interrupt)
    status_, lines = stage.apply("--by-hand")
    assert status_ == 130
    assert lines[-1].startswith(
        "interrupted; evicted: default/small; to end what is set aside: nri-numamem earmark drop "
        "earmark-"
    )
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if stage.commands.run("earmark", "drop", lines[-1].split()[-1])[0] == 0:
            return
    raise AssertionError("the earmark does not end")


@pytest.mark.slow
def test_a_failure_names_the_state(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> None:
        raise MachineError(Path("/sys/fs/cgroup"), "gone")

    monkeypatch.setattr("nri_numamem.cli.rebalance.host.guaranteed_pods", fail)
    status_, lines = stage.apply("--by-hand")
    assert status_ == 2
    assert lines[-2].startswith("failed; evicted: default/small; to end what is set aside: ")
    assert lines[-1].startswith("nri-numamem: /sys/fs/cgroup: gone; ")


def _rebalance(shop: Shop, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    desk = Desk(shop.host, capsys)
    shop.host.describe()
    with desk.runs():
        return desk.run_command("rebalance", *words)


def _shop(root: Path, config: str = "") -> Shop:
    shop = Shop(root, config)
    for uid, size in (("gone", 58), ("small", 5), ("other", 54), ("large", 58), ("p3", 40)):
        shop.run(uid, size)
    for uid in ("gone", "other"):
        shop.end(uid)
    return shop


def test_without_apply_the_plan_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = _shop(tmp_path)
    shop.refuse("big", 90)
    status_, text = _rebalance(shop, capsys, "big-x")
    assert status_ == 0
    assert text.startswith(
        "plan for shop/big-x: would fit on nodes 0-1 if shop/small-x moved from node 1"
    )
    assert text.endswith("to carry it out: add --apply\n")
    status_, text = _rebalance(shop, capsys, "big-x", "--apply", "--by-hand")
    assert status_ == 2
    assert "earmarks.enabled is not true" in text


def test_a_host_without_a_state_file_has_no_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = _shop(tmp_path)
    words = ["rebalance", "big-x", *shop.host.arguments(), "--state-file", ""]
    assert main(words) == 2
    assert 'stateFile is "", so there is no history' in capsys.readouterr().err


def test_without_a_plan_the_status_is_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shop = _shop(tmp_path)
    shop.refuse("huge", 300)
    status_, text = _rebalance(shop, capsys, "huge-x")
    assert (status_, text) == (1, "plan for shop/huge-x: none with at most 2 moves\n")


def test_a_pod_that_fits_now_needs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = _shop(tmp_path)
    shop.refuse("big", 90)
    shop.end("small")
    shop.host.save()
    status_, text = _rebalance(shop, capsys, "big-x", "--apply")
    assert (status_, text) == (
        0,
        "plan for shop/big-x: fits now on nodes 0-1: nothing has to move\n",
    )


def test_a_kubeconfig_that_does_not_exist_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = _shop(tmp_path, "earmarks: {enabled: true}\n")
    shop.refuse("big", 90)
    file = str(tmp_path / "kubeconfig")
    status_, text = _rebalance(shop, capsys, "big-x", "--apply", "--kubeconfig", file)
    assert status_ == 2
    assert f"{file} does not exist; name a kubeconfig, or use --by-hand" in text
