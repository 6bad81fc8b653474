"""Values of the PodResources API."""

from nri_numamem.kubelet.host_resources import KubeletResources
from nri_numamem.numa import CpuSet


def test_only_the_static_cpu_manager_lists_cpus() -> None:
    assert not KubeletResources().has_static_cpu_manager
    assert KubeletResources(allocatable_cpus=CpuSet([3])).has_static_cpu_manager
