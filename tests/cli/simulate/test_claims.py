"""Pods with resource claims: the NUMA nodes that the scheduler could allocate."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from nri_numamem.cli.main import main
from nri_numamem.export.claimtemplate import Needs, claim_template, pod_with_claim
from tests.cli.simulate.kubectl import pod

GI = 1 << 30
PAGE = (Path(__file__).resolve().parents[3] / "docs/simulate.md").read_text()
MACHINE = """\
machine:
  nodes:
  - {id: 0, memory: 64Gi, hugepages: {1Gi: 4}}
  - {id: 1, memory: 64Gi, hugepages: {1Gi: 4}}
"""
BIG = Needs({"memory": 40 * GI, "hugepages-1Gi": 2 * GI}, 4)
Document = dict[str, Any]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("machine.yaml").write_text(MACHINE)


def objects(name: str, needs: Needs = BIG) -> list[Document]:
    return [claim_template(name, needs), pod_with_claim(name, needs)]


def deployment(template: Document, replicas: int) -> Document:
    return {
        "kind": "Deployment",
        "metadata": template["metadata"],
        "spec": {"replicas": replicas, "template": {"spec": template["spec"]}},
    }


def simulate(*documents: Document, options: str = "", status: int = 0) -> None:
    Path("pods.yaml").write_text(yaml.safe_dump_all(documents, sort_keys=False))
    words = f"simulate pods.yaml --machine machine.yaml {options}".split()
    assert main(words) == status


def trials(capsys: pytest.CaptureFixture[str], *documents: Document) -> list[Any]:
    simulate(*documents, options="--output json")
    found = json.loads(capsys.readouterr().out)["workloads"]
    assert isinstance(found, list)
    return found


def test_the_screen_has_the_room_for_each_request(capsys: pytest.CaptureFixture[str]) -> None:
    simulate(*objects("a"), *objects("b"), *objects("c"))
    text = capsys.readouterr().out
    assert "1. Pod default/a: fits " in text
    assert "2. Pod default/b: fits " in text
    assert THIRD in text
    assert THIRD in PAGE
    assert "  0      default/a claim numa\n  1      default/b claim numa\n" in text


THIRD = """\
3. Pod default/c: does not fit ─────────────────────────────────────────────────
  request   Guaranteed; c memory 40Gi, hugepages-1Gi 2Gi
  claim     numa: ResourceClaimTemplate default/c
            memory 40Gi: node 0 20.05Gi short, node 1 20.05Gi short
            hugepages-1Gi 2Gi: node 0 has 2Gi, node 1 has 2Gi
            not considered: cpus
            no NUMA nodes have room for all requests: the pod stays Pending
"""


def test_nodes_that_are_not_empty_and_resources_that_the_host_lacks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    both = Needs({"memory": 20 * GI, "hugepages-2Mi": 2 << 20}, nodes=2)
    simulate(*objects("a", Needs({"memory": GI})), *objects("b", both))
    text = capsys.readouterr().out
    assert "memory 10Gi: node 0 not empty, node 1 has " in text
    assert "hugepages-2Mi 2Mi: no NUMA node has it" in text
    simulate(*objects("a", Needs({"memory": 20 * GI}, nodes=2)))
    assert "memory 10Gi on each of 2 NUMA nodes: node 0 has " in capsys.readouterr().out


def test_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    (trial,) = trials(capsys, *objects("a"))
    assert trial["pods"] == [{"name": "a", "cpusetMems": {"a": "0"}}]
    (claim,) = trial["claims"]
    assert claim["name"] == "numa"
    assert claim["source"] == {
        "kind": "ResourceClaimTemplate",
        "namespace": "default",
        "name": "a",
    }
    assert claim["problem"] is None
    assert claim["notConsidered"] == ["cpus"]
    assert claim["allocated"] == [
        {"request": "mem", "node": 0},
        {"request": "hugepages-1gi", "node": 0},
    ]
    memory, pages = claim["requests"]
    assert (memory["name"], memory["resource"]) == ("mem", "memory")
    assert (memory["bytes"], memory["count"]) == (40 * GI, 1)
    assert pages["nodes"] == [{"id": n, "free": 4 * GI, "fits": True} for n in (0, 1)]
    documented = PAGE.rpartition("`claims` are those")[2]
    assert [key for key in claim if f"`{key}`" not in documented] == []


def test_replicas_are_tried_until_one_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    template, made = objects("a")
    (trial,) = trials(capsys, template, deployment(made, 3))
    assert [each["cpusetMems"] for each in trial["pods"]] == [{"a": "0"}, {"a": "1"}]
    assert (trial["fit"], trial["replicas"]) == (2, 3)
    assert trial["claims"][0]["allocated"] == []
    simulate(template, deployment(made, 3), options="--summary --fail-on-refusal", status=1)
    assert "1. Deployment default/a: 2 of 3 pods fit" in capsys.readouterr().out


def test_pods_that_share_a_claim_have_the_same_node(capsys: pytest.CaptureFixture[str]) -> None:
    template, made = objects("a")
    shared = {**template, "kind": "ResourceClaim", "spec": template["spec"]["spec"]}
    made["spec"]["resourceClaims"] = [{"name": "numa", "resourceClaimName": "a"}]
    (trial,) = trials(capsys, shared, deployment(made, 3))
    assert [each["cpusetMems"] for each in trial["pods"]] == [{"a": "0"}] * 3


def test_a_shared_claim_of_a_pod_that_does_not_fit_is_not_allocated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    templates: list[Document] = [
        claim_template(f"c{size}", Needs({"memory": size * GI})) for size in (1, 99)
    ]
    small, large = templates
    shared = {**small, "kind": "ResourceClaim", "spec": small["spec"]["spec"]}
    _, made = objects("a", Needs({"memory": GI}))
    both = {
        **made,
        "spec": {
            **made["spec"],
            "resourceClaims": [
                {"name": "numa", "resourceClaimName": "c1"},
                {"name": "more", "resourceClaimTemplateName": "c99"},
            ],
        },
    }
    alone = {**made, "spec": {**made["spec"], "resourceClaims": both["spec"]["resourceClaims"][:1]}}
    refused, placed = trials(capsys, shared, large, both, alone)
    assert refused["fit"] == 0
    assert placed["pods"][0]["cpusetMems"] == {"a": "0"}
    simulate(shared, large, both, alone)
    assert capsys.readouterr().out.count("default/a claim numa") == 1


def test_a_container_that_names_a_request_has_its_nodes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    template, made = objects("a", Needs({"memory": 20 * GI}, 2, nodes=2))
    (container,) = made["spec"]["containers"]
    claims = {"first": "mem-0", "second": "mem-1", "cpus": "cpus-0"}
    made["spec"]["containers"] = [
        {**container, "name": name, "resources": {"claims": [{"name": "numa", "request": request}]}}
        for name, request in claims.items()
    ]
    (trial,) = trials(capsys, template, made)
    (placed,) = trial["pods"]
    assert placed["cpusetMems"] == {"first": "0", "second": "1", "cpus": None}


def test_a_template_that_is_not_in_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    (trial,) = trials(capsys, objects("a")[1])
    (claim,) = trial["claims"]
    assert claim["problem"] == (
        "it is not in the file; append the output of kubectl get resourceclaimtemplate -n default "
        "a -o yaml"
    )
    assert (trial["fit"], claim["requests"]) == (0, [])
    simulate(objects("a")[1])
    assert "1. Pod default/a: its claim cannot be evaluated" in capsys.readouterr().out


def test_a_claim_that_cannot_be_evaluated(capsys: pytest.CaptureFixture[str]) -> None:
    template, made = objects("a")
    template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [{"cel": {}}]
    (trial,) = trials(capsys, template, made)
    assert trial["claims"][0]["problem"].startswith("mem: selectors")


def test_a_claim_that_the_plugin_would_refuse(capsys: pytest.CaptureFixture[str]) -> None:
    """Two NUMA nodes by the class for one: the second pod shares them."""
    needs = Needs({"memory": GI})
    template, made = objects("a", needs)
    template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] = 2
    _, trial = trials(capsys, *objects("b", needs), template, made)
    problem = trial["claims"][0]["problem"]
    assert problem.startswith("the plugin would refuse it: NUMA node 0 has assignments")
    simulate(*objects("b", needs), template, made)
    text = capsys.readouterr().out
    assert "2. Pod default/a: does not fit" in text
    assert "the plugin would refuse it" in text


def test_a_pod_with_claims_of_other_drivers_is_tried_as_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    template, made = objects("a")
    devices = template["spec"]["spec"]["devices"]
    devices["requests"] = [request for request in devices["requests"] if request["name"] == "cpus"]
    devices["constraints"] = []
    (trial,) = trials(capsys, template, made)
    assert trial["claims"] == []
    assert trial["pods"][0]["cpusetMems"] == {"a": "0"}
    (plain,) = trials(capsys, pod("web"))
    assert plain["claims"] == []


def test_invalid_claims_are_one_line_with_the_place(capsys: pytest.CaptureFixture[str]) -> None:
    made = {**pod("web"), "spec": {**pod("web")["spec"], "resourceClaims": 1}}
    simulate(made, status=2)
    error = capsys.readouterr().err
    assert error.startswith("nri-numamem: pods.yaml:")
    assert error.endswith(": spec.resourceClaims: expected a list\n")
