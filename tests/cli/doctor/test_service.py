"""The systemd unit and its drop-in files beside the address of the metrics."""

from pathlib import Path

import pytest

from nri_numamem.cli.doctor.findings import Verdict
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
