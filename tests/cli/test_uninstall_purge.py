"""What a purge removes, and what it leaves and names."""

from pathlib import Path

import pytest

from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation.facts import Facts
from nri_numamem.cli.installation.steps import Remove
from nri_numamem.cli.runtimes import CONTAINERD, Runtime
from nri_numamem.cli.uninstall import Purge, plan_purge, purge
from nri_numamem.config.errors import UsageError

SERVICE, LAUNCHED = "/etc/nri-numamem/config.yaml", "/etc/nri/conf.d/10-nri-numamem.conf"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def write(host: Host, name: str, text: str = "") -> None:
    path = host.path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def facts(**configs: str) -> Facts:
    runtime = Runtime("containerd", CONTAINERD, {}, hides_hugepages=False)
    return Facts(runtime, configs=configs)


def outside(host: Host, **configs: str) -> list[str]:
    """Return the lines for the texts of the two configurations."""
    names = {"service": SERVICE, "launched": LAUNCHED}
    for way, text in configs.items():
        write(host, names[way], text)
    named = facts(**{names[way]: "" for way in configs})
    return list(plan_purge(named, [], host).kept)


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
    assert plan_purge(facts(**{SERVICE: ""}), [], host).kept == ()


ENTRY = "/opt/nri/plugins/10-nri-numamem"
STATE = "/var/lib/nri-numamem/nri_numamem_state"


def test_directories_are_removed_if_the_uninstall_leaves_nothing_in_them(host: Host) -> None:
    for name in (STATE, LAUNCHED, ENTRY):
        write(host, name)
    plan = plan_purge(facts(**{LAUNCHED: ""}), [Remove(ENTRY)], host)
    assert plan.own == (LAUNCHED, "/var/lib/nri-numamem")
    assert plan.shared == ("/opt/nri/plugins", "/opt/nri", "/etc/nri/conf.d", "/etc/nri")
    write(host, "/opt/nri/plugins/20-other")
    write(host, "/etc/nri/conf.d/20-other.conf")
    assert plan_purge(facts(**{LAUNCHED: ""}), [Remove(ENTRY)], host).shared == ()


def test_it_is_removed_and_printed(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    write(host, STATE)
    write(host, LAUNCHED)
    plan = plan_purge(facts(**{LAUNCHED: ""}), [], host)
    assert purge(plan, host, is_dry_run=True) == []
    assert capsys.readouterr().out.splitlines()[0] == f"would remove {LAUNCHED}"
    assert host.path(STATE).exists()
    assert purge(plan, host, is_dry_run=False) == []
    assert capsys.readouterr().out == (
        f"removed {LAUNCHED}\nremoved /var/lib/nri-numamem\nremoved /etc/nri/conf.d\n"
        "removed /etc/nri\n"
    )
    assert not host.path("/etc/nri").exists()
    assert not host.path("/var/lib/nri-numamem").exists()


def test_an_error_does_not_stop_it(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    write(host, "/etc/nri/other")
    write(host, STATE)
    plan = Purge(("/var/lib/nri-numamem",), ("/etc/nri", "/none"), ())
    remaining = purge(plan, host, is_dry_run=False)
    assert remaining == [
        "remove /etc/nri    (not done completely: Directory not empty)",
        "remove /none    (not done completely: No such file or directory)",
    ]
    assert capsys.readouterr().out == "removed /var/lib/nri-numamem\n"


def test_a_link_is_removed_and_its_target_named(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also the configuration, which is below it."""
    write(host, "/srv/numamem/config.yaml")
    write(host, "/srv/numamem/notes")
    host.path("/etc").mkdir()
    host.path("/etc/nri-numamem").symlink_to("/srv/numamem")
    host.path("/var/log").mkdir(parents=True)
    host.path("/var/log/nri-numamem").symlink_to("/none")
    plan = plan_purge(facts(**{SERVICE: ""}), [], host)
    assert purge(plan, host, is_dry_run=False) == []
    kept = "kept /srv/numamem, to which /etc/nri-numamem was a link; remove it yourself\n"
    assert capsys.readouterr().out.endswith(kept)
    assert [path.name for path in host.path("/srv/numamem").iterdir()] == ["notes"]
    assert not host.entry("/etc/nri-numamem").is_symlink()
    assert not host.entry("/var/log/nri-numamem").is_symlink()


def test_what_cannot_be_removed_is_refused(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    write(host, STATE)
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(UsageError, match=r"^/var/lib/nri-numamem: cannot be removed; run as root"):
        plan_purge(facts(), [], host)
