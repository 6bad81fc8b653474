"""Checks of memory policies: kernel, OCI runtimes, and nothing where policies are off."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from nri_numamem.cli.doctor.findings import Finding, Verdict
from nri_numamem.cli.doctor.memory_policies import check_memory_policies
from nri_numamem.cli.host_files import Host
from nri_numamem.config.settings import Settings
from nri_numamem.host.memory_policies import FeaturesError
from nri_numamem.numa import MemoryPolicies, PolicyMode

BIND = PolicyMode.BIND
NAME = "memory_policies"
REMEDY = "use runc 1.4 or crun 1.24, or newer; see docs/memory-policies.md"


def findings(
    policies: MemoryPolicies,
    programs: Mapping[str, frozenset[str] | FeaturesError] | None = None,
    root: Path = Path("/"),
) -> list[Finding]:
    """Return the findings on a host with these OCI runtimes and their modes."""
    found = programs or {}

    def read(program: Path) -> frozenset[str]:
        modes = found[program.name]
        if isinstance(modes, FeaturesError):
            raise modes
        return modes

    def find(name: str) -> Path | None:
        return Path("/bin", name) if name in found else None

    settings = Settings(memory_policies=policies)
    return list(check_memory_policies(Host(root), settings, find, read))


def test_nothing_is_checked_while_policies_are_off() -> None:
    assert findings(MemoryPolicies(), {"runc": frozenset()}) == []
    assert list(check_memory_policies(Host(), None)) == []


@pytest.mark.parametrize(
    ("modes", "verdict", "text", "remedy"),
    [
        (frozenset({"MPOL_BIND"}), Verdict.OK, "/bin/runc sets memory policies", ""),
        (frozenset(), Verdict.WARN, "/bin/runc sets no memory policies", REMEDY),
        (FeaturesError("it fails"), Verdict.WARN, "it fails", REMEDY),
    ],
)
def test_an_oci_runtime(
    modes: frozenset[str] | FeaturesError, verdict: Verdict, text: str, remedy: str
) -> None:
    found = findings(MemoryPolicies((BIND,)), {"runc": modes})
    assert found == [Finding(NAME, verdict, text, remedy)]


def test_without_an_oci_runtime() -> None:
    (found,) = findings(MemoryPolicies((BIND,)))
    assert found.verdict is Verdict.WARN
    assert found.text == "the plugin finds neither runc nor crun, so it sets no policies"
    assert "memoryPolicy.runtimes" in found.remedy


@pytest.mark.parametrize(("runtimes", "shown"), [((), "none"), (("a", "b"), "a, b")])
def test_listed_handlers_are_not_checked(runtimes: tuple[str, ...], shown: str) -> None:
    policies = MemoryPolicies((BIND,), runtimes=runtimes)
    text = f"memoryPolicy.runtimes lists the handlers {shown}, which are not checked"
    assert findings(policies) == [Finding(NAME, Verdict.OK, text)]


def test_another_root_is_not_executed(tmp_path: Path) -> None:
    (found,) = findings(MemoryPolicies((BIND,)), {"runc": frozenset()}, tmp_path)
    assert found.verdict is Verdict.UNKNOWN


def test_modes_that_the_kernel_lacks(tmp_path: Path) -> None:
    weighted = PolicyMode.WEIGHTED_INTERLEAVE
    for policies in (MemoryPolicies((weighted,)), MemoryPolicies(defaults={"a": weighted})):
        found, _ = findings(policies, root=tmp_path)
        assert found.verdict is Verdict.WARN
        assert found.text == "the kernel lacks the modes weighted-interleave of memoryPolicy"
