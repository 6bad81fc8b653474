"""The container image: its root and its archive; tests/packaging/test_image_life.py runs it.

The program is a stand-in where only the archive matters, and the C library is this host's.
"""

import hashlib
import json
import re
import subprocess
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from image import __main__ as main
from image import archive, glibc, root
from single_file import debian
from single_file.commands import BuildError

from nri_numamem.version import VERSION
from tests.packaging import manifests
from tests.packaging.debian_root import NEWEST, DebianRoot
from tests.packaging.elf import Elf
from tests.packaging.single_file_program import PROGRAM, ROOT, needs_program, needs_root

DATE_S = 1_767_225_600
_LINK, _LINKER = glibc.LINKERS["x86_64"]
LIBRARY = {f"{glibc.FOLDER}/{name}": name.encode() for name in (_LINKER, *glibc.LIBRARIES)}
LIBRARY[glibc.COPYRIGHT] = b"LGPL"
DOCKERFILE = ROOT / "packaging/image/Dockerfile"


@pytest.fixture
def content(tmp_path: Path) -> list[root.Entry]:
    program = tmp_path / "program"
    program.write_bytes(b"program")
    return list(root.entries(program, LIBRARY))


@pytest.fixture
def built(content: list[root.Entry], tmp_path: Path) -> Path:
    path = tmp_path / "image.tar"
    archive.write(path, content, "localhost/nri-numamem", "0.2.0", DATE_S)
    return path


def read(path: Path) -> Mapping[str, bytes]:
    with tarfile.open(path) as file:
        return {
            member.name: member_file.read()
            for member in file
            if (member_file := file.extractfile(member)) is not None
        }


def blob(files: Mapping[str, bytes], descriptor: Mapping[str, Any]) -> bytes:
    """Return what a descriptor names; its size and digest must be right."""
    data = files[f"blobs/{descriptor['digest'].replace(':', '/')}"]
    assert f"sha256:{hashlib.sha256(data).hexdigest()}" == descriptor["digest"]
    assert len(data) == descriptor["size"]
    return data


def test_the_archive_is_an_oci_layout(built: Path) -> None:
    files = read(built)
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == "localhost/nri-numamem:0.2.0"
    assert entry["platform"] == {"architecture": "amd64", "os": "linux"}
    manifest = json.loads(blob(files, entry))
    config = json.loads(blob(files, manifest["config"]))
    (layer,) = [blob(files, layer) for layer in manifest["layers"]]
    diff_id = hashlib.sha256(zlib.decompress(layer, wbits=31)).hexdigest()
    assert config["rootfs"] == {"type": "layers", "diff_ids": [f"sha256:{diff_id}"]}
    assert config["created"] == "2026-01-01T00:00:00Z"
    assert config["config"]["Entrypoint"] == ["/usr/bin/nri-numamem"]
    assert len(files) == 6


def test_the_archive_is_in_the_format_of_docker_too(built: Path) -> None:
    files = read(built)
    (document,) = json.loads(files["manifest.json"])
    assert document["RepoTags"] == ["localhost/nri-numamem:0.2.0"]
    (entry,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(blob(files, entry))
    names = [document["Config"], *document["Layers"]]
    descriptors = [manifest["config"], *manifest["layers"]]
    assert names == [f"blobs/sha256/{item['digest'].split(':')[1]}" for item in descriptors]


@manifests.needs_tools
def test_containerd_imports_the_archive(built: Path, tmp_path: Path) -> None:
    """Its own code reads the archive, as `ctr images import` does."""
    (entry,) = json.loads(read(built)["index.json"])["manifests"]
    command = (f"{manifests.TOOLS}/kubernetes_tools", "import", f"{tmp_path}/store")
    with built.open("rb") as file:
        done = subprocess.run(command, stdin=file, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"localhost/nri-numamem:0.2.0 {entry['digest']}\n"


def test_the_layer_is_the_root(built: Path, content: list[root.Entry], tmp_path: Path) -> None:
    files = read(built)
    (document,) = json.loads(files["manifest.json"])
    layer = tmp_path / "layer.tar"
    layer.write_bytes(files[document["Layers"][0]])
    with tarfile.open(layer) as file:
        members = file.getmembers()
        assert [member.name for member in members] == [entry.path for entry in content]
        assert {(member.uid, member.gid, member.mtime) for member in members} == {(0, 0, DATE_S)}
        file.extractall(tmp_path / "layer", filter="tar")
    root.write(tmp_path / "root", content)
    compare = ("diff", "--recursive", "--no-dereference")
    subprocess.run([*compare, tmp_path / "layer", tmp_path / "root"], check=True)
    assert (tmp_path / "root" / root.PROGRAM).stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "root/tmp").stat().st_mode & 0o7777 == 0o1777
    assert (tmp_path / "root/lib64" / Path(_LINK).name).read_bytes() == _LINKER.encode()


def test_the_same_input_gives_the_same_bytes(
    built: Path, content: list[root.Entry], tmp_path: Path
) -> None:
    again = tmp_path / "again.tar"
    digest = archive.write(again, content, "localhost/nri-numamem", "0.2.0", DATE_S)
    assert again.read_bytes() == built.read_bytes()
    other = archive.write(again, content, "localhost/nri-numamem", "0.2.1", DATE_S)
    assert other != digest


def test_the_dockerfile_makes_the_same_image(built: Path) -> None:
    files = read(built)
    (document,) = json.loads(files["manifest.json"])
    config = json.loads(files[document["Config"]])["config"]
    text = DOCKERFILE.read_text().replace("${VERSION}", "0.2.0").rpartition("FROM scratch")[2]
    instructions = dict(re.findall(r"^([A-Z]+) (.+)$", text, re.MULTILINE))
    assert json.loads(instructions["ENTRYPOINT"]) == config["Entrypoint"]
    assert json.loads(instructions["CMD"]) == config["Cmd"]
    assert [instructions["ENV"]] == config["Env"]
    assert instructions["USER"] == config["User"]
    assert dict(re.findall(r'(org\S+)="(.+)"', text)) == config["Labels"]


@needs_root
@pytest.mark.slow
@pytest.mark.parametrize("suite", [NEWEST])
def test_the_dockerfile_makes_the_same_root(
    suite: str, content: list[root.Entry], tmp_path: Path
) -> None:
    """Its commands run in a root of the same release, but they install no packages."""
    (script,) = re.findall(r"^RUN (.+?)\n\n", DOCKERFILE.read_text(), re.MULTILINE | re.DOTALL)
    script, count = re.subn(r"apt-get update .*?libc6;", "", script)
    assert count == 1
    (tmp_path / "packages").mkdir()
    (tmp_path / "mounts").mkdir()
    with DebianRoot(suite, tmp_path / "packages", tmp_path / "mounts") as host:
        host.shell("mkdir -p /image/usr/bin; echo >/image/usr/bin/nri-numamem")
        host.shell("chmod 755 /image/usr/bin/nri-numamem")
        host.shell(script)
        lines = host.run("find", "/image", "-mindepth", "1", "-printf", r"%P %m %l\n")
    expected = {f"{entry.path} {entry.mode:o} {entry.target}" for entry in content}
    assert set(lines.splitlines()) == expected


@needs_program
def test_the_libraries_are_those_of_the_program() -> None:
    elf = Elf(PROGRAM)
    assert set(glibc.LIBRARIES) == set(elf.libraries)
    assert Path(elf.interpreter).name == _LINKER
    assert Path("usr" + elf.interpreter) == Path(_LINK)


def make_package(folder: Path, names: Mapping[str, bytes]) -> Path:
    for name, data in names.items():
        path = folder / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    control = folder / "root/DEBIAN/control"
    control.parent.mkdir()
    control.write_text(
        "Package: libc6\nVersion: 1\nArchitecture: all\nMaintainer: a <a@a.invalid>\n"
        "Description: none\n"
    )
    deb = folder / "libc6_1_all.deb"
    command = ("dpkg-deb", "-Znone", "--build", f"{folder}/root", f"{deb}")
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return deb


def test_the_files_of_the_c_library(tmp_path: Path) -> None:
    deb = make_package(tmp_path, {**LIBRARY, "usr/lib/other": b"other"})
    assert glibc.files(deb) == LIBRARY


def test_a_package_that_lacks_a_library(tmp_path: Path) -> None:
    deb = make_package(tmp_path, {glibc.COPYRIGHT: b""})
    with pytest.raises(BuildError, match=r"has no file .*ld-linux.*; see glibc.py"):
        glibc.files(deb)


def test_the_package_is_downloaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def download(*command: object, cwd: Path) -> str:
        calls.append(command)
        (cwd / f"libc6_{len(calls)}_amd64.deb").touch()
        return ""

    monkeypatch.setattr(debian, "private_apt", lambda _folder, suite: ("apt", suite))
    monkeypatch.setattr(glibc, "run", lambda *c, cwd=None: download(*c, cwd=cwd) if cwd else "")
    monkeypatch.setattr(glibc, "remove", lambda *paths: [path.unlink() for path in paths])
    cache = tmp_path / "cache"
    first = glibc.package(cache)
    assert glibc.package(cache) == first == cache / "libc6_1_amd64.deb"
    second = glibc.package(cache, refresh=True)
    assert (second.name, first.exists()) == ("libc6_2_amd64.deb", False)
    assert calls == [("apt", "trixie", "download", "libc6")] * 2


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def package(_cache: Path, *, refresh: bool) -> Path:
        assert not refresh
        return Path("libc6_1_amd64.deb")

    monkeypatch.setattr(glibc, "package", package)
    monkeypatch.setattr(glibc, "files", lambda _deb: LIBRARY)
    program, output = tmp_path / "program", tmp_path / "dist"
    arguments = ["image", str(program), str(output), "--root", str(tmp_path / "root")]
    monkeypatch.setattr("sys.argv", arguments)
    assert main.main() == 1
    assert capsys.readouterr().err == f"make image: {program} is missing; run: make dist\n"
    program.write_bytes(b"program")
    assert main.main() == 0
    (built,) = output.iterdir()
    assert built.name == f"nri-numamem-{VERSION}-image-linux-x86_64.tar"
    (entry,) = json.loads(read(built)["index.json"])["manifests"]
    assert capsys.readouterr().out.startswith(f"{entry['digest']}  {main.NAME}:{VERSION}\n")
    assert (tmp_path / "root" / root.PROGRAM).read_bytes() == b"program"
