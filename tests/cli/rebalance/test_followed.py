"""What a plan waits for: a pod in the state file, a claim in the files of claims."""

from pathlib import Path

import pytest

from nri_numamem.apiserver.access import Access
from nri_numamem.apiserver.client import Client
from nri_numamem.cli.earmark import Target
from nri_numamem.cli.rebalance.cluster import Cluster
from nri_numamem.cli.rebalance.followed import LateClaim, RefusedPod
from nri_numamem.engine.core.earmarks import Beneficiary
from nri_numamem.memorymanager.claims import Claim
from nri_numamem.numa import NodeSet
from nri_numamem.observe.claim_files import (
    Answer,
    Intent,
    directory_of,
    write_answers,
    write_intents,
)
from tests.cli.explain.shop import Shop

CLAIM = Claim("uid-late", "telco", "upf", {"mem": {1: {"memory": 4096}}})


def target_of(uid: str, container: str = "") -> Target:
    beneficiary = Beneficiary("shop", uid, uid)
    return Target(beneficiary, NodeSet([1]), {"memory": 4096}, container=container)


@pytest.fixture(name="state_file")
def _state_file(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.mark.parametrize(
    ("uid", "container", "nodes"),
    [("a", "", "0"), ("a", "main", "0"), ("a", "other", ""), ("b", "main", "")],
)
def test_a_pod_has_the_nodes_of_the_container_that_was_refused(
    tmp_path: Path, uid: str, container: str, nodes: str
) -> None:
    shop = Shop(tmp_path / "shop")
    shop.run("a", 10)
    shop.host.save()
    found = RefusedPod(shop.host.state_file, target_of(uid, container), None)
    assert found.nodes() == NodeSet.parse(nodes)
    assert found.waits()


@pytest.mark.parametrize("content", [None, b"damaged"])
def test_without_a_state_file_no_pod_runs(state_file: Path, content: bytes | None) -> None:
    if content is not None:
        state_file.write_bytes(content)
    assert not RefusedPod(state_file, target_of("a"), None).nodes()


def test_a_claim_has_its_nodes_when_it_is_charged(state_file: Path) -> None:
    found, directory = LateClaim(state_file, target_of(CLAIM.uid)), directory_of(state_file)
    assert not found.nodes()
    assert not found.waits()
    write_intents(directory, [Intent(CLAIM, "try-1")])
    assert found.waits()
    write_answers(directory, {CLAIM.uid: Answer("try-1", "node 1 has too little")})
    assert not found.nodes()
    write_answers(directory, {CLAIM.uid: Answer("try-2")})
    assert found.nodes() == NodeSet([1])
    write_intents(directory, [])
    assert not found.waits()


def test_a_pod_that_does_not_exist_yet_waits_without_a_request(state_file: Path) -> None:
    def fail() -> Access:
        raise AssertionError("a request")

    target = Target(Beneficiary("ml", labels={"app": "train"}), NodeSet([1]), {"memory": 4096})
    assert RefusedPod(state_file, target, Cluster(Client(fail))).waits()
