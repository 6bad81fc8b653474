"""Which values of a kubelet's configuration are copied."""

import pytest

from nri_numamem.kubelet.config_file import (
    ArgumentsError,
    KubeletArguments,
    KubeletConfigError,
    merge,
    parse_arguments,
    read_kubelet_config,
)

HEAD = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
DEFAULT = {"evictionHard": {"memory.available": "100Mi"}}


def test_an_empty_configuration_has_the_kubelets_defaults() -> None:
    found = read_kubelet_config(HEAD)
    assert found.settings == DEFAULT
    assert found.memory_manager_policy == "None"
    assert found.cpu_manager_policy == "none"
    assert found.reserved_system_cpus == ""


def test_known_keys_are_copied_as_written() -> None:
    matters = {
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
        "topologyManagerPolicy": "restricted",
        "topologyManagerScope": "pod",
        "kubeReserved": {"memory": "500Mi", "cpu": "1", "pid": "1000"},
        "systemReserved": {"memory": "424Mi"},
        "evictionHard": {"memory.available": "5%"},
    }
    others = {
        "memoryManagerPolicy": "Static",
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0-1",
        "evictionSoft": {"memory.available": "1Gi"},
        "topologyManagerPolicyOptions": {
            "prefer-closest-numa-nodes": "true",
            "an-option-of-tomorrow": "true",
        },
    }
    found = read_kubelet_config({**HEAD, **matters, **others})
    options = {"topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true"}}
    assert found.settings == {**matters, **options}
    assert found.memory_manager_policy == "Static"
    assert found.cpu_manager_policy == "static"
    assert found.reserved_system_cpus == "0-1"


def test_a_key_without_a_value_is_left_out() -> None:
    nothing: dict[str, object] = dict.fromkeys(
        ("reservedMemory", "kubeReserved", "evictionHard", "memoryManagerPolicy")
    )
    found = read_kubelet_config({**HEAD, **nothing})
    assert found.settings == DEFAULT
    assert found.memory_manager_policy == "None"


def test_other_thresholds_drop_the_default_unless_they_are_merged() -> None:
    disk = {"nodefs.available": "10%"}
    found = read_kubelet_config({**HEAD, "evictionHard": disk})
    assert found.settings == {"evictionHard": disk}
    merged = {**HEAD, "evictionHard": disk, "mergeDefaultEvictionSettings": True}
    assert read_kubelet_config(merged).settings == {
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "10%"}
    }
    own = {**merged, "evictionHard": {"memory.available": "1Gi"}}
    assert read_kubelet_config(own).settings == {"evictionHard": {"memory.available": "1Gi"}}


def test_wrong_types_are_copied_for_the_settings_to_check() -> None:
    wrong = {"topologyManagerPolicyOptions": [1], "evictionHard": "100Mi"}
    found = read_kubelet_config({**HEAD, **wrong, "memoryManagerPolicy": ["Static"]})
    assert found.settings == wrong
    assert found.memory_manager_policy == "None"


@pytest.mark.parametrize(
    ("document", "path"),
    [
        pytest.param(None, (), id="empty"),
        pytest.param([HEAD], (), id="list"),
        pytest.param({"kubeReserved": {}}, (), id="no-kind"),
        pytest.param({**HEAD, "kind": "Pod"}, ("kind",), id="other-kind"),
    ],
)
def test_other_documents_are_refused(document: object, path: tuple[str, ...]) -> None:
    with pytest.raises(KubeletConfigError, match=r"KubeletConfig.*; give the file ") as found:
        read_kubelet_config(document)
    assert found.value.path == path


def test_names_of_a_later_kubelet_are_left_out() -> None:
    document = {
        **HEAD,
        "kubeReserved": {"memory": "1Gi", "tomorrow": "1", "hugepages-1Gi": "1Gi", 5: "1"},
        "evictionHard": {"memory.available": "1Gi", "tomorrow.available": "1Gi"},
    }
    settings = read_kubelet_config(document).settings
    assert settings["kubeReserved"] == {"memory": "1Gi", "hugepages-1Gi": "1Gi"}
    assert settings["evictionHard"] == {"memory.available": "1Gi"}


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
