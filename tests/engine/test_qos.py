import pytest

from nri_numamem.engine.qos import qos_of_cgroup_parent
from nri_numamem.memorymanager import QosClass

UID = "6f2d4c1e-8a77-4f6b-9d5e-0a1b2c3d4e5f"
SLICE_UID = UID.replace("-", "_")
GUARANTEED, BURSTABLE = QosClass.GUARANTEED, QosClass.BURSTABLE
BEST_EFFORT, UNKNOWN = QosClass.BEST_EFFORT, QosClass.UNKNOWN


@pytest.mark.parametrize(
    ("cgroup_parent", "expected"),
    [
        (f"/kubepods/pod{UID}", GUARANTEED),
        (f"/kubepods/burstable/pod{UID}", BURSTABLE),
        (f"/kubepods/besteffort/pod{UID}", BEST_EFFORT),
        (f"/kubelet/kubepods/pod{UID}", GUARANTEED),
        (f"/kubelet/kubepods/burstable/pod{UID}", BURSTABLE),
        (f"/kubepods.slice/kubepods-pod{SLICE_UID}.slice", GUARANTEED),
        (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICE_UID}.slice",
            BURSTABLE,
        ),
        (
            f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{SLICE_UID}.slice",
            BEST_EFFORT,
        ),
        (f"kubepods-pod{SLICE_UID}.slice", GUARANTEED),
        (f"kubepods-burstable-pod{SLICE_UID}.slice", BURSTABLE),
        (f"kubepods-besteffort-pod{SLICE_UID}.slice", BEST_EFFORT),
        (f"kubelet-kubepods-pod{SLICE_UID}.slice", GUARANTEED),
        (f"kubelet-kubepods-burstable-pod{SLICE_UID}.slice", BURSTABLE),
        ("/kubepods/pod0123456789abcdef0123456789abcdef/", GUARANTEED),  # a static pod's hash
    ],
)
def test_the_kubelets_patterns(cgroup_parent: str, expected: QosClass) -> None:
    assert qos_of_cgroup_parent(cgroup_parent) is expected


@pytest.mark.parametrize(
    "cgroup_parent",
    [
        "",
        "/",
        "system.slice",
        "/kubepods",  # cgroupsPerQOS=false
        "/kubepods/pod",
        "/kubepods/burstable",
        f"/my-burstable/pod{UID}",
        f"/burstable/pod{UID}",
        f"/elsewhere/burstable/pod{UID}",
        f"pod{UID}",
        f"user-pod{SLICE_UID}.slice",
        "machine.slice",
    ],
)
def test_a_cgroup_that_is_not_the_kubelets_is_unknown(cgroup_parent: str) -> None:
    assert qos_of_cgroup_parent(cgroup_parent) is UNKNOWN


def test_a_root_with_a_class_in_its_name_does_not_decide() -> None:
    parent = f"/my-burstable/kubepods/pod{UID}"
    assert qos_of_cgroup_parent(parent) is GUARANTEED
    escaped = f"/my\\x2dburstable.slice/my\\x2dburstable-kubepods-pod{SLICE_UID}.slice"
    assert qos_of_cgroup_parent(escaped) is GUARANTEED
