"""Room for a pod that does not exist yet: ``rebalance --for``."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.explain.shop import Shop
from tests.cli.explain.test_rebalancing_process import _without_devices
from tests.cli.test_rebalance import Stage, _rebalance, _shop

__all__ = ["_without_devices"]  # a fixture

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: train
  namespace: ml
  labels: {app: train}
spec:
  containers:
  - name: main
    image: train
    resources:
      limits: {cpu: "4", memory: 90Gi}
"""
SELECTION = ("--namespace", "ml", "--label", "app=train")


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Path:
    file = tmp_path / "pod.yaml"
    file.write_text(POD)
    return file


@pytest.fixture(name="shop")
def _a_shop(tmp_path: Path) -> Shop:
    shop = _shop(tmp_path / "shop")
    shop.host.save()
    return shop


@pytest.fixture(name="stage")
def _stage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Iterator[Stage]:
    found = Stage(capsys, tmp_path)
    yield found
    found.close()


def test_the_plan_for_a_manifest_and_for_amounts(
    shop: Shop, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, text = _rebalance(shop, capsys, "--for", str(file))
    assert status == 0, text
    assert text.startswith(
        "plan for ml (app=train): would fit on nodes 0-1 if shop/small-x moved from node 1"
    )
    assert text.endswith("to carry it out: add --apply\n")
    assert _rebalance(shop, capsys, "--for", "memory=90Gi", *SELECTION) == (0, text)
    # A manifest is a file, also if its name has an equals sign.
    other = file.with_name("size=90.yaml")
    other.write_text(POD)
    assert _rebalance(shop, capsys, "--for", str(other)) == (0, text)


def test_what_fits_now_needs_no_restart(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = _rebalance(shop, capsys, "--for", "memory=20Gi", *SELECTION)
    assert (status, text) == (
        0,
        "plan for ml (app=train): fits now on node 0: nothing has to move\n",
    )


def test_what_fits_nowhere_has_no_plan(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = _rebalance(shop, capsys, "--for", "memory=900Gi", *SELECTION)
    assert (status, text) == (1, "plan for ml (app=train): none with at most 2 moves\n")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ((), "name a POD that was refused, or give one of --claim and --for"),
        (
            ("big-x", "--for", "memory=1Gi"),
            "name a POD that was refused, or give one of --claim and --for",
        ),
        (
            ("--claim", "x", "--for", "memory=1Gi"),
            "name a POD that was refused, or give one of --claim and --for",
        ),
        (("big-x", "--label", "app=train"), "--namespace, --label: only with --for"),
        (("--for", "memory=1Gi"), "--label: name the --namespace of the pods"),
        (("--for", "memory", *SELECTION), "--label, --namespace: only with amounts"),
        (("--for", "cpu=1", *SELECTION), "--for: 'cpu=1' is not RESOURCE=AMOUNT"),
        (("--for", "memory=", *SELECTION), "--for: 'memory=' is not RESOURCE=AMOUNT"),
        (("--for", "hugepages-1Gi=4Gi", *SELECTION), "--for: memory is missing"),
        (("--for", "memory=much", *SELECTION), "--for: memory: "),
        (("--for", "none.yaml"), "none.yaml"),
    ],
)
def test_what_cannot_be_used_is_named(
    shop: Shop, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], error: str
) -> None:
    status, text = _rebalance(shop, capsys, *words)
    assert status == 2, text
    assert error in text


def _without_labels(text: str) -> str:
    return text.replace("  labels: {app: train}\n", "")


def _twice(text: str) -> str:
    return f"{text}---\n{text}"


def _two_containers(text: str) -> str:
    container = text[text.index("  - name: main") :]
    return text + container.replace("main", "other")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (_without_labels, "Pod train: its pods have no labels, by which the plugin knows"),
        (_twice, "2 objects that make pods; give one"),
        (_two_containers, "its containers are placed one by one; give one of them, such as"),
    ],
)
def test_manifests_that_cannot_be_used(
    shop: Shop,
    file: Path,
    capsys: pytest.CaptureFixture[str],
    change: object,
    error: str,
) -> None:
    assert callable(change)
    file.write_text(change(POD))
    status, text = _rebalance(shop, capsys, "--for", str(file))
    assert status == 2, text
    assert error in text


@pytest.mark.slow
def test_the_room_stays_set_aside_until_the_pod_comes(stage: Stage) -> None:
    size = f"memory={stage.big.memory_bytes}"

    def restart() -> None:
        stage.sandbox.remove_pod(stage.small)

    threading.Timer(1.0, restart).start()
    words = ("--for", size, *SELECTION, "--apply", "--by-hand")
    status, text = stage.commands.run("rebalance", *words)
    lines = [line[9:] if line[2:3] == ":" else line for line in text.splitlines()]
    assert status == 0, text
    assert "now run: kubectl delete pod --namespace default small" in lines
    assert lines[-2] == "default/small has ended"
    assert lines[-1].startswith(
        "nodes 0-1 have room for ml (app=train): create the pod in the next 10 min; to end what is "
        "set aside: nri-numamem earmark drop earmark-"
    )
    listed = stage.commands.wait(lambda found: bool(found["earmarks"]), "earmark", "list")
    (earmark,) = listed["earmarks"]
    assert earmark["labels"] == {"app": "train"}
    # Another pod does not get the room.
    assert stage.sandbox.start_pod(stage.spec("other", 30)).cpuset_mems not in ("0", "1", "0-1")
