"""The screens of tried objects."""

from pathlib import Path

import pytest
import yaml

from nri_numamem.cli.main import main
from tests.cli.live.live_host import GI, LiveHost, four_nodes, host_with_a_small_pod
from tests.cli.simulate.kubectl import Object, deployment, pod


@pytest.fixture(name="host")
def _host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LiveHost:
    monkeypatch.setenv("COLUMNS", "80")
    host = LiveHost(tmp_path, four_nodes())
    host.run("db", "postgres", 40 * GI)
    host.save()
    return host


def shown(
    host: LiveHost, capsys: pytest.CaptureFixture[str], *objects: Object, options: str = ""
) -> str:
    path = host.root / "objects.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    with host.running():
        assert main(["simulate", "--now", *options.split(), *host.arguments(), str(path)]) == 0
    return capsys.readouterr().out


def test_a_pod_that_fits(host: LiveHost, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(host, capsys, pod("web")) == PICTURE


PICTURE = """\
This host now; best-effort, scope container ────────────────────────────────────

   node group  memory                                    free 1Gi pages    free
      0 single ▒≡≡███████████████████████············ 19.97Gi ·········     4Gi
      1        ▒≡≡··································· 59.97Gi ·········     4Gi
      2        ▒≡≡··································· 59.97Gi ·········     4Gi
      3        ▒≡≡··································· 59.97Gi ·········     4Gi

  nodes  containers
  0      shop/db-x/postgres

  ▒▒ system reserved   ≡≡ hugepage pools   ██ assigned   ·· free

1. Pod shop/web: fits ──────────────────────────────────────────────────────────
  request   Guaranteed; c memory 30Gi
  result    c on node 1

   node group  memory                                    free 1Gi pages    free
      0 single ▒≡≡███████████████████████············ 19.97Gi ·········     4Gi
  >   1 single ▒≡≡█████████████████·················· 29.97Gi ·········     4Gi
      2        ▒≡≡··································· 59.97Gi ·········     4Gi
      3        ▒≡≡··································· 59.97Gi ·········     4Gi

  nodes  containers
  0      shop/db-x/postgres
  1      shop/web/c
  CPUs and devices are not considered.
"""


def test_replicas_on_the_same_nodes_share_a_line(
    host: LiveHost, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = shown(host, capsys, deployment("web", 9, "10Gi"), options="--summary")
    assert screen.splitlines()[1:] == [
        "  1. Deployment shop/web: 9 of 9 pods fit",
        "  result    web-0: c on node 0",
        "  result    web-1, web-2, web-3 and 2 more: c on node 1",
        "  result    web-6, web-7, web-8: c on node 2",
        "  CPUs and devices are not considered.",
    ]


def test_pods_that_are_not_managed_that_run_and_that_do_not_fit(
    host: LiveHost, capsys: pytest.CaptureFixture[str]
) -> None:
    best_effort = pod("any")
    best_effort["spec"]["containers"][0]["resources"] = {}
    objects = (best_effort, pod("db-x", uid="db"), pod("big", "300Gi"))
    screen = shown(host, capsys, *objects, options="--summary")
    assert screen.splitlines()[1:7] == [
        "  1. Pod shop/any: not managed",
        "  result    gets no nodes: the plugin does not manage it",
        "  2. Pod shop/db-x: runs already",
        "  result    on node 0",
        "  3. Pod shop/big: does not fit",
        "  rejected  UnexpectedAdmissionError: requested memory 300Gi; exceeds all NUMA",
    ]
    assert "why it was passed over" not in screen
    assert "why it was passed over" in shown(host, capsys, pod("big", "300Gi"))


PARTITIONS = """\
partitions:
- {name: serving, nodes: 2-3, selector: {app: llm}, exclusive: all}
- {name: jobs, count: 1, namespaces: [batch-*], confine: true}
"""


def unpinned(name: str, namespace: str = "shop", **labels: str) -> Object:
    """Return a BestEffort pod."""
    made = pod(name, namespace=namespace)
    made["metadata"]["labels"] = labels
    made["spec"]["containers"][0]["resources"] = {}
    return made


def test_confined_pods_name_the_partition(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    host = LiveHost(tmp_path, four_nodes(), PARTITIONS)
    host.save()
    replicas = deployment("job", 2)
    replicas["metadata"]["namespace"] = "batch-1"
    container = replicas["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"memory": "1Gi"}}
    two = unpinned("two", "batch-2")
    two["spec"]["containers"].append({"name": "d"})
    objects = (
        unpinned("any"),
        unpinned("llm", app="llm"),
        unpinned("dns", namespace="kube-system"),
        replicas,
        two,
    )
    screen = shown(host, capsys, *objects, options="--summary")
    assert screen.splitlines()[1:-1] == [
        "  1. Pod shop/any: not managed",
        "  result    c confined to nodes 0-1 by partition default",
        "  2. Pod shop/llm: not managed",
        "  result    gets no nodes: the plugin does not manage it",
        "  3. Pod kube-system/dns: not managed",
        "  result    gets no nodes: the plugin does not manage it",
        "  4. Deployment batch-1/job: not managed",
        "  result    job-0, job-1: c confined to node 0 by partition jobs",
        "  5. Pod batch-2/two: not managed",
        "  result    c confined to node 0 by partition jobs, d confined to node 0 by",
        "            partition jobs",
    ]


def test_names_are_escaped(host: LiveHost, capsys: pytest.CaptureFixture[str]) -> None:
    screen = shown(host, capsys, pod("w\x1bx"))
    assert "\x1b" not in screen
    assert "shop/w\\u001bx: fits" in screen


def test_a_pod_that_fits_after_a_move(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    host = host_with_a_small_pod(tmp_path)
    screen = shown(host, capsys, pod("big", "100Gi"), options="--summary")
    assert screen.splitlines()[1] == "  1. Pod shop/big: does not fit"
    assert screen.splitlines()[-6:] == [
        "  plan      would fit on nodes 0-1 if shop/small-x moved from node 1 to node 3",
        "            (0 resident of 5Gi); without consent (movable.numamem.io):",
        "            shop/small-x",
        "            the plugin moves nothing: kubectl cordon the node, delete these",
        "            pods, wait until the refused container runs, kubectl uncordon",
        "  CPUs and devices are not considered.",
    ]
    screen = shown(host, capsys, pod("big", "1000Gi"), options="--summary")
    assert screen.splitlines()[-2] == "  plan      none with at most 2 moves"
