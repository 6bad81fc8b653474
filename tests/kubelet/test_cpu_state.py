"""The state file of the CPU manager: what kubelets write, and other content."""

import json

import pytest

from nri_numamem.kubelet.cpu_state import CpuState, CpuStateError, parse_cpu_state
from nri_numamem.numa import CpuSet

V2 = {
    "policyName": "static",
    "defaultCpuSet": "0-1,4",
    "entries": {"uid": {"main": "2-3"}},
    "checksum": 3735928559,
}
# Kubernetes 1.37 keeps the keys of version 2 beside its own.
V4 = {**V2, "data": '{"policyName":"static","defaultCpuSet":"0-1,4"}', "dataChecksum": 1}


@pytest.mark.parametrize("document", [V2, V4], ids=["v2", "v4"])
def test_the_static_policy(document: dict[str, object]) -> None:
    state = parse_cpu_state(json.dumps(document).encode())
    assert state == CpuState("static", CpuSet([0, 1, 4]))
    assert state.is_static


def test_the_policy_none() -> None:
    state = parse_cpu_state(b'{"policyName":"none","defaultCpuSet":"","checksum":1353318690}')
    assert state == CpuState("none", CpuSet())
    assert not state.is_static


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "Expecting value"),
        (b"\xff", "invalid start byte|can't decode"),
        (b"[]", "policyName is missing or not a string"),
        (b'{"policyName":1,"defaultCpuSet":""}', "policyName is missing or not a string"),
        (b'{"policyName":"static"}', "defaultCpuSet is missing or not a string"),
        (b'{"policyName":"static","defaultCpuSet":"a"}', "'a' is not a list of CPUs"),
        (b"[" * 100_000, "recursion"),
    ],
)
def test_other_content(data: bytes, problem: str) -> None:
    text = f"it is not a state file of the CPU manager .*({problem})"
    with pytest.raises(CpuStateError, match=text):
        parse_cpu_state(data)
