from pathlib import Path

import pytest

from nri_numamem.host.topology import read_machine
from tests.bench.go_runtime import GoRuntime
from tests.bench.host import GI, MI, Host, Programs, machine_of

PROGRAMS = Programs(Path("/venv/nri-numamem"), Path("/go"))


@pytest.mark.parametrize("nodes", [2, 8, 64])
def test_the_files_show_the_machine(tmp_path: Path, nodes: int) -> None:
    host = Host(tmp_path / "host", nodes, PROGRAMS)
    found = read_machine(host.root / "sys", host.root / "proc")
    assert found == machine_of(nodes)
    assert sum(node.memory_bytes for node in found.nodes) == 1024 * GI


def test_each_plugin_has_its_command(tmp_path: Path) -> None:
    with Host(tmp_path / "host", 2, PROGRAMS) as host:
        socket = str(host.socket)
        constant = host.command("constant", (), state_file=True)
        assert constant == ["/go/constant", "-socket", socket]
        placing = host.command("placing", (), state_file=True)
        assert placing == [
            "/go/placing",
            "-socket",
            socket,
            "-machine",
            f"{host.root}/machine.json",
        ]
        ours = host.command("ours", ("--log-level", "debug"), state_file=False)
        assert ours[:2] == ["/venv/nri-numamem", "run"]
        assert f"{host.root}/sys" in ours
        assert ours[-4:] == ["--state-file", "", "--log-level", "debug"]


def test_the_files_can_be_mounted_as_sys(tmp_path: Path) -> None:
    with Host(tmp_path / "host", 2, PROGRAMS) as host:
        ours = host.command("ours", (), state_file=True, own_sys=True)
        assert ours[:2] == ["unshare", "--mount"]
        assert ours[ours.index("/venv/nri-numamem") - 1] == f"{host.root}/sys"
        assert ours[ours.index("--sysfs-root") + 1] == "/sys"


def test_memory_of_the_go_plugin_excludes_hugepages(tmp_path: Path) -> None:
    host = Host(tmp_path / "host", 2, PROGRAMS)
    pages = 512 * 2 * MI
    text = (host.root / "machine.json").read_text()
    assert f'"0": {{"memory": {512 * GI - pages}, "hugepages-2Mi": {pages}}}' in text


def test_the_error_quotes_a_plugin_that_does_not_register(tmp_path: Path) -> None:
    program = tmp_path / "plugin"
    program.write_text("#!/bin/sh\necho it is broken >&2\n")
    program.chmod(0o755)
    runtime = tmp_path / "runtime"
    runtime.write_text('#!/bin/sh\nread line\necho \'{"error":"no plugin registered"}\'\n')
    runtime.chmod(0o755)
    programs = Programs(program, tmp_path)
    with Host(tmp_path / "host", 2, programs) as host, GoRuntime(tmp_path, host.socket) as side:
        host.start("ours")
        assert host.process is not None
        host.process.wait()
        with pytest.raises(
            RuntimeError, match="no plugin registered; the plugin wrote:\nit is broken"
        ):
            host.wait_for(side)
