"""Which values of a kubelet's configuration are copied."""

import pytest

from nri_numamem.kubelet.config_file import KubeletConfigError, read_kubelet_config

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
