"""Checks of network hints: kernel, unit and drop-in files, and nothing where they are off."""

from pathlib import Path

import pytest

from nri_numamem.cli.doctor.findings import Finding, Verdict
from nri_numamem.cli.doctor.network_hints import check_network_hints
from nri_numamem.cli.host_files import Host
from nri_numamem.config.settings import Settings

UNIT_TEXT = (Path(__file__).parents[3] / "systemd" / "nri-numamem.service").read_text()
UNIT = "etc/systemd/system/nri-numamem.service"
WANTED = "etc/systemd/system/multi-user.target.wants/nri-numamem.service"
CAPSET = "SystemCallFilter=capset\n"
DROP_IN = f"CapabilityBoundingSet=CAP_SYS_ADMIN\nRestrictNamespaces=net\n{CAPSET}"


def finding(
    root: Path, drop_in: str | None = None, release: str = "6.12.1", hints: str = "secondary"
) -> Finding | None:
    """Return the finding on a host with the unit, if `drop_in` is a text."""
    (root / "proc/sys/kernel").mkdir(parents=True)
    (root / "proc/sys/kernel/osrelease").write_text(f"{release}\n")
    if drop_in is not None:
        for path, text in ((UNIT, UNIT_TEXT), (f"{UNIT}.d/x.conf", f"[Service]\n{drop_in}")):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        (root / WANTED).parent.mkdir(parents=True)
        (root / WANTED).symlink_to("../nri-numamem.service")
    found = list(check_network_hints(Host(root), Settings(network_hints=hints)))
    assert len(found) <= 1
    return found[0] if found else None


def test_nothing_is_checked_while_hints_are_off(tmp_path: Path) -> None:
    assert finding(tmp_path, hints="off") is None
    assert list(check_network_hints(Host(), None)) == []


@pytest.mark.parametrize("release", ["5.13.0-39", "4.18.0-553.el8"])
def test_an_old_kernel_does_not_report_parents(tmp_path: Path, release: str) -> None:
    found = finding(tmp_path, DROP_IN, release)
    assert found is not None
    assert (found.verdict, found.remedy) == (Verdict.WARN, "use Linux 5.14 or newer")


@pytest.mark.parametrize(
    ("drop_in", "verdict"),
    [
        ("", Verdict.WARN),
        ("CapabilityBoundingSet=CAP_SYS_ADMIN\n", Verdict.WARN),
        ("RestrictNamespaces=net\n", Verdict.WARN),
        ("CapabilityBoundingSet=CAP_SYS_ADMIN\nRestrictNamespaces=uts ipc\n", Verdict.WARN),
        ("CapabilityBoundingSet=CAP_SYS_ADMIN\nRestrictNamespaces=~net\n", Verdict.WARN),
        (DROP_IN, Verdict.OK),
        (f"CapabilityBoundingSet=~CAP_SYS_BOOT\nRestrictNamespaces=uts net\n{CAPSET}", Verdict.OK),
        (f"CapabilityBoundingSet=CAP_SYS_ADMIN\nRestrictNamespaces=no\n{CAPSET}", Verdict.OK),
        (DROP_IN.removesuffix(CAPSET), Verdict.WARN),
        (f"{DROP_IN}SystemCallFilter=~capset mount\n", Verdict.WARN),
        (f"{DROP_IN}SystemCallFilter=~mount\n", Verdict.OK),
        (f"{DROP_IN.removesuffix(CAPSET)}SystemCallFilter=@privileged\n", Verdict.OK),
        (f"{DROP_IN.removesuffix(CAPSET)}SystemCallFilter=\n", Verdict.OK),
    ],
)
def test_the_unit_must_permit_namespaces(tmp_path: Path, drop_in: str, verdict: Verdict) -> None:
    found = finding(tmp_path, drop_in)
    assert found is not None
    assert found.verdict is verdict
    assert all(line in found.remedy for line in DROP_IN.split()) is (verdict is Verdict.WARN)


def test_the_documented_drop_in_file_is_what_the_check_wants(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs/network-hints.md").read_text()
    documented = page.partition("```ini\n[Service]\n")[2].partition("```")[0]
    found = finding(tmp_path, documented)
    assert found is not None
    assert found.verdict is Verdict.OK
    assert set(documented.split()) == set(DROP_IN.split())


def test_without_the_unit_nothing_is_wrong(tmp_path: Path) -> None:
    found = finding(tmp_path)
    assert found is not None
    assert found.verdict is Verdict.OK
    assert "CAP_SYS_ADMIN" in found.text


def test_a_file_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    (tmp_path / UNIT).mkdir(parents=True)
    (tmp_path / WANTED).parent.mkdir(parents=True)
    (tmp_path / WANTED).symlink_to("../nri-numamem.service")
    (found,) = check_network_hints(Host(tmp_path), Settings(network_hints="all"))
    assert found.verdict is Verdict.UNKNOWN


def test_the_release_of_this_host_is_read() -> None:
    """Look at a real procfs, which refuses large reads of the file."""
    (found,) = check_network_hints(Host(), Settings(network_hints="all"))
    assert "osrelease" not in found.text


def test_a_release_that_cannot_be_read_counts_as_new(tmp_path: Path) -> None:
    (tmp_path / "proc/sys/kernel/osrelease").mkdir(parents=True)
    (found,) = check_network_hints(Host(tmp_path), Settings(network_hints="all"))
    assert found.verdict is Verdict.OK
