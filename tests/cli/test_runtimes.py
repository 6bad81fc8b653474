"""What configuration files of the runtimes say about NRI."""

import tomllib
from pathlib import Path

import pytest

from nri_numamem.cli.host_files import Host
from nri_numamem.cli.runtimes import (
    MARK,
    Runtime,
    drop_in,
    drop_ins,
    executables,
    imported_files,
    instructions,
    is_listening,
    is_plugin_name,
    runtimes,
)
from nri_numamem.config.errors import UsageError

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


def containerd(root: Path, text: str) -> Host:
    path = root / "etc/containerd/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return Host(root)


def test_the_drop_in_repeats_version_and_table(tmp_path: Path) -> None:
    """Containerd 1.7 replaces the table, newer ones compare versions."""
    text = (
        'version = 2\nimports = ["/etc/x.toml", "conf.d/*.toml"]\n'
        f'{NRI}disable = true\nplugin_path = "/p"\nnumbers = [1, 2.5]\n'
        '[plugins."io.containerd.nri.v1.nri".default_validator]\nenable = true\n'
    )
    host = containerd(tmp_path, text)
    (runtime,) = runtimes(host)
    path, written = drop_in(host, runtime)
    assert path == "/etc/containerd/conf.d/99-nri-numamem.toml"
    document = tomllib.loads(written)
    expected = tomllib.loads(text.replace("disable = true", "disable = false"))
    del expected["imports"]
    assert document == expected


def test_a_drop_in_is_found_and_switches_nri_on(tmp_path: Path) -> None:
    host = containerd(tmp_path, 'imports = ["/etc/containerd/conf.d/*"]\n')
    (runtime,) = runtimes(host)
    path, text = written = drop_in(host, runtime)
    file = host.path(path)
    file.parent.mkdir()
    file.write_text("# another's\n")
    assert drop_ins(host) == []
    file.write_text(text)
    assert drop_ins(host) == [path]
    (runtime,) = runtimes(host)
    assert runtime.enabled is True
    assert drop_in(host, runtime) == written


@pytest.mark.parametrize("imports", ["", 'imports = ["/etc/one.toml", "/etc/*/x/*.toml"]\n'])
def test_without_a_directory_of_imports_it_is_refused(tmp_path: Path, imports: str) -> None:
    host = containerd(tmp_path, imports)
    (runtime,) = runtimes(host)
    with pytest.raises(UsageError, match=r"^/etc/containerd/config.toml: imports no directory; "):
        drop_in(host, runtime)


def test_crio(tmp_path: Path) -> None:
    (tmp_path / "etc/crio").mkdir(parents=True)
    (tmp_path / "etc/crio/crio.conf").touch()
    host = Host(tmp_path)
    (runtime,) = runtimes(host)
    path, text = drop_in(host, runtime)
    assert path == "/etc/crio/crio.conf.d/99-nri-numamem.conf"
    assert text == f"{MARK}[crio.nri]\nenable_nri = true\n"
    assert list(instructions(runtime)) == [
        "NRI is off by default before CRI-O 1.30. To enable it, run this again with",
        "--enable-nri, or add this in /etc/crio/crio.conf:",
        "  [crio.nri]",
        "  enable_nri = true",
    ]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (f"{NRI}disable = true\n", "/etc/containerd/config.toml disables NRI. "),
        ("", "NRI is off by default before containerd 2.0. "),
    ],
)
def test_instructions_for_containerd(tmp_path: Path, text: str, first: str) -> None:
    (runtime,) = runtimes(containerd(tmp_path, text))
    lines = list(instructions(runtime))
    assert lines[0].startswith(first)
    assert lines[-2:] == ['  [plugins."io.containerd.nri.v1.nri"]', "    disable = false"]


def test_a_table_that_is_there_is_not_added_again(tmp_path: Path) -> None:
    (runtime,) = runtimes(containerd(tmp_path, f'{NRI}plugin_path = "/p"\n'))
    assert "--enable-nri, or set this in /etc/containerd/config.toml:" in instructions(runtime)
