"""The cache of the Go programs, with a script that stands for Go."""

import shutil
from pathlib import Path

import pytest

from tests.cluster.kubernetes.programs import (
    API_SERVER,
    CONTAINERD,
    CONTAINERD_SHIM,
    CRIO,
    KUBELET,
    PROGRAMS,
    RUNC,
    TOPOLOGY_UPDATER,
    Program,
    built,
    main,
    version_of,
)

_GO = """#!/bin/sh
if [ "$1" = version ]; then echo "go version $GO_VERSION"; exit; fi
echo "$CGO_ENABLED $@" >>"$GO_LOG"
while [ "$1" != -o ]; do shift; done
echo program >"$2"
"""


@pytest.fixture
def kubelet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Return a program with a copy of its module; it is built by the script in an empty cache."""
    go = tmp_path / "go"
    go.write_text(_GO)
    go.chmod(0o755)
    monkeypatch.setenv("GO", str(go))
    monkeypatch.setenv("GO_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("GO_VERSION", "go1.26.8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(KUBELET.module, tmp_path / "server")
    return Program(KUBELET.name, tmp_path / "server", KUBELET.package)


def builds(tmp_path: Path) -> list[str]:
    log = tmp_path / "log"
    return log.read_text().splitlines() if log.exists() else []


def test_equal_inputs_build_once(kubelet: Program, tmp_path: Path) -> None:
    file = built(kubelet)
    assert file.read_text() == "program\n"
    assert built(kubelet) == file
    (command,) = builds(tmp_path)
    assert command.startswith("0 build -mod=readonly -buildvcs=false -trimpath ")
    assert "version.gitVersion=v1.37.1 " in command
    assert command.endswith("k8s.io/kubernetes/cmd/kubelet")


def test_crio_is_built_with_its_tags(kubelet: Program, tmp_path: Path) -> None:
    built(CRIO)
    (command,) = builds(tmp_path)
    assert command.startswith("1 build -mod=readonly ")
    assert f" -tags={CRIO.tags} " in command
    assert version_of(CRIO) == "v1.34.0"


def test_containerd_is_built_with_its_version(kubelet: Program, tmp_path: Path) -> None:
    for program in (CONTAINERD, CONTAINERD_SHIM):
        built(program)
    commands = builds(tmp_path)
    assert len(commands) == 2
    for command in commands:
        assert command.startswith("0 build -mod=readonly ")
        assert f" -X {CONTAINERD.source}/version.Version={version_of(CONTAINERD)} " in command
        assert f" -tags={CONTAINERD.tags} " in command


def test_runc_is_built_with_seccomp(kubelet: Program, tmp_path: Path) -> None:
    built(RUNC)
    (command,) = builds(tmp_path)
    assert command.startswith("1 build -mod=readonly ")
    assert " -tags=seccomp " in command


def test_the_topology_updater_is_built_with_another_root(kubelet: Program, tmp_path: Path) -> None:
    built(TOPOLOGY_UPDATER)
    (command,) = builds(tmp_path)
    assert f" -X {TOPOLOGY_UPDATER.source}/pkg/utils/hostpath.pathPrefix=host- " in command
    assert version_of(TOPOLOGY_UPDATER) == "v0.17.3"


def test_other_inputs_build_again_and_remove_the_old_program(
    kubelet: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [built(kubelet)]
    (kubelet.module / "go.sum").write_text("other\n")
    files.append(built(kubelet))
    monkeypatch.setenv("GO_VERSION", "go1.26.9")
    files.append(built(kubelet))
    assert len(set(files)) == len(builds(tmp_path)) == 3
    assert [file.exists() for file in files] == [False, False, True]


def test_a_build_keeps_other_programs(kubelet: Program) -> None:
    others = [built(program) for program in PROGRAMS.values()]
    (kubelet.module / "go.sum").write_text("other\n")
    built(kubelet)
    assert [file.exists() for file in others] == [False, *[True] * (len(others) - 1)]


def test_a_failed_build_leaves_no_program(kubelet: Program, tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\n[ $1 = version ] || { echo no module >&2; exit 1; }\n")
    with pytest.raises(RuntimeError, match="kubelet does not build:\nno module"):
        built(kubelet)
    go.write_text(_GO)
    assert built(kubelet).exists()


def test_the_command_builds_what_it_is_given(
    kubelet: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([API_SERVER.name]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("kube-apiserver v1.37.1: ")
    assert main([]) == 0
    assert len(builds(tmp_path)) == len(PROGRAMS)
