"""The single executable file: what it needs of the host, and what it does without Python there."""

import os
import re
import shutil
import sys
import tarfile
from pathlib import Path

import claim_hook
import pytest
from single_file import interpreter

from nri_numamem.cli.main import COMMANDS
from nri_numamem.numa import quantity
from nri_numamem.version import VERSION
from tests.cli.demo_results import results_in
from tests.laboratory import demo, over_nri
from tests.packaging import bare_root
from tests.packaging.elf import Elf
from tests.packaging.laboratory_files import laboratory_files
from tests.packaging.single_file_program import (
    OLDEST_GLIBC,
    PROGRAM,
    ROOT,
    TWIN,
    needs_program,
    needs_root,
    needs_twin,
    output_of,
    run,
    run_with_mounts,
)

pytestmark = [needs_program, pytest.mark.timeout(900)]

MAX_BYTES = 32_000_000
# Of a C library; its newer releases keep those that have moved into libc.so.6.
LIBRARIES = {f"lib{name}" for name in ("c.so.6", "dl.so.2", "m.so.6", "pthread.so.0", "rt.so.1")}
LIBRARIES |= {"libutil.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
MEMFD_CREATE = {"x86_64": 319, "aarch64": 279}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a root with the program as /nri-numamem and a C library."""
    folder = tmp_path_factory.mktemp("bare") / "root"
    bare_root.make(folder, PROGRAM)
    return folder


def test_no_symbol_is_newer_than_the_oldest_glibc() -> None:
    versions = Elf(PROGRAM).versions
    assert {name.partition("_")[0] for name in versions} == {"GLIBC"}
    newest = max(tuple(map(int, name.removeprefix("GLIBC_").split("."))) for name in versions)
    assert newest <= OLDEST_GLIBC


def test_it_needs_no_library_but_those_of_the_c_library() -> None:
    assert Elf(PROGRAM).libraries <= LIBRARIES


def test_the_size() -> None:
    assert PROGRAM.stat().st_size <= MAX_BYTES


@needs_root
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_its_help_in_a_bare_root(command: str, root: Path) -> None:
    done = run_with_mounts(bare_root.ENTER, root, "/nri-numamem", command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: nri-numamem {command}")


@needs_root
def test_version_and_machine_in_a_bare_root(root: Path) -> None:
    done = run_with_mounts(bare_root.ENTER, root, "/nri-numamem", "--version")
    assert (done.returncode, done.stdout) == (0, f"nri-numamem {VERSION}\n")
    done = run_with_mounts(bare_root.ENTER, root, "/nri-numamem", "inspect")
    assert done.returncode != 0  # its /sys is empty
    assert "Traceback" not in done.stderr


def test_the_demo_over_nri_starts_a_plugin_of_this_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert demo.main((str(PROGRAM), "run")) == 0
    over_nri = capsys.readouterr().out
    assert "temporary files removed" in over_nri
    assert list(tmp_path.iterdir()) == []
    assert results_in(over_nri) == results_in(output_of([PROGRAM, "demo"]))


def test_a_scenario_is_decided_alike_over_nri(tmp_path: Path) -> None:
    page = (ROOT / "docs/simulate.md").read_text()
    example = re.search(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert example is not None
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(example[1])
    assert "postgres: cpuset.mems 0" in output_of([PROGRAM, "simulate", scenario])
    assert over_nri.main(scenario, (str(PROGRAM), "run")) == 0


@needs_twin
def test_network_devices_are_read_by_netlink() -> None:
    code = """
from pyroute2 import IPRoute
from pyroute2.netlink.uevent import MarshalUevent
with IPRoute() as route:
    print([link.get_attr("IFLA_IFNAME") for link in route.get_links()])
"""
    assert "lo" in output_of([TWIN, code])


@needs_twin
def test_grpc_is_spoken(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from nri_numamem.grpc import Server, call
path = Path({str(tmp_path / "s")!r})
with Server(path, {{"/a/B": lambda payload, timeout_s: payload * 2}}, print):
    print(call(path, "/a/B", b"x" * 10_000, timeout_s=60) == b"x" * 20_000)
"""
    assert output_of([TWIN, code]) == "True\n"


def test_gather_lists_the_versions_inside(tmp_path: Path) -> None:
    archive = tmp_path / "report.tar.gz"
    output_of([PROGRAM, "gather", archive])
    with tarfile.open(archive) as file:
        (member,) = (m for m in file.getmembers() if m.name.endswith("versions.txt"))
        content = file.extractfile(member)
        assert content is not None
        lines = content.read().decode().splitlines()
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    others = ("pyroute2", "PyYAML", "rich", "prometheus_client", "h2")
    for package in ("protobuf", "structlog", *others):
        (pin,) = (pin for pin in pins if pin.startswith(f"{package}=="))
        assert pin.replace("==", " ") in lines


def test_the_licences_of_everything_inside() -> None:
    text = output_of([PROGRAM, "--licenses"])
    titles = re.findall(r"^={79}\n(.+)\n={79}\n", text, re.MULTILINE)
    names = {re.split(r"[:-]", title)[0] if title != "nri-numamem" else title for title in titles}
    expected = {
        "CPython",
        "Go",
        "OpenSSL",
        "protobuf",
        "libffi",
        "zlib",
        "pyroute2",
        "pyyaml",
        "rich",
    }
    expected |= {"structlog", "prometheus_client", "markdown_it_py", "mdurl"}
    expected |= {"h2", "hpack", "hyperframe"}
    assert expected | {"nri-numamem"} <= names
    bodies = re.split(r"^={79}\n.+\n={79}\n", text, flags=re.MULTILINE)[1:]
    assert all(len(body.strip()) > 20 for body in bodies)
    assert "GNU GENERAL PUBLIC LICENSE" not in text


def test_the_hook_program_of_claims_is_inside(tmp_path: Path) -> None:
    written = tmp_path / "written"
    assert output_of([PROGRAM, "install", "--claim-hook", written]) == f"wrote {written}\n"
    assert written.read_bytes() == claim_hook.build(tmp_path).read_bytes()
    assert output_of([written, "--version"]).startswith(f"claim-hook {VERSION}")


def test_a_reader_that_stops_is_no_error() -> None:
    done = run("/bin/sh", "-c", f'"{PROGRAM}" --licenses | head -n 1')
    assert done.stderr == ""


def test_the_environment_of_python_has_no_effect(tmp_path: Path) -> None:
    (tmp_path / "nri_numamem.py").write_text("raise SystemExit('foreign code')")
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit('foreign code')")
    variables = ("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE")
    environment = {name: str(tmp_path) for name in variables} | {"PYTHONINSPECT": "1"}
    done = run(PROGRAM, "--version", environment=environment, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"nri-numamem {VERSION}\n")


def test_a_kernel_without_a_needed_call_gets_one_line() -> None:
    number = MEMFD_CREATE[os.uname().machine]
    command = (sys.executable, "-m", "tests.packaging.refuse_call", str(number), PROGRAM)
    done = run(*command, "--version", cwd=ROOT)
    assert done.returncode == 1
    assert re.fullmatch(r"nri-numamem: memfd_create fails: .* Linux 4\.18 .*\n", done.stderr)


@needs_twin
def test_a_traceback_has_names_and_lines() -> None:
    done = run(TWIN, "from nri_numamem.numa import quantity; quantity.parse_quantity(None)")
    (line,) = (
        number
        for number, text in enumerate(Path(quantity.__file__).read_text().splitlines(), 1)
        if text.startswith("def parse_quantity(")
    )
    match = re.search(r'File "<frozen nri_numamem\.numa\.quantity>", line (\d+), in', done.stderr)
    assert match is not None, done.stderr
    assert int(match[1]) > line


@needs_twin
def test_assertions_are_checked() -> None:
    code = """
import _imp, dis
names = [name for name in _imp._frozen_module_names() if name.startswith("asyncio")]
def has_assertion(code):
    found = any(step.opname == "LOAD_ASSERTION_ERROR" for step in dis.get_instructions(code))
    return found or any(has_assertion(each) for each in code.co_consts if hasattr(each, "co_code"))
print(sum(has_assertion(_imp.get_frozen_object(name)) for name in names))
"""
    assert int(output_of([TWIN, code])) > 0


@needs_twin
def test_the_interpreter_has_the_kernels_calls() -> None:
    """An interpreter built with too old headers lacks some, and the plugin then cannot start."""
    code = """
import fcntl, os, signal
print(os.pidfd_open, os.memfd_create, os.MFD_CLOEXEC, signal.pidfd_send_signal, fcntl.F_SEAL_SEAL)
"""
    output_of([TWIN, code])


@needs_twin
def test_functions_that_older_c_libraries_lack() -> None:
    code = """
import fcntl, hashlib, math, os, threading
one, two = os.memfd_create("one"), os.memfd_create("two", os.MFD_CLOEXEC)
far = (1 << 33) + 1
print(os.pwritev(one, [b"01", b"23456789"], far), os.copy_file_range(one, two, 4, far + 2, 1))
bytes = bytearray(5)
print(os.preadv(one, [bytes], far + 3), bytes, os.pread(two, 9, 0), os.fstat(one).st_size)
print(fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 50), fcntl.fcntl(two, fcntl.F_GETFD))
print(fcntl.lockf(one, fcntl.LOCK_EX | fcntl.LOCK_NB), len(os.getrandom(16)))
print(math.exp(1), math.exp2(0.5), math.log(3), math.log2(3), math.pow(2, 0.5))
print(hashlib.sha256(b"text").hexdigest(), threading.Semaphore(0).acquire(timeout=0.01))
"""
    assert output_of([TWIN, code]) == output_of([sys.executable, "-c", code])


@needs_root
def test_the_demo_in_a_root_of_debian_11(tmp_path: Path) -> None:
    debian = interpreter.cache_root() / "root"
    if not debian.exists():
        pytest.skip("no build root in the cache: make dist")
    shutil.copy2(PROGRAM, tmp_path / "nri-numamem")
    script = """
mount -t proc proc "$1/proc"
mount --bind "$2" "$1/mnt"
exec env -i TMPDIR=/run "$(command -v chroot)" "$1" /mnt/nri-numamem demo
"""
    done = run_with_mounts(script, debian, tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(results_in(done.stdout)) == 7


@needs_twin
def test_every_module_of_the_plugin_can_be_imported() -> None:
    code = """
import _imp, importlib
for name in _imp._frozen_module_names():
    if name.startswith("nri_numamem") and not name.endswith("__main__"):
        importlib.import_module(name)
    print(name)
import pyroute2, google._upb._message
"""
    modules = set(output_of([TWIN, code]).split())
    assert laboratory_files(modules) == []
    frozen = {name for name in modules if name.partition(".")[0] == "nri_numamem"}
    frozen.discard("nri_numamem.__main__")
    files = (ROOT / "nri_numamem").rglob("*.py")
    names = {".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files}
    assert frozen == {name.removesuffix(".__init__") for name in names} - {"nri_numamem.__main__"}
