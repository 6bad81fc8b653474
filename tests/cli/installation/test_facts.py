"""What is found on a host before an installation."""

import fcntl
from pathlib import Path

import pytest

from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation.facts import (
    chosen_runtime,
    is_own_name,
    read_facts,
    running_instance,
)
from nri_numamem.cli.installation.program import COPY, Program
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
    (entry,) = found.entries
    assert entry.path == "/opt/nri/plugins/10-nri-numamem"
    assert entry.target == "/opt/nri-numamem/bin/nri-numamem"
    assert list(found.configs) == [f"/{CONFIG}"]
    assert (found.other_programs, found.bad_names, found.unit, found.drop_ins) == ((), (), None, {})
    assert (found.is_enabled, found.has_copy, found.is_listening) == (False, False, True)


def test_a_service(host_files: HostFiles, host: Host) -> None:
    host_files.link(SERVICE, "/x")
    host_files.write("etc/systemd/system/nri-numamem.service", "[Unit]\n")
    host_files.write("lib/systemd/system/nri-numamem.service", "[Unit]\n")
    host_files.write("etc/nri-numamem/config.yaml", "")
    host_files.write("etc/nri/conf.d/nri-numamem.conf", "")
    host_files.write("etc/nri/conf.d/other-nri-numamem.conf", "")
    host_files.write("opt/nri-numamem/bin/nri-numamem", ELF)
    found = read_facts(host, chosen_runtime(None, host))
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
    assert [entry.idx for entry in found.entries] == ["10", "20"]
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
