"""What is found on a host before an installation."""

import argparse
import fcntl
import sys
from pathlib import Path

import pytest

from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation.facts import (
    COPY,
    Program,
    add_installation_arguments,
    chosen_runtime,
    find_program,
    is_elf,
    is_own_name,
    is_program,
    read_facts,
    running_instance,
    running_program,
)
from nri_numamem.config.errors import UsageError
from nri_numamem.observe.files import lock_file_of
from tests.cli.doctor.host_files import CONFIG, CONTAINERD, PLUGINS, SERVICE, STATE, HostFiles

ELF = "\x7fELF"


@pytest.fixture
def host(host_files: HostFiles) -> Host:
    return Host(host_files.root)


def write_program(files: HostFiles, name: str, text: str) -> None:
    files.write(name, text)
    files.path(name).chmod(0o755)


def test_a_launched_plugin(host_files: HostFiles, host: Host) -> None:
    found = read_facts(host, chosen_runtime(None, host))
    assert found.entries == {"/opt/nri/plugins/10-nri-numamem": "/opt/nri-numamem/bin/nri-numamem"}
    assert list(found.configs) == [f"/{CONFIG}"]
    assert (found.other_programs, found.bad_names, found.unit, found.drop_ins) == ((), (), None, {})
    assert (found.is_enabled, found.has_copy, found.is_listening) == (False, False, True)
    assert not found.has_claim_hook


def test_a_service(host_files: HostFiles, host: Host) -> None:
    host_files.link(SERVICE, "/x")
    host_files.write("etc/systemd/system/nri-numamem.service", "[Unit]\n")
    host_files.write("lib/systemd/system/nri-numamem.service", "[Unit]\n")
    host_files.write("etc/nri-numamem/config.yaml", "")
    host_files.write("etc/nri/conf.d/nri-numamem.conf", "")
    host_files.write("etc/nri/conf.d/other-nri-numamem.conf", "")
    host_files.write("opt/nri-numamem/bin/nri-numamem", ELF)
    host_files.write("usr/libexec/nri-numamem/claim-hook", ELF)
    found = read_facts(host, chosen_runtime(None, host))
    assert found.has_claim_hook
    assert not found.is_exporter_enabled
    host_files.link("etc/systemd/system/multi-user.target.wants/nri-numamem-export.service", "/x")
    found = read_facts(host, chosen_runtime(None, host))
    assert found.is_exporter_enabled
    assert (found.is_enabled, found.unit, found.has_copy) == (True, "[Unit]\n", True)
    assert found.packaged_unit == "/lib/systemd/system/nri-numamem.service"
    service = "/etc/nri-numamem/config.yaml"
    assert list(found.configs) == [service, f"/{CONFIG}", "/etc/nri/conf.d/nri-numamem.conf"]


def test_copies_and_other_programs(host_files: HostFiles, host: Host) -> None:
    write_program(host_files, f"{PLUGINS}/20-nri-numamem", ELF)
    write_program(host_files, f"{PLUGINS}/30-nri-numamem", "#!/bin/sh\n")
    host_files.link(f"{PLUGINS}/40-nri-numamem", "/usr/bin/other")
    write_program(host_files, f"{PLUGINS}/nri-numamem-0.1.0", ELF)
    write_program(host_files, "tmp/download", ELF)
    program = Program("/tmp/download", host.path("/tmp/download"), is_single_file=True)
    found = read_facts(host, chosen_runtime(None, host), program)
    assert list(found.entries) == [f"/{PLUGINS}/{idx}-nri-numamem" for idx in (10, 20)]
    assert found.other_programs == tuple(f"/{PLUGINS}/{idx}-nri-numamem" for idx in (30, 40))
    assert found.bad_names == (f"/{PLUGINS}/nri-numamem-0.1.0",)
    assert found.identical == {f"/{PLUGINS}/20-nri-numamem"}
    host_files.write(COPY.lstrip("/"), ELF)
    assert COPY in read_facts(host, chosen_runtime(None, host), program).identical


@pytest.mark.parametrize("name", ["10-nri-numamem", "99-nri-numamem"])
def test_names_of_the_plugin(name: str) -> None:
    assert is_own_name(name)
    assert not is_own_name(f"{name}-test")
    assert not is_own_name(name[1:])


def test_the_runtime(host_files: HostFiles, host: Host) -> None:
    assert chosen_runtime("crio", host).file == "/etc/crio/crio.conf"
    host_files.write("etc/crio/crio.conf", '[crio.nri]\nnri_plugin_dir = "/p"\n')
    with pytest.raises(UsageError, match=r"^/etc/containerd/config.toml and /etc/crio/crio.conf "):
        chosen_runtime(None, host)
    assert chosen_runtime("crio", host).plugin_path == "/p"
    assert chosen_runtime("containerd", host).name == "containerd"
    host_files.write(CONTAINERD, "[")
    with pytest.raises(UsageError, match=r"^/etc/containerd/config.toml: .*; correct the file"):
        chosen_runtime("crio", host)


def test_without_configuration_it_is_containerd(tmp_path: Path) -> None:
    assert chosen_runtime(None, Host(tmp_path)).plugin_path == "/opt/nri/plugins"


def test_the_running_instance(host_files: HostFiles, host: Host) -> None:
    assert running_instance(host) is None
    with host_files.path(str(lock_file_of(Path(STATE)))).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert running_instance(host) == "pid 7, since today, launched"
    host_files.write(CONFIG, "stateFile: ''\n")
    assert running_instance(host) is None


def test_a_file_that_cannot_be_read(host_files: HostFiles, host: Host) -> None:
    host_files.path("etc/nri/conf.d/20-nri-numamem.conf").mkdir()
    with pytest.raises(UsageError, match=r"20-nri-numamem.conf: Is a directory; run as root$"):
        read_facts(host, chosen_runtime(None, host))


def test_options_and_defaults() -> None:
    parser = argparse.ArgumentParser()
    add_installation_arguments(parser)
    assert vars(parser.parse_args([])) == {"runtime": None, "root": Path("/"), "dry_run": False}
    args = parser.parse_args(["--runtime", "crio", "--root", "/image", "--dry-run"])
    assert vars(args) == {"runtime": "crio", "root": Path("/image"), "dry_run": True}


SCRIPT = b"#!/usr/bin/python3\nfrom nri_numamem.cli.main import main\n"
ELF_FILE = b"\x7fELF rest"


def write(path: Path, data: bytes = SCRIPT, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)
    return path


def test_a_named_program_is_on_the_host(tmp_path: Path) -> None:
    file = write(tmp_path / "usr/bin/nri-numamem", ELF_FILE)
    found = find_program("/usr/bin/nri-numamem", Host(tmp_path))
    assert found == Program("/usr/bin/nri-numamem", file, is_single_file=True)
    assert found.is_permanent


@pytest.mark.parametrize(
    ("path", "is_single", "expected"),
    [
        ("/usr/bin/p", True, True),
        ("/opt/p", True, True),
        ("/root/p", True, False),
        ("/root/venv/bin/p", False, True),
        ("", True, False),
    ],
)
def test_only_a_single_file_outside_of_usr_and_opt_is_copied(
    path: str, *, is_single: bool, expected: bool
) -> None:
    assert Program(path, Path(), is_single).is_permanent is expected


def test_a_named_program_must_exist_and_be_executable(tmp_path: Path) -> None:
    write(tmp_path / "text", mode=0o644)
    for name, problem in {"/none": "no such program", "/text": "not executable"}.items():
        with pytest.raises(UsageError, match=f"{name}: {problem}; .*--program"):
            find_program(name, Host(tmp_path))


def test_the_running_entry_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link in the plugin directory, through which it was started, must not refer to itself."""
    script = write(tmp_path / "venv/bin/nri-numamem")
    link = tmp_path / "10-nri-numamem"
    link.symlink_to(script)
    monkeypatch.setattr(sys, "argv", [str(link)])
    assert find_program(None, Host()) == Program(str(script), script, is_single_file=False)


def test_a_module_is_started_by_the_entry_script_beside_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "nri_numamem/__main__.py")])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    with pytest.raises(UsageError, match=r"bin/nri-numamem: no such program; .*--program$"):
        running_program()
    script = write(tmp_path / "bin/nri-numamem")
    assert running_program() == script


def test_the_running_single_file_is_copied_to_another_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "download", ELF_FILE)
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", str(file))
    root = tmp_path / "image"
    root.mkdir()
    assert find_program(None, Host(root)) == Program("", file, is_single_file=True)
    assert find_program(None, Host()) == Program(str(file), file, is_single_file=True)


def test_an_entry_script_must_be_in_the_other_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(write(tmp_path / "bin/nri-numamem"))])
    with pytest.raises(UsageError, match="no such program"):
        find_program(None, Host(tmp_path / "image"))


def test_kinds_of_files(tmp_path: Path) -> None:
    elf, script = write(tmp_path / "elf", ELF_FILE), write(tmp_path / "script")
    other = write(tmp_path / "other", b"#!/bin/sh\n")
    assert [is_elf(path) for path in (elf, script, other)] == [True, False, False]
    assert [is_program(path) for path in (elf, script, other)] == [True, True, False]
    assert not is_program(tmp_path)
    assert not is_program(tmp_path / "none")
