"""A kubelet's flags, and the merge of its drop-in files."""

import pytest

from nri_numamem.kubelet.arguments import ArgumentsError, KubeletArguments, merge, parse_arguments


def test_no_flags() -> None:
    assert parse_arguments(["kubelet"]) == KubeletArguments(None, None, {})


def test_flags_in_both_spellings() -> None:
    found = parse_arguments(
        [
            "kubelet",
            "--config=/a.yaml",
            "--config-dir",
            "/d",
            "--v=2",
            "--kube-reserved",
            "memory=1Gi",
        ]
    )
    assert found.config == "/a.yaml"
    assert found.config_dir == "/d"
    assert found.overrides == {"kubeReserved": {"memory": "1Gi"}}


def test_repeated_flags_add_up() -> None:
    found = parse_arguments(
        [
            "kubelet",
            "--eviction-hard=memory.available<1Gi,nodefs.available<10%",
            "--eviction-hard=memory.available<2Gi",
            "--system-reserved=cpu=1,memory=1Gi",
            "--reserved-memory=0:memory=1Gi;1:memory=2Gi",
            "--reserved-memory=2:hugepages-2Mi=4Mi",
            "--config=/a",
            "--config=/b",
        ]
    )
    assert found.config == "/b"
    assert found.overrides == {
        "evictionHard": {"memory.available": "2Gi", "nodefs.available": "10%"},
        "systemReserved": {"cpu": "1", "memory": "1Gi"},
        "reservedMemory": [
            {"numaNode": 0, "limits": {"memory": "1Gi"}},
            {"numaNode": 1, "limits": {"memory": "2Gi"}},
            {"numaNode": 2, "limits": {"hugepages-2Mi": "4Mi"}},
        ],
    }


def test_an_empty_reservation_discards_the_previous_ones() -> None:
    found = parse_arguments(["kubelet", "--reserved-memory=0:memory=1Gi", "--reserved-memory="])
    assert found.overrides == {"reservedMemory": []}


@pytest.mark.parametrize(
    ("flag", "problem"),
    [
        ("--reserved-memory=0", "--reserved-memory: the reserved memory has incorrect format"),
        ("--kube-reserved=memory", "--kube-reserved: 'memory' is not NAME=AMOUNT"),
        ("--eviction-hard=memory.available=1Gi", "--eviction-hard: 'memory.available=1Gi' is not "),
    ],
)
def test_flags_that_a_kubelet_refuses(flag: str, problem: str) -> None:
    with pytest.raises(ArgumentsError) as caught:
        parse_arguments(["kubelet", flag])
    assert str(caught.value).startswith(problem)


def test_the_examples_of_rfc_7396() -> None:
    assert merge({"a": "b"}, {"a": "c"}) == {"a": "c"}
    assert merge({"a": "b"}, {"b": "c"}) == {"a": "b", "b": "c"}
    assert merge({"a": "b", "b": "c"}, {"a": None}) == {"b": "c"}
    assert merge({"a": ["b"]}, {"a": "c"}) == {"a": "c"}
    assert merge({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}) == {"a": {"b": "d"}}
    assert merge(["a", "b"], ["c", "d"]) == ["c", "d"]
    assert merge({"e": None}, {"a": 1}) == {"e": None, "a": 1}
    assert merge([1, 2], {"a": "b", "c": None}) == {"a": "b"}
