"""What configuration files of the runtimes say about NRI."""

from pathlib import Path

import pytest

from nri_numamem.cli.host_files import Host
from nri_numamem.cli.runtimes import (
    Runtime,
    executables,
    imported_files,
    is_listening,
    is_plugin_name,
    runtimes,
)

NRI = '[plugins."io.containerd.nri.v1.nri"]\n'


def write(root: Path, name: str, text: str = "") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_defaults(tmp_path: Path) -> None:
    assert runtimes(Host(tmp_path)) == ()
    write(tmp_path, "etc/containerd/config.toml")
    (found,) = runtimes(Host(tmp_path))
    assert (found.name, found.enabled, found.hides_hugepages) == ("containerd", None, True)
    assert found.plugin_path == "/opt/nri/plugins"
    assert found.config_path == "/etc/nri/conf.d"
    assert found.socket == "/var/run/nri/nri.sock"


def test_imported_files_of_containerd_change_settings(tmp_path: Path) -> None:
    main = 'imports = ["conf.d/*.toml", "/etc/one.toml", "none/*.toml"]\n'
    write(tmp_path, "etc/containerd/config.toml", f"{main}{NRI}disable = true\n")
    write(tmp_path, "etc/containerd/conf.d/a.toml", f"{NRI}disable = false\n")
    write(tmp_path, "etc/containerd/conf.d/a.toml.bak", "[")
    write(tmp_path, "etc/one.toml", f'{NRI}plugin_path = "/var/nri"\n')
    host = Host(tmp_path)
    (found,) = runtimes(host)
    assert (found.enabled, found.plugin_path) == (True, "/var/nri")
    files = ["/etc/containerd/conf.d/a.toml", "/etc/one.toml"]
    assert list(imported_files(host, host.toml("/etc/containerd/config.toml"))) == files


def test_the_last_file_of_crio_decides(tmp_path: Path) -> None:
    write(tmp_path, "etc/crio/crio.conf", "[crio.nri]\nenable_nri = false\n")
    text = '[crio.nri]\nenable_nri = true\nnri_plugin_dir = "/p"\nnri_plugin_config_dir = "/c"\n'
    write(tmp_path, "etc/crio/crio.conf.d/10-nri.conf", text)
    (found,) = runtimes(Host(tmp_path))
    assert (found.name, found.enabled) == ("CRI-O", True)
    assert (found.file, found.plugin_path, found.config_path) == (
        "/etc/crio/crio.conf.d/10-nri.conf",
        "/p",
        "/c",
    )


@pytest.mark.parametrize(
    ("flags", "socket", "expected"),
    [
        ("00010000", "/run/nri/nri.sock", True),
        ("00000000", "/run/nri/nri.sock", False),
        ("00010000", "/run/other.sock", False),
    ],
)
def test_listening(tmp_path: Path, flags: str, socket: str, *, expected: bool) -> None:
    row = f"0000000000000000: 00000002 00000000 {flags} 0001 01 17 {socket}"
    write(tmp_path, "proc/net/unix", f"Num RefCount\n{row}\n")
    runtime = Runtime("containerd", "x", {}, hides_hugepages=False)
    assert is_listening(Host(tmp_path), runtime) is expected


def test_sockets_that_cannot_be_read(tmp_path: Path) -> None:
    runtime = Runtime("containerd", "x", {}, hides_hugepages=False)
    assert is_listening(Host(tmp_path), runtime) is None
    (tmp_path / "proc/net/unix").mkdir(parents=True)
    assert is_listening(Host(tmp_path), runtime) is None


def test_executables_are_links_and_files_with_an_execute_bit(tmp_path: Path) -> None:
    write(tmp_path, "p/10-a").chmod(0o700)
    write(tmp_path, "p/text")
    (tmp_path / "p/20-link").symlink_to("/none")
    (tmp_path / "p/folder").mkdir()
    assert executables(Host(tmp_path), "/p") == ["10-a", "20-link"]
    assert executables(Host(tmp_path), "/none") == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [("10-a", True), ("1-a", False), ("10-", False), ("\u0661\u0661-a", False)],
)
def test_names_of_plugins(name: str, *, expected: bool) -> None:
    assert is_plugin_name(name) is expected
