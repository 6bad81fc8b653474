"""Resource claims in `status`."""

import json
from dataclasses import replace

import pytest

from nri_numamem.cli.main import main
from nri_numamem.engine.core.claims import ChargedClaim, ClaimUser
from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.memorymanager.claims import Claim
from tests.cli.live.live_host import GI, LiveHost

CLAIM = Claim(
    "uid-1",
    "telco",
    "upf-numa",
    {"mem": {1: {"memory": 4 * GI}}, "pages": {1: {"hugepages-1Gi": GI}}},
    frozenset({"pod-1"}),
)
FREE = Claim("uid-2", "telco", "idle", {"mem": {0: {"memory": GI}, 1: {"memory": GI}}})


def user(number: int, memory: int) -> ClaimUser:
    held = {"memory": memory, "hugepages-1Gi": 0}
    names = ("telco", f"upf-{number}", "dpdk")
    return ClaimUser(f"c{number}", "s", "pod-1", *names, frozenset({"mem", "pages"}), held)


def charge(host: LiveHost, *claims: ChargedClaim) -> None:
    state = restore(host.state_file.read_bytes())
    state = replace(state, claims={each.claim.uid: each for each in claims})
    host.state_file.write_bytes(snapshot(state))


def shown(host: LiveHost, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    main(["status", *words, *host.arguments()])
    return capsys.readouterr().out


def test_without_claims_there_is_no_table(
    running_host: LiveHost, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "Resource claims" not in shown(running_host, capsys)
    assert json.loads(shown(running_host, capsys, "--output", "json"))["claims"] == []


def test_claims_are_shown_with_what_is_left(
    running_host: LiveHost, capsys: pytest.CaptureFixture[str]
) -> None:
    users = {f"c{n}": user(n, GI // 2) for n in range(5)}
    ended = replace(FREE, uid="uid-3", name="last")
    charge(
        running_host,
        ChargedClaim(CLAIM, users=users),
        ChargedClaim(FREE),
        ChargedClaim(ended, is_prepared=False),
    )
    text = shown(running_host, capsys).partition("Resource claims")[2]
    rows = [" ".join(line.split()) for line in text.splitlines()[1:]]
    assert rows[:2] == [
        "claim nodes charged memory left used by",
        "telco/idle 0-1 2Gi memory 2Gi no container yet",
    ]
    assert rows[2] == "telco/last 0-1 2Gi memory 2Gi -"
    assert rows[3:5] == [
        "telco/upf-numa 1 4Gi memory, 1Gi 1.5Gi upf-0/dpdk, upf-1/dpdk,",
        "hugepages-1Gi upf-2/dpdk and 2 more",
    ]
    assert "memory left: of the claim, for containers that start now." in rows


def test_claims_in_the_document(running_host: LiveHost, capsys: pytest.CaptureFixture[str]) -> None:
    charge(running_host, ChargedClaim(CLAIM, users={"c0": user(0, GI)}))
    (found,) = json.loads(shown(running_host, capsys, "--output", "json"))["claims"]
    assert found == {
        "uid": "uid-1",
        "namespace": "telco",
        "name": "upf-numa",
        "prepared": True,
        "nodes": [1],
        "bytes": {"1": {"memory": 4 * GI, "hugepages-1Gi": GI}},
        "leftBytes": {"memory": 3 * GI, "hugepages-1Gi": GI},
        "containers": [
            {
                "namespace": "telco",
                "pod": "upf-0",
                "podUid": "pod-1",
                "container": "dpdk",
                "containerId": "c0",
                "requests": ["mem", "pages"],
                "limitBytes": {"memory": GI, "hugepages-1Gi": 0},
            }
        ],
    }
