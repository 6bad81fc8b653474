"""How NRI is enabled beside the runtime's own configuration."""

import tomllib
from pathlib import Path

import pytest

from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation.nri import MARK, drop_in, drop_ins, instructions
from nri_numamem.cli.runtimes import runtimes
from nri_numamem.config.errors import UsageError

TABLE = '[plugins."io.containerd.nri.v1.nri"]\n'


def containerd(root: Path, text: str) -> Host:
    path = root / "etc/containerd/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return Host(root)


def test_the_drop_in_repeats_version_and_table(tmp_path: Path) -> None:
    """Containerd 1.7 replaces the table, newer ones compare versions."""
    text = (
        'version = 2\nimports = ["/etc/x.toml", "conf.d/*.toml"]\n'
        f'{TABLE}disable = true\nplugin_path = "/p"\nnumbers = [1, 2.5]\n'
        '[plugins."io.containerd.nri.v1.nri".default_validator]\nenable = true\n'
    )
    host = containerd(tmp_path, text)
    (runtime,) = runtimes(host)
    written = drop_in(host, runtime)
    assert written.path == "/etc/containerd/conf.d/99-nri-numamem.toml"
    document = tomllib.loads(written.text)
    expected = tomllib.loads(text.replace("disable = true", "disable = false"))
    del expected["imports"]
    assert document == expected


def test_a_drop_in_is_found_and_switches_nri_on(tmp_path: Path) -> None:
    host = containerd(tmp_path, 'imports = ["/etc/containerd/conf.d/*"]\n')
    (runtime,) = runtimes(host)
    written = drop_in(host, runtime)
    path = host.path(written.path)
    path.parent.mkdir()
    path.write_text("# another's\n")
    assert drop_ins(host) == []
    path.write_text(written.text)
    assert drop_ins(host) == [written.path]
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
    written = drop_in(host, runtime)
    assert written.path == "/etc/crio/crio.conf.d/99-nri-numamem.conf"
    assert written.text == f"{MARK}[crio.nri]\nenable_nri = true\n"
    assert list(instructions(runtime)) == [
        "NRI is off by default before CRI-O 1.30. To enable it, run this again with",
        "--enable-nri, or add this in /etc/crio/crio.conf:",
        "  [crio.nri]",
        "  enable_nri = true",
    ]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (f"{TABLE}disable = true\n", "/etc/containerd/config.toml disables NRI. "),
        ("", "NRI is off by default before containerd 2.0. "),
    ],
)
def test_instructions_for_containerd(tmp_path: Path, text: str, first: str) -> None:
    (runtime,) = runtimes(containerd(tmp_path, text))
    lines = list(instructions(runtime))
    assert lines[0].startswith(first)
    assert lines[-2:] == ['  [plugins."io.containerd.nri.v1.nri"]', "    disable = false"]


def test_a_table_that_is_there_is_not_added_again(tmp_path: Path) -> None:
    (runtime,) = runtimes(containerd(tmp_path, f'{TABLE}plugin_path = "/p"\n'))
    assert "--enable-nri, or set this in /etc/containerd/config.toml:" in instructions(runtime)
