"""The options of where the plugin and its host are found."""

import argparse
from dataclasses import replace
from pathlib import Path

import pytest

from nri_numamem.cli import host_arguments
from nri_numamem.cli.host_arguments import (
    add_config_argument,
    add_host_argument,
    add_root_arguments,
    add_state_file_argument,
    config_files,
    plugin_settings,
    roots_of,
    state_file_of,
)
from nri_numamem.cli.main import main, new_parser
from nri_numamem.config.errors import UsageError
from nri_numamem.config.host_paths import below
from nri_numamem.config.settings import STATE_FILE
from nri_numamem.host.roots import HostRoots

KUBELET = "/host/var/lib/kubelet"
SERVICE = "etc/nri-numamem/config.yaml"
LAUNCHED = "etc/nri/conf.d/10-nri-numamem.conf"


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


@pytest.fixture(name="root")
def _root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the files of this host into a directory."""
    monkeypatch.setattr(host_arguments, "DEFAULT_CONFIG", tmp_path / SERVICE)
    monkeypatch.setattr(host_arguments, "LAUNCHED_CONFIGS", (tmp_path / LAUNCHED).parent)
    return tmp_path


def test_the_roots() -> None:
    parser = argparse.ArgumentParser()
    add_root_arguments(parser)
    assert roots_of(parser.parse_args([])) == HostRoots()
    given = roots_of(parser.parse_args(["--sysfs-root=/a", "--proc-root=/b", "--cgroup-root=/c"]))
    assert given == HostRoots(Path("/a"), Path("/b"), Path("/c"))


def test_some_of_the_roots() -> None:
    parser = argparse.ArgumentParser()
    add_root_arguments(parser, "cgroup")
    assert roots_of(parser.parse_args(["--cgroup-root=/c"])) == HostRoots(cgroup=Path("/c"))
    with pytest.raises(SystemExit):
        parser.parse_args(["--proc-root=/b"])


def test_the_roots_of_a_mounted_host() -> None:
    parser = argparse.ArgumentParser()
    add_host_argument(parser)
    add_root_arguments(parser)
    mounted = HostRoots(
        Path("/host/sys"), Path("/host/proc"), Path("/host/sys/fs/cgroup"), Path(KUBELET)
    )
    assert roots_of(parser.parse_args(["--root=/host"])) == mounted
    named = roots_of(parser.parse_args(["--root=/host", "--cgroup-root=/c"]))
    assert named == replace(mounted, cgroup=Path("/c"))


def test_paths_of_a_mounted_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    host = Path("/host")
    assert below(host, Path("/etc/file")) == Path("/host/etc/file")
    assert below(host, Path("file")) == Path(f"/host{tmp_path}/file")
    assert below(Path("/"), Path("file")) == Path("file")


def test_files_below_a_root(tmp_path: Path) -> None:
    assert config_files(tmp_path) == []
    write(tmp_path, LAUNCHED, "")
    write(tmp_path, "etc/nri/conf.d/numamem.conf", "")
    write(tmp_path, "etc/nri/conf.d/20-other.conf", "")
    launched = [Path(f"/{LAUNCHED}"), Path("/etc/nri/conf.d/numamem.conf")]
    assert config_files(tmp_path) == launched
    write(tmp_path, SERVICE, "")
    assert config_files(tmp_path) == [Path(f"/{SERVICE}"), *launched]


def test_the_plugins_settings(root: Path) -> None:
    assert plugin_settings(None)[1] == "no file: defaults"
    write(root, LAUNCHED, "topologyManagerScope: pod\n")
    settings, origin = plugin_settings(None)
    assert (settings.topology_manager_scope, origin) == ("pod", str(root / LAUNCHED))
    write(root, SERVICE, "")
    assert plugin_settings(None)[1] == str(root / SERVICE)
    assert plugin_settings(root / LAUNCHED) == (settings, str(root / LAUNCHED))


def test_the_plugins_settings_on_a_mounted_host(tmp_path: Path) -> None:
    assert plugin_settings(None, tmp_path)[1] == "no file: defaults"
    write(tmp_path, LAUNCHED, "topologyManagerScope: pod\n")
    settings, origin = plugin_settings(None, tmp_path)
    assert (settings.topology_manager_scope, origin) == ("pod", f"/{LAUNCHED}")
    assert plugin_settings(Path(f"/{LAUNCHED}"), tmp_path) == (settings, origin)


def test_the_state_file(root: Path) -> None:
    assert state_file_of(None) == Path(STATE_FILE)
    assert state_file_of("/x/state") == Path("/x/state")
    write(root, LAUNCHED, "stateFile: /data/state\n")
    assert state_file_of(None) == Path("/data/state")
    write(root, SERVICE, "logLevel: debug\n")
    assert state_file_of(None) == Path(STATE_FILE)
    write(root, SERVICE, "stateFile: [\n")
    assert state_file_of(None) == Path(STATE_FILE)


@pytest.mark.parametrize("given", [None, ""])
def test_no_state_file_is_an_error(root: Path, given: str | None) -> None:
    write(root, SERVICE, "stateFile: ''\n")
    with pytest.raises(UsageError, match=r"stateFile is empty.*; set it, or name an older file"):
        state_file_of(given)


COMMANDS = {
    "config show": {"--state-file"},
    "doctor": {"--state-file", "--config"},
    "explain": {"--state-file", "--sysfs-root", "--proc-root", "--cgroup-root"},
    "export": {"--state-file", "--config", "--sysfs-root", "--proc-root", "--cgroup-root"},
    "gather": {"--state-file"},
    "inspect": {"--config", "--sysfs-root", "--proc-root"},
    "reserve": {"--config"},
    "reset": {"--state-file", "--cgroup-root"},
    "simulate": {"--state-file", "--config", "--sysfs-root", "--proc-root", "--cgroup-root"},
    "uninstall": {"--state-file", "--cgroup-root"},
    "status": {"--state-file", "--config", "--sysfs-root", "--proc-root", "--cgroup-root"},
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_have_the_same_options(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    shared = argparse.ArgumentParser(formatter_class=argparse.HelpFormatter)
    add_state_file_argument(shared)
    add_config_argument(shared)
    add_root_arguments(shared, "sysfs", "proc", "cgroup")  # export describes the kubelet's itself
    texts = {line.split()[0]: line.split(maxsplit=2) for line in _options(shared.format_help())}
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    shown = {line.split()[0]: line.split(maxsplit=2) for line in _options(capsys.readouterr().out)}
    assert {name: text for name, text in shown.items() if name in texts} == {
        name: texts[name] for name in COMMANDS[command]
    }


@pytest.mark.parametrize("command", ["doctor", "explain", "gather", "simulate", "status"])
def test_commands_that_read_a_mounted_host(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit):
        main([command, "--help"])
    (line,) = [x for x in _options(capsys.readouterr().out) if x.split()[0] == "--root"]
    assert "where the host's file system is mounted, such as /host (default: /)" in line


def _options(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("  --")]


def test_the_plugin_has_the_same_roots() -> None:
    args = new_parser(["run"]).parse(["run", "--cgroup-root", "/c"])
    assert roots_of(args) == HostRoots(cgroup=Path("/c"))


def test_the_configuration_of_a_launched_plugin_is_checked(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(root, LAUNCHED, "logLevel: debug\n")
    assert main(["config", "show"]) == 0
    assert f"Settings of {root / LAUNCHED}"[:60] in capsys.readouterr().out
    write(root, LAUNCHED, "logLevel: loud\n")
    assert main(["config", "check"]) == 2
    assert f"{root / LAUNCHED}:1: logLevel: " in capsys.readouterr().err


def test_commands_find_the_configured_state_file(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(root, SERVICE, f"stateFile: {root}/data/state\n")
    for command in ("explain web-0", "reset --dry-run", "config show --running"):
        main(command.split())
        shown = capsys.readouterr()
        assert f"{root}/data" in shown.out + shown.err, command
