"""The hook program of resource claims: the built program, alone and as a hook of runc."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import claim_hook
import pytest
from single_file.commands import BuildError

from nri_numamem.version import VERSION
from tests.packaging.pod import RUNC
from tests.packaging.single_file_program import needs_root, run_with_mounts

CLAIM = "telco/upf-numa"
UNCOMPARED = f"numamem: the NUMA nodes of claim {CLAIM} cannot be compared with cpuset.mems: "
NOT_STARTED = "; the container was not started; run nri-numamem doctor\n"
NOT_ADJUSTED = ": the plugin nri-numamem did not adjust the container; check that it runs "
NOT_ADJUSTED += "(nri-numamem doctor)\n"

Json = dict[str, Any]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return claim_hook.build(tmp_path_factory.mktemp("claim-hook"))


def args(nodes: str, request: str = "mem", claim: str = CLAIM) -> list[str]:
    return ["claim-hook", "uid-1", request, nodes, f"memory@{nodes}=1073741824", claim]


def mems_allowed() -> str:
    status = Path("/proc/self/status").read_text()
    (found,) = re.findall(r"^Mems_allowed_list:\t(.+)$", status, re.MULTILINE)
    return str(found)


# The nodes of this machine that a process may use, and one more.
HERE = mems_allowed()
ELSEWHERE = str(int(re.split("[,-]", HERE)[-1]) + 2)


class Container:
    """A bundle whose hooks run the program, and the process of a container, which is this one."""

    def __init__(self, program: Path, bundle: Path) -> None:
        self.program = program
        self.bundle = bundle
        self.state: Json = {"ociVersion": "1.0.2", "id": "c", "status": "creating"}
        self.state |= {"pid": os.getpid(), "bundle": str(bundle)}

    def hook(self, words: Sequence[str], path: str | Path | None = None) -> Json:
        return {"path": str(path or self.program), "args": list(words), "timeout": 5}

    def configure(self, *hooks: Json, **document: object) -> None:
        config = {"ociVersion": "1.0.2", "hooks": {"createRuntime": list(hooks)}, **document}
        (self.bundle / "config.json").write_text(json.dumps(config))

    def run(
        self, words: Sequence[str], state: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the hook with these arguments, the name of the program included."""
        return subprocess.run(
            list(words),
            executable=self.program,
            input=json.dumps(self.state) if state is None else state,
            capture_output=True,
            text=True,
            env={},
            check=False,
        )

    def failure(self, words: Sequence[str], state: str | None = None) -> str:
        """Return the problem that a hook reports that cannot compare."""
        done = self.run(words, state)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(UNCOMPARED)
        assert done.stderr.endswith(NOT_STARTED)
        return done.stderr.removeprefix(UNCOMPARED).removesuffix(NOT_STARTED)


@pytest.fixture
def container(program: Path, tmp_path: Path) -> Container:
    return Container(program, tmp_path)


def test_a_container_on_the_nodes_of_its_claim_starts(container: Container) -> None:
    container.configure(container.hook(args(HERE)))
    done = container.run(args(HERE))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_container_on_other_nodes_does_not_start(container: Container) -> None:
    container.configure(container.hook(args(ELSEWHERE)))
    done = container.run(args(ELSEWHERE))
    assert (done.returncode, done.stdout) == (1, "")
    cause = f"numamem: cpuset.mems is {HERE}, but claim {CLAIM} has NUMA node {ELSEWHERE}"
    assert done.stderr == cause + NOT_ADJUSTED


def test_the_requests_of_a_claim_are_united(container: Container) -> None:
    both = args(HERE), args(ELSEWHERE, "pages")
    container.configure(*map(container.hook, both))
    for words in both:
        done = container.run(words)
        assert done.returncode == 1
        assert f" claim {CLAIM} has NUMA nodes {HERE},{ELSEWHERE}: the plugin" in done.stderr
    container.configure(container.hook(args(HERE)), container.hook(args(HERE, "pages")))
    assert container.run(args(HERE)).returncode == 0


def test_several_claims_are_united(container: Container) -> None:
    other = args(ELSEWHERE, claim="telco/other")
    container.configure(container.hook(args(HERE)), container.hook(other))
    done = container.run(args(HERE))
    text = f"but claims {CLAIM}, telco/other have NUMA nodes {HERE},{ELSEWHERE}: the plugin"
    assert text in done.stderr


def test_only_hooks_of_this_program_count(container: Container) -> None:
    """Other programs are of other claims; environment and annotations are the pod's own text."""
    container.configure(
        container.hook(["nvidia-hook", "prestart"], "/usr/bin/nvidia-hook"),
        container.hook(args(HERE)),
        container.hook(args(ELSEWHERE, "pages"), "/usr/bin/other"),
        process={"env": [f"HOOK={args(ELSEWHERE)}"], "args": args(ELSEWHERE)},
        annotations={"hooks": json.dumps({"createRuntime": [container.hook(args(ELSEWHERE))]})},
    )
    assert container.run(args(HERE)).returncode == 0


def test_hooks_of_other_stages_do_not_count(container: Container) -> None:
    container.configure(
        hooks={
            "createRuntime": [container.hook(args(HERE))],
            "prestart": [container.hook(args(ELSEWHERE, "pages"))],
        }
    )
    assert container.run(args(HERE)).returncode == 0


def test_the_path_is_that_of_the_hook_and_may_be_a_link(container: Container) -> None:
    link = container.bundle / "link"
    link.symlink_to(container.program)
    container.configure(
        container.hook(args(HERE), link), container.hook(args(ELSEWHERE, "pages"), link)
    )
    assert f"has NUMA nodes {HERE},{ELSEWHERE}: " in container.run(args(HERE)).stderr


def test_a_hook_that_the_bundle_does_not_have(container: Container) -> None:
    file = container.bundle / "config.json"
    text = f"{file}: no createRuntime hook has the arguments of this process"
    container.configure(container.hook(args(HERE, "pages")))
    assert container.failure(args(HERE)) == text
    for config in ("{}", "null", '{"hooks": null}', '{"hooks": {"createRuntime": []}}'):
        file.write_text(config)
        assert container.failure(args(HERE)) == text


def test_another_hook_of_this_program_with_wrong_arguments(container: Container) -> None:
    container.configure(container.hook(args(HERE)), container.hook(["claim-hook", "--help"]))
    problem = container.failure(args(HERE))
    assert 'the hook\'s arguments are ["claim-hook" "--help"], not claim-hook UID' in problem


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (None, "no such file or directory"),
        ("", "unexpected end of JSON input"),
        ('{"hooks": {"createRuntime": {}}}', "cannot unmarshal object"),
        ('{"hooks": {}} {}', "invalid character '{' after top-level value"),
        (f'{{"a": "{"a" * (16 << 20)}"}}', "more than 16 MiB"),
    ],
)
def test_a_configuration_that_cannot_be_read(
    container: Container, config: str | None, problem: str
) -> None:
    file = container.bundle / "config.json"
    if config is not None:
        file.write_text(config)
    found = container.failure(args(HERE))
    assert str(file) in found
    assert problem in found


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ("", "standard input has no state of a container: unexpected end of JSON input"),
        ("[]", "cannot unmarshal array"),
        ("{}", "the container's state has the pid 0"),
        ('{"pid": 0, "bundle": "/"}', "the container's state has the pid 0"),
        ('{"pid": -1, "bundle": "/"}', "the container's state has the pid -1"),
        ('{"pid": "1", "bundle": "/"}', "cannot unmarshal string"),
        ('{"pid": 1}', 'the container\'s state has the bundle ""'),
        ('{"pid": 1, "bundle": "a"}', 'the container\'s state has the bundle "a"'),
        (f'{{"pid": 1, "a": "{"a" * (16 << 20)}"}}', "more than 16 MiB"),
    ],
)
def test_a_state_that_cannot_be_used(container: Container, state: str, problem: str) -> None:
    container.configure(container.hook(args(HERE)))
    assert problem in container.failure(args(HERE), state)


def test_standard_input_without_end_is_not_read_for_ever(container: Container) -> None:
    container.configure(container.hook(args(HERE)))
    with Path("/dev/zero").open("rb") as endless:
        done = subprocess.run(
            args(HERE),
            executable=container.program,
            stdin=endless,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "standard input has no state of a container: more than 16 MiB" in done.stderr


def test_a_process_that_has_ended(container: Container) -> None:
    container.configure(container.hook(args(HERE)))
    ended = subprocess.Popen(["true"])
    ended.wait()
    container.state["pid"] = ended.pid
    assert f"/proc/{ended.pid}/status: no such file" in container.failure(args(HERE))


@pytest.mark.parametrize(
    "nodes", ["", "a", "0-", "-1", "1-0", "0,,1", "0-1-2", "+1", " 0", "0\n", "1024", "9" * 30]
)
def test_nodes_that_are_no_list(container: Container, nodes: str) -> None:
    container.configure(container.hook(args(nodes)))
    assert container.failure(args(nodes)).endswith(" is no list of NUMA nodes")


@pytest.mark.parametrize(
    "words",
    [
        args(HERE)[:-1],
        [*args(HERE), "more"],
        ["other", *args(HERE)[1:]],
        args(HERE, claim=""),
        ["claim-hook", "--version", "more"],
    ],
)
def test_wrong_arguments(container: Container, words: list[str]) -> None:
    container.configure(container.hook(words))
    done = container.run(words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "the hook's arguments are [" in done.stderr


def test_an_error_is_one_line(container: Container) -> None:
    words = args(HERE, claim="a\nb\x1b[0m")
    done = container.run(words, "")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "a?b?[0m" in done.stderr


def test_help_and_version(container: Container) -> None:
    for option in ("--help", "--version"):
        done = container.run(["claim-hook", option])
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"claim-hook {VERSION}, a part of nri-numamem\n")
        assert "Mems_allowed_list" in done.stdout
    for words in (["claim-hook"], [""]):
        without = container.run(words)
        assert (without.returncode, without.stdout, without.stderr) == (1, "", done.stdout)


# A process has other nodes in the file of a mount. Arguments: program, status, state, pid.
_WITH_STATUS = """
mount --bind "$2" "/proc/$4/status"
exec "$1" uid-1 mem "$5" a=1 telco/upf-numa <"$3"
"""


@needs_root
@pytest.mark.parametrize(
    ("allowed", "nodes", "shown"),
    [
        ("0", "0", None),
        ("0-3", "0-3", None),
        ("0-3", "3,1-2,0", None),
        ("0,2-3,1023", "0,2-3,1023", None),
        ("0-3", "1", "cpuset.mems is 0-3, but claim telco/upf-numa has NUMA node 1:"),
        ("1", "0-3", "cpuset.mems is 1, but claim telco/upf-numa has NUMA nodes 0-3:"),
        ("0,2", "4,0-1", "cpuset.mems is 0,2, but claim telco/upf-numa has NUMA nodes 0-1,4:"),
        ("", "0", 'status: Mems_allowed_list: "" is no list of NUMA nodes'),
        (None, "0", "status: no Mems_allowed_list"),
    ],
)
def test_sets_of_nodes(
    container: Container, allowed: str | None, nodes: str, shown: str | None
) -> None:
    line = "" if allowed is None else f"Mems_allowed_list:\t{allowed}\n"
    status = container.bundle / "status"
    status.write_text(f"Name:\tnginx\nMems_allowed:\t1\n{line}voluntary_ctxt_switches:\t1\n")
    words = ["claim-hook", "uid-1", "mem", nodes, "a=1", CLAIM]
    container.configure(container.hook(words))
    state = container.bundle / "state"
    state.write_text(json.dumps(container.state))
    launcher = container.bundle / "launcher"
    launcher.write_text(
        f"#!{sys.executable}\nimport os, sys\n"
        f"os.execv({str(container.program)!r}, ['claim-hook', *sys.argv[1:]])\n"
    )
    launcher.chmod(0o755)
    done = run_with_mounts(_WITH_STATUS, launcher, status, state, str(os.getpid()), nodes)
    assert done.returncode == (0 if shown is None else 1)
    assert (shown or "") in done.stderr


_WITH_LOG = """
mount -t tmpfs none /dev
touch /dev/log
mount --bind "$2" /dev/log
exec "$1" --wrong argument
"""


@needs_root
def test_the_system_log_gets_the_line_too(program: Path, tmp_path: Path) -> None:
    """The runtime crun shows no output of hooks."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.settimeout(60)
        log.bind(str(tmp_path / "log"))
        done = run_with_mounts(_WITH_LOG, program, tmp_path / "log")
        line = log.recv(4096).decode()
    assert done.returncode == 1
    assert re.fullmatch(r"<27>claim-hook\[\d+\]: numamem: the NUMA nodes of claim .+", line)
    assert line.endswith(done.stderr.rstrip("\n").partition("numamem: ")[2])


@needs_root
@pytest.mark.skipif(RUNC is None, reason="runc is missing")
def test_runc_starts_only_a_container_on_the_nodes_of_its_claims(container: Container) -> None:
    """Both use the cgroup of this process, so that the test needs no writable cpuset."""
    rootfs = container.bundle / "rootfs"
    (rootfs / "proc").mkdir(parents=True)
    (rootfs / "program").write_bytes(container.program.read_bytes())
    (rootfs / "program").chmod(0o755)

    def run(*claims: list[str]) -> subprocess.CompletedProcess[str]:
        container.configure(
            *map(container.hook, claims),
            process={"args": ["/program", "--version"], "cwd": "/", "user": {"uid": 0, "gid": 0}},
            root={"path": "rootfs"},
            mounts=[{"destination": "/proc", "type": "proc", "source": "proc"}],
            linux={"namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts")]},
        )
        command = [RUNC, "--root", container.bundle / "state", "run", "--bundle"]
        return subprocess.run(
            [*map(str, command), str(container.bundle), f"numamem-hook-{os.getpid()}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    done = run(args(HERE), args(HERE, "pages"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"claim-hook {VERSION}")
    done = run(args(HERE), args(ELSEWHERE, "pages"))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"but claim {CLAIM} has NUMA nodes {HERE},{ELSEWHERE}: the plugin" in done.stderr


def test_the_same_sources_and_go_give_the_same_bytes(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with another cache and with settings of a user."""
    monkeypatch.setenv("GOCACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GOFLAGS", "-tags=other")
    monkeypatch.setenv("CGO_ENABLED", "1")
    folder = tmp_path / "again"
    folder.mkdir()
    assert claim_hook.build(folder).read_bytes() == program.read_bytes()
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?", claim_hook.go_version(program))


def test_the_program_needs_no_library(program: Path) -> None:
    content = program.read_bytes()
    assert content.startswith(b"\x7fELF")
    assert b"/ld-linux" not in content


def test_the_other_architecture(tmp_path: Path) -> None:
    machines = {"x86_64": 62, "aarch64": 183}  # EM_X86_64, EM_AARCH64
    for machine, number in machines.items():
        folder = tmp_path / machine
        folder.mkdir()
        header = claim_hook.build(folder, machine).read_bytes()[:20]
        assert int.from_bytes(header[18:20], "little") == number


def test_a_machine_without_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GO", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(claim_hook, "_FETCHED", tmp_path / "go")
    monkeypatch.setattr(claim_hook, "_INSTALLED", tmp_path / "go")
    with pytest.raises(BuildError, match="Go is not installed; run: tests/conformance/install-to"):
        claim_hook.build(tmp_path)


def test_go_finds_nothing_to_criticize() -> None:
    go = claim_hook.go_program()
    root = subprocess.run([go, "env", "GOROOT"], capture_output=True, text=True, check=True)
    gofmt = Path(root.stdout.strip()) / "bin/gofmt"
    for command in ((go, "vet", "."), (gofmt, "-l", ".")):
        done = subprocess.run(command, cwd=claim_hook.HERE, capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
