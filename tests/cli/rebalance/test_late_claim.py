"""Room for a resource claim that was refused: ``rebalance --claim``."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_numamem.cli.demo import PodSpec
from nri_numamem.cli.main import main
from nri_numamem.memorymanager import QosClass
from nri_numamem.memorymanager.claims import Claim
from nri_numamem.observe import claim_files
from nri_numamem.observe.claim_files import Answer, Intent, write_answers, write_intents
from tests.cli.explain.shop import Shop
from tests.cli.explain.test_rebalancing_process import _without_devices
from tests.cli.test_earmark_process import Commands
from tests.cli.test_rebalance import _rebalance, _shop
from tests.laboratory.demo import DemoSandbox
from tests.simulated_host import wait_for

__all__ = ["_without_devices"]  # a fixture

GI = 1 << 30


class Stage:
    """A plugin that has refused a claim, because a pod has the memory of its node."""

    def __init__(self, capsys: pytest.CaptureFixture[str], root: Path) -> None:
        settings = (
            "earmarks: {enabled: true, maxPercent: 60}\n"
            f"claims: {{enabled: true, cdiDirectory: {root / 'cdi'}}}\n"
        )
        self.sandbox = DemoSandbox(settings=settings).__enter__()
        self.commands = Commands(self.sandbox, capsys)
        nodes = self.sandbox.accounting()["machineState"].values()
        self.node_bytes = min(node["memoryMap"]["memory"]["allocatable"] for node in nodes)
        self.taker = self.spec("taker", 70)
        assert self.sandbox.start_pod(self.taker).cpuset_mems == "0"
        size = self.node_bytes * 60 // 100 // 4096 * 4096
        self.claim = Claim("uid-late", "telco", "upf-numa", {"mem": {0: {"memory": size}}})
        self.directory = claim_files.directory_of(self.sandbox._root / "nri_numamem_state")
        self.prepare("try-1")
        wait_for(lambda: bool(self.answer("try-1").refusal), "the refusal")
        self.commands.wait(lambda found: bool(found["containers"]), "status")

    def spec(self, name: str, percent: int) -> PodSpec:
        size = self.node_bytes * percent // 100
        return PodSpec(name, "main", QosClass.GUARANTEED, size)

    def prepare(self, attempt: str) -> None:
        """Let the kubelet prepare the claim."""
        write_intents(self.directory, [Intent(self.claim, attempt)])

    def answer(self, attempt: str) -> Answer:
        found = claim_files.read_answers(self.directory).get(self.claim.uid, Answer(""))
        return found if found.attempt == attempt else Answer("")

    def close(self) -> None:
        self.sandbox.close()


@pytest.fixture(name="stage")
def _stage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Iterator[Stage]:
    found = Stage(capsys, tmp_path)
    yield found
    found.close()


@pytest.mark.slow
def test_a_pod_is_restarted_elsewhere_and_the_claim_gets_its_node(stage: Stage) -> None:
    status, text = stage.commands.run("rebalance", "--claim", "telco/upf-numa")
    assert status == 0, text
    assert text.startswith("plan for telco/upf-numa: would fit on node 0 if default/taker moved")

    def restart() -> None:
        stage.sandbox.remove_pod(stage.taker)
        stage.prepare("try-2")
        wait_for(lambda: stage.answer("try-2") == Answer("try-2"), "the answer")

    threading.Timer(1.0, restart).start()
    status, text = stage.commands.run("rebalance", "--claim", "upf-numa", "--apply", "--by-hand")
    lines = [line[9:] for line in text.splitlines()]
    assert status == 0, text
    assert "now run: kubectl delete pod --namespace default taker" in lines
    assert lines[-1] == "claim telco/upf-numa is prepared on node 0"
    stage.commands.wait(lambda found: not found["earmarks"], "earmark", "list")


@pytest.mark.slow
def test_a_claim_that_the_kubelet_no_longer_wants_ends_the_plan(stage: Stage) -> None:
    def give_up() -> None:
        stage.sandbox.remove_pod(stage.taker)
        write_intents(stage.directory, [])

    threading.Timer(1.0, give_up).start()
    words = ("rebalance", "--claim", "uid-late", "--apply", "--by-hand")
    status, text = stage.commands.run(*words)
    assert status == 1, text
    assert "was deleted" in text.splitlines()[-1]
    stage.commands.wait(lambda found: not found["earmarks"], "earmark", "list")


def write_claims(shop: Shop, *names: str, refusal: str = "too small") -> None:
    claims = [Claim(f"uid-{n}", n, "late", {"mem": {0: {"memory": GI}}}) for n in names]
    directory = claim_files.directory_of(shop.host.state_file)
    write_intents(directory, [Intent(each, "try-1") for each in claims])
    write_answers(directory, {each.uid: Answer("try-1", refusal) for each in claims})


def test_claims_that_are_not_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shop = _shop(tmp_path)
    shop.host.save()
    status, text = _rebalance(shop, capsys, "--claim", "late")
    assert status == 2
    assert "no claim late is refused; no claim is refused on this host" in text
    write_claims(shop, "a", refusal="")
    assert "no claim late is refused" in _rebalance(shop, capsys, "--claim", "late")[1]
    write_claims(shop, "a", "b")
    text = _rebalance(shop, capsys, "--claim", "other")[1]
    assert "no claim other is refused; refused are a/late, b/late" in text
    text = _rebalance(shop, capsys, "--claim", "late")[1]
    assert "late is the name of several claims; give one of a/late, b/late" in text
    claim_files.intents_file(claim_files.directory_of(shop.host.state_file)).write_text("{")
    text = _rebalance(shop, capsys, "--claim", "a/late")[1]
    assert "restart agent and plugin" in text


def test_without_a_state_file_there_are_no_claims(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = _shop(tmp_path)
    words = ["rebalance", "--claim", "late", *shop.host.arguments(), "--state-file", ""]
    assert main(words) == 2
    assert 'stateFile is "", so there are no files of claims' in capsys.readouterr().err
