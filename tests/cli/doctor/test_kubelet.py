"""The kubelet's configuration beside the plugin's: one fault each."""

import pytest

from nri_numamem.cli.doctor.findings import Verdict
from tests.cli.doctor.host_files import CONFIG, KUBELET, Change, HostFiles, expect_fault


def enable_the_kubelets_manager(files: HostFiles) -> None:
    files.write(KUBELET, "kind: KubeletConfiguration\nmemoryManagerPolicy: Static\n")


def remove_the_kubelets_configuration(files: HostFiles) -> None:
    files.path(KUBELET).unlink()


def break_the_kubelets_configuration(files: HostFiles) -> None:
    files.write(KUBELET, "a: [\n")


def choose_a_strict_policy(files: HostFiles) -> None:
    files.write(CONFIG, "topologyManagerPolicy: restricted\n")


@pytest.mark.parametrize(
    ("change", "check", "verdict", "text"),
    [
        (
            enable_the_kubelets_manager,
            "kubelet_memory_manager",
            Verdict.FAIL,
            "config.yaml:2: memoryManagerPolicy is Static",
        ),
        (remove_the_kubelets_configuration, "kubelet", Verdict.UNKNOWN, "does not exist"),
        (break_the_kubelets_configuration, "kubelet", Verdict.UNKNOWN, "config.yaml:2: "),
        (
            choose_a_strict_policy,
            "kubelet_cpu_manager",
            Verdict.WARN,
            "config.yaml:2: cpuManagerPolicy is static, and the plugin's policy is restricted",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_host_with_one_fault(
    good_host: HostFiles, change: Change, check: str, verdict: Verdict, text: str
) -> None:
    expect_fault(good_host, change, check, verdict, text)
