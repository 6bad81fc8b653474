"""The systemd unit and its drop-in files beside the address of the metrics."""

from pathlib import Path

import pytest

from nri_numamem.cli.doctor.findings import Finding, Verdict
from nri_numamem.cli.doctor.unit import UnitFile, check_network_hints
from nri_numamem.cli.host_files import Host
from nri_numamem.config.settings import Settings
from tests.cli.doctor.host_files import CONFIG, SERVICE, HostFiles, expect_fault

UNIT_TEXT = (Path(__file__).parents[3] / "systemd" / "nri-numamem.service").read_text()
UNIT = "etc/systemd/system/nri-numamem.service"
CHECK = "metrics_address"


class ServiceFiles:
    """Changes a good host into one whose service has an address for metrics."""

    def __init__(self, address: str, **files: str) -> None:
        self.address = address
        self.files = files

    def __call__(self, host: HostFiles) -> None:
        host.path("opt/nri/plugins/10-nri-numamem").unlink()
        host.link(SERVICE, "/etc/systemd/system/nri-numamem.service")
        host.write(CONFIG, f"metricsAddress: '{self.address}'\n")
        host.write(UNIT, UNIT_TEXT)
        for name, text in self.files.items():
            host.write(f"{UNIT}.d/{name}.conf", f"[Service]\n{text}\n")


@pytest.mark.parametrize("address", ["0.0.0.0:9551", "[::]:9551", "10.0.0.1:9551", "metrics:9551"])
def test_an_address_that_is_not_on_loopback_needs_a_drop_in(
    good_host: HostFiles, address: str
) -> None:
    text = f"metricsAddress is {address}, and nri-numamem.service permits loopback addresses only"
    expect_fault(good_host, ServiceFiles(address), CHECK, Verdict.WARN, text)
    remedy = good_host.findings()[CHECK].remedy
    assert "IPAddressAllow=NETWORK" in remedy
    assert "/etc/systemd/system/nri-numamem.service.d/metrics.conf" in remedy


@pytest.mark.parametrize(
    "address", ["127.0.0.1:9551", "127.1.2.3:9551", "[::1]:9551", "localhost:1024"]
)
def test_an_address_on_loopback_is_permitted(good_host: HostFiles, address: str) -> None:
    ServiceFiles(address)(good_host)
    finding = good_host.findings()[CHECK]
    assert (finding.verdict, finding.remedy) == (Verdict.OK, "")
    assert finding.text == f"nri-numamem.service permits metricsAddress {address}"


@pytest.mark.parametrize(
    "drop_in",
    [
        "IPAddressAllow=10.0.0.0/8",
        "IPAddressAllow = localhost fd00::/8",
        "IPAddressAllow=any",
        "IPAddressDeny=",
    ],
)
def test_a_drop_in_permits_an_address(good_host: HostFiles, drop_in: str) -> None:
    ServiceFiles("10.0.0.1:9551", metrics=drop_in)(good_host)
    assert good_host.findings()[CHECK].verdict is Verdict.OK


@pytest.mark.parametrize(
    "drop_in", ["IPAddressAllow=127.0.0.2 ::1", "IPAddressAllow=", "# IPAddressAllow=any"]
)
def test_a_drop_in_for_loopback_permits_no_other_address(
    good_host: HostFiles, drop_in: str
) -> None:
    change = ServiceFiles("10.0.0.1:9551", metrics=drop_in)
    expect_fault(good_host, change, CHECK, Verdict.WARN, "permits loopback addresses only")


def test_a_later_drop_in_clears_the_list(good_host: HostFiles) -> None:
    change = ServiceFiles("10.0.0.1:9551", a="IPAddressAllow=any", b="IPAddressAllow=")
    expect_fault(good_host, change, CHECK, Verdict.WARN, "permits loopback addresses only")


def test_a_drop_in_of_the_administrator_hides_that_of_a_package(good_host: HostFiles) -> None:
    change = ServiceFiles("10.0.0.1:9551", metrics="IPAddressAllow=localhost")
    name = "usr/lib/systemd/system/nri-numamem.service.d/metrics.conf"
    good_host.write(name, "[Service]\nIPAddressAllow=any\n")
    good_host.write(name.replace("metrics.conf", "README"), "IPAddressAllow=any\n")
    expect_fault(good_host, change, CHECK, Verdict.WARN, "permits loopback addresses only")


@pytest.mark.parametrize("drop_in", ["TasksMax=9", "CapabilityBoundingSet=~CAP_NET_BIND_SERVICE"])
def test_a_low_port_needs_a_capability(good_host: HostFiles, drop_in: str) -> None:
    change = ServiceFiles("127.0.0.1:80", metrics=drop_in)
    text = "no CAP_NET_BIND_SERVICE for ports below 1024"
    expect_fault(good_host, change, CHECK, Verdict.WARN, text)
    assert "CapabilityBoundingSet=CAP_NET_BIND_SERVICE" in good_host.findings()[CHECK].remedy


@pytest.mark.parametrize("capabilities", ["CAP_NET_BIND_SERVICE", "~CAP_SYS_ADMIN"])
def test_a_drop_in_permits_a_low_port(good_host: HostFiles, capabilities: str) -> None:
    drop_in = f"CapabilityBoundingSet={capabilities}"
    ServiceFiles("127.0.0.1:80", metrics=drop_in)(good_host)
    assert good_host.findings()[CHECK].verdict is Verdict.OK


def test_a_unit_without_restrictions_permits_each_address(good_host: HostFiles) -> None:
    ServiceFiles("10.0.0.1:80")(good_host)
    good_host.write(UNIT, "[Service]\nExecStart=/x run\n")
    assert good_host.findings()[CHECK].verdict is Verdict.OK


def test_a_unit_that_cannot_be_read_is_unknown(good_host: HostFiles) -> None:
    def change(host: HostFiles) -> None:
        ServiceFiles("10.0.0.1:9551")(host)
        host.path(UNIT).unlink()
        host.path(UNIT).mkdir()

    expect_fault(good_host, change, CHECK, Verdict.UNKNOWN, "Is a directory")


def test_without_service_or_tcp_address_nothing_is_checked(good_host: HostFiles) -> None:
    good_host.write(CONFIG, "metricsAddress: 10.0.0.1:9551\n")
    assert CHECK not in good_host.findings()
    ServiceFiles("unix:///run/nri-numamem/metrics.sock")(good_host)
    assert CHECK not in good_host.findings()


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


def unit_file(root: Path, **files: str) -> UnitFile:
    """Return the unit with drop-in files by name; `unit` is its own text."""
    for name, text in files.items():
        path = root / (UNIT if name == "unit" else f"{UNIT}.d/{name}.conf")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return UnitFile(Host(root))


def test_drop_in_files_follow_the_unit_by_name(tmp_path: Path) -> None:
    found = unit_file(tmp_path, b="X = 3\n", unit="[Service]\nX=1\n# X=9\n", a="X=2\nY=8\n")
    assert found.values("X") == ["1", "2", "3"]
    assert found.values("Z") == []


def test_an_empty_line_clears_a_list(tmp_path: Path) -> None:
    found = unit_file(tmp_path, unit="X=1 2\nX=\nX=3\n", a="X=4\n")
    assert found.words("X") == ["3", "4"]


def test_a_file_hides_those_of_later_directories(tmp_path: Path) -> None:
    for folder in ("etc", "usr/lib"):
        path = tmp_path / folder / "systemd/system/nri-numamem.service"
        path.parent.mkdir(parents=True)
        path.write_text(f"X={folder}\n")
    assert UnitFile(Host(tmp_path)).values("X") == ["etc"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("CapabilityBoundingSet=\n", False),
        ("CapabilityBoundingSet=CAP_A CAP_B\n", True),
        ("CapabilityBoundingSet=CAP_B\n", False),
        ("CapabilityBoundingSet=~CAP_A\n", False),
        ("CapabilityBoundingSet=~CAP_B\n", True),
        ("CapabilityBoundingSet=\nCapabilityBoundingSet=CAP_A\n", True),
    ],
)
def test_capabilities(tmp_path: Path, text: str, expected: bool) -> None:
    assert unit_file(tmp_path, unit=text).allows_capability("CAP_A") is expected
