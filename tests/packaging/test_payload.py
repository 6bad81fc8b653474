"""What the Debian and the RPM package have in common."""

import itertools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import claim_hook
import payload
import pytest

from tests.packaging import pinned_container

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("word", "status", "expected"),
    [("remove", 0, 0), ("remove", 1, 0), ("remove", 2, 1), ("remove", 127, 0), ("upgrade", 2, 0)],
)
def test_only_a_removal_uninstalls(tmp_path: Path, word: str, status: int, expected: int) -> None:
    """It goes on if steps remain, and fails if nothing was changed."""
    stand_in = tmp_path / "nri-numamem"
    stand_in.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/calls\nexit {status}\n')
    stand_in.chmod(0o755)
    # In another folder, so that the host is not changed.
    script = payload.removal_script("remove")
    script = script.replace("/opt/", f"{tmp_path}/").replace("/etc/", f"{tmp_path}/")
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    command = ["sh", "-c", script, "script", word]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == expected
    assert bool(done.stderr) is (word == "remove" and status > 0)
    calls = tmp_path / "calls"
    assert (calls.read_text() if calls.exists() else "") == "uninstall\n" * (word == "remove")


# The command on a directory that it takes for the root directory of this process.
COMMAND = f"""#!{sys.executable}
import sys
from pathlib import Path
from nri_numamem.cli import host_files, main
from nri_numamem.cli.installation import systemd
from nri_numamem.cli.export import delete
root = Path(__file__).parent
systemd.BOOTED = delete.OPTIONS_FILE = root / "none"
host_files.Host.path = lambda _self, name: root / name.removeprefix(f"{{root}}").lstrip("/")
state, cgroups = root / "var/lib/nri-numamem/nri_numamem_state", root / "sys/fs/cgroup"
sys.exit(main.main([*sys.argv[1:], f"--state-file={{state}}", f"--cgroup-root={{cgroups}}"]))
"""


def test_a_removal_and_a_purge_while_containers_may_be_pinned(tmp_path: Path) -> None:
    """The command names them and returns 1; neither the removal nor the purge fails."""

    def run(script: str, word: str) -> subprocess.CompletedProcess[str]:
        # In another folder, so that the host is not changed.
        for folder in ("opt", "etc", "var", "sys"):
            script = re.sub(rf"(?<![\w-])/{folder}/", f"{tmp_path}/{folder}/", script)
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "COLUMNS": "200"}
        command = ["sh", "-ec", script, "script", word]
        return subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
        )

    (tmp_path / "nri-numamem").write_text(COMMAND)
    (tmp_path / "nri-numamem").chmod(0o755)
    assert run(pinned_container.SCRIPT, "").returncode == 0
    lock = tmp_path / "var/lib/nri-numamem/memory_manager_state.lock"
    done = run(payload.removal_script("remove"), "remove")
    assert done.returncode == 0, done.stderr
    assert "left as it is: set by the plugin or by something else" in done.stdout
    assert "nri-numamem uninstall --adopted" in done.stdout
    assert "the steps above remain" in done.stderr
    assert lock.exists()
    assert run((ROOT / "packaging/deb/postrm").read_text(), "purge").returncode == 0
    assert not lock.parent.exists()


@pytest.mark.skipif(shutil.which("dpkg") is None, reason="no dpkg")
def test_versions_before_a_release_are_older() -> None:
    versions = ["0.1.0", "0.2.0a1", "0.2.0rc1", "0.2.0", "0.2.1"]
    packages = [payload.upstream_version(version) for version in versions]
    assert packages == ["0.1.0", "0.2.0~a1", "0.2.0~rc1", "0.2.0", "0.2.1"]
    for older, newer in itertools.pairwise(packages):
        subprocess.run(["dpkg", "--compare-versions", older, "lt", newer], check=True)


@pytest.mark.parametrize(("age_s", "problem"), [(None, "missing"), (1e9, "older than the sources")])
@pytest.mark.parametrize("kind", ["deb", "rpm"])
def test_an_old_program_is_not_packaged(
    tmp_path: Path, *, kind: str, age_s: float | None, problem: str
) -> None:
    file = tmp_path / "file"
    if age_s is not None:
        file.touch()
        os.utime(file, (0, file.stat().st_mtime - age_s))
    done = build(kind, file, tmp_path)
    assert done.returncode == 1
    assert re.fullmatch(rf"make {kind}: \S+ is {problem}; run: make dist\n", done.stderr)


@pytest.mark.parametrize(
    ("kind", "command", "package"),
    [("deb", "dpkg-deb", "dpkg"), ("rpm", "rpmbuild", "rpm (on RHEL and Fedora rpm-build)")],
)
def test_a_missing_tool_is_named(tmp_path: Path, kind: str, command: str, package: str) -> None:
    file = tmp_path / "file"
    file.touch()
    done = build(kind, file, tmp_path, PATH=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == f"make {kind}: {command} is missing; install {package}\n"


@pytest.mark.parametrize(("kind", "command"), [("deb", "dpkg-deb"), ("rpm", "rpmbuild")])
def test_a_program_with_another_hook_program_is_not_packaged(
    tmp_path: Path, kind: str, command: str
) -> None:
    if shutil.which(command) is None:
        pytest.skip(f"no {command}")
    file = tmp_path / "file"
    hook = claim_hook.build(tmp_path).read_bytes()
    file.write_bytes(hook[:-1])
    done = build(kind, file, tmp_path)
    problem = "has another claim-hook than the sources and Go give; run: make dist"
    assert (done.returncode, done.stderr) == (1, f"make {kind}: {file} {problem}\n")
    file.write_bytes(b"before" + hook + b"after")
    assert build(kind, file, tmp_path).returncode == 0


@pytest.mark.parametrize("kind", ["deb", "rpm"])
def test_a_missing_go_is_named(tmp_path: Path, kind: str) -> None:
    for name in ("dpkg-deb", "rpmbuild"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    file = tmp_path / "file"
    file.touch()
    done = build(kind, file, tmp_path, PATH=f"{tmp_path}:/usr/bin:/bin", GO=f"{tmp_path}/go")
    assert done.returncode == 1
    assert f"{tmp_path}/go" in done.stderr


def build(
    kind: str, program: Path, directory: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "packaging" / kind / "build.py", program, directory],
        env={**os.environ, "PYTHONPATH": str(ROOT / "packaging"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_documentation_the_alert_rules_and_the_dashboard(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    root = tmp_path / "root"
    payload.fill(root, program, "usr/share/zsh/site-functions", 0)
    documents = root / payload.DOCUMENTS
    pages = (ROOT / "docs").rglob("*.md")
    names = {str(page.relative_to(ROOT / "docs")) for page in pages}
    names |= {"changelog.gz", "nri-numamem.rules.yml", "nri-numamem.json"}
    assert {str(p.relative_to(documents)) for p in documents.rglob("*") if p.is_file()} == names
    assert (root / payload.HOOK).read_bytes().startswith(b"\x7fELF")
    unit = (root / "usr/lib/systemd/system/nri-numamem.service").read_text()
    assert "Documentation=man:nri-numamem(8) " in unit
    assert (root / "usr/share/man/man8/nri-numamem.8.gz").exists()
