"""Files that a purge leaves, and names."""

from pathlib import Path

import pytest

from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation.facts import Facts
from nri_numamem.cli.installation.outside import files_outside
from nri_numamem.cli.runtimes import CONTAINERD, Runtime

SERVICE, LAUNCHED = "/etc/nri-numamem/config.yaml", "/etc/nri/conf.d/10-nri-numamem.conf"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def write(host: Host, name: str, text: str = "") -> None:
    path = host.path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def outside(host: Host, **configs: str) -> list[str]:
    """Return the lines for the texts of the two configurations."""
    names = {"service": SERVICE, "launched": LAUNCHED}
    for way, text in configs.items():
        write(host, names[way], text)
    runtime = Runtime("containerd", CONTAINERD, {}, hides_hugepages=False)
    return files_outside(Facts(runtime, configs={names[way]: "" for way in configs}), host)


def test_each_kind_of_file(host: Host) -> None:
    for name in ("/data/state", "/logs/numamem.log", "/metrics/numamem.prom"):
        write(host, name)
    text = "stateFile: /data/state\nlogFile: /logs/numamem.log\n"
    text += "metricsTextfile: /metrics/numamem.prom\n"
    assert outside(host, service=text) == [
        f"/data/state, and the plugin's files beside it (stateFile in {SERVICE})",
        f"/logs/numamem.log (logFile in {SERVICE})",
        f"/metrics/numamem.prom (metricsTextfile in {SERVICE})",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        'stateFile: ""\n',
        "stateFile: /var/lib/nri-numamem/other\n",
        "stateFile: /var/lib/nri-numamem/deeper/other\n",
        "logFile: /missing.log\n",
        "stateFile: relative\n",
    ],
)
def test_files_that_a_purge_removes_or_that_do_not_exist(host: Host, text: str) -> None:
    write(host, "/var/lib/nri-numamem/other")
    write(host, "/var/lib/nri-numamem/deeper/other")
    assert outside(host, launched=text) == []


def test_a_name_that_only_begins_like_a_removed_directory(host: Host) -> None:
    write(host, "/var/lib/nri-numamem-old/state")
    text = "stateFile: /var/lib/nri-numamem-old/state\n"
    (line,) = outside(host, launched=text)
    assert line.startswith("/var/lib/nri-numamem-old/state, and")


def test_two_configurations(host: Host) -> None:
    write(host, "/data/state")
    lines = outside(host, service="stateFile: /data/state\n", launched="stateFile: /data/state\n")
    assert [line.rpartition(" in ")[2] for line in lines] == [f"{SERVICE})", f"{LAUNCHED})"]


def test_a_configuration_that_is_missing_names_none(host: Host) -> None:
    runtime = Runtime("containerd", CONTAINERD, {}, hides_hugepages=False)
    assert files_outside(Facts(runtime, configs={SERVICE: ""}), host) == []
