"""Commands with --root stay below it, whatever links an image has.

Each directory of the plugin, and each above it, becomes an absolute link in turn: to a directory
that exists on the machine that runs the command, and below the root as well.
"""

import os
import shutil
import tarfile
from pathlib import Path

import pytest

from nri_numamem.cli.installation.facts import NAME
from nri_numamem.cli.main import main
from tests.cli.doctor.host_files import CONFIG, PLUGINS, STATE, HostFiles

SECRET = "token: 1234"  # noqa: S105
DIRECTORIES = (
    "etc",
    "etc/nri-numamem",
    "etc/nri",
    "etc/nri/conf.d",
    "etc/containerd",
    "etc/systemd/system",
    "opt",
    "opt/nri",
    PLUGINS,
    "var",
    "var/lib",
    "var/lib/nri-numamem",
    "var/log",
    "var/log/nri-numamem",
)
LOG = "var/log/nri-numamem/nri-numamem.log"


class Image:
    """The root directory of an image, and a directory of the machine that runs the command."""

    def __init__(self, directory: Path) -> None:
        self.outside = directory / "machine"
        self.files = HostFiles(directory / "image")
        self.root = self.files.root
        for name in ("etc/nri-numamem/config.yaml", LOG):
            self.files.write(name, "")
        self.files.write("etc/systemd/system/other.service", "")
        self.files.write("usr/bin/nri-numamem", "#!/usr/bin/python3\nimport nri_numamem\n")
        self.files.path("usr/bin/nri-numamem").chmod(0o755)
        shutil.rmtree(self.files.path("opt/nri-numamem"))

    def link(self, name: str) -> None:
        """Replace a directory of the image by a link to one that the machine has too."""
        inside = self.files.path(name)
        target = self.outside / name
        moved = self.root / str(target).lstrip("/")
        moved.parent.mkdir(parents=True)
        inside.rename(moved)
        inside.symlink_to(target)
        target.mkdir(parents=True)
        for folder, names, files in os.walk(moved):
            place = target / Path(folder).relative_to(moved)
            for other in names:
                (place / other).mkdir(exist_ok=True)
            for other in files:
                (place / other).write_text(SECRET)

    def machine(self) -> dict[str, str]:
        """Return name -> text of everything on the machine."""
        found = sorted(self.outside.rglob("*"))
        return {str(path): path.read_text() if path.is_file() else "" for path in found}

    def names(self) -> list[str]:
        """Return what the image has of the plugin's, beside its program."""
        paths = self.root.rglob("*")
        return [str(path) for path in paths if NAME in path.name and "bin" not in path.parts]


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return Image(tmp_path)


@pytest.mark.parametrize("name", DIRECTORIES)
def test_install_and_uninstall(image: Image, name: str) -> None:
    image.link(name)
    before = image.machine()
    assert before
    options = ("--root", str(image.root))
    for way in ("--external", "--launched"):
        assert main(["install", way, *options, "--program", "/usr/bin/nri-numamem"]) == 0
        assert image.machine() == before
    assert main(["uninstall", "--purge", *options]) == 0
    assert image.machine() == before
    led_to = f"{image.root}{image.outside}/{name}"
    kept = [path for path in image.names() if not path.startswith(led_to)]
    assert kept == [], "only a directory to which a link of the plugin's led"
    assert name.endswith(NAME) or not image.names()


@pytest.mark.parametrize("name", DIRECTORIES)
@pytest.mark.parametrize("command", ["doctor", "status", "gather", "explain web", "simulate --now"])
def test_commands_that_read(
    image: Image, tmp_path: Path, name: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    image.link(name)
    files = [str(tmp_path / "report")] if command == "gather" else []
    files = [str(tmp_path / "pod.yaml")] if command.startswith("simulate") else files
    (tmp_path / "pod.yaml").write_text("pods: []\n")
    main([*command.split(), "--root", str(image.root), *files])
    shown = capsys.readouterr()
    assert "token" not in shown.out + shown.err
    if command == "gather":
        with tarfile.open(files[0]) as archive:
            for member in archive:
                file = archive.extractfile(member)
                assert file is not None
                assert SECRET.encode() not in file.read()


def test_the_program_of_the_image(image: Image, tmp_path: Path) -> None:
    """Its path is an absolute link, which leads to another file on the machine."""
    (tmp_path / "machine/bin").mkdir(parents=True)
    other = tmp_path / "machine/bin/program"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    inside = image.root / str(other).lstrip("/")
    inside.parent.mkdir(parents=True)
    image.files.path("usr/bin/nri-numamem").rename(inside)
    inside.write_bytes(b"\x7fELF of the image")
    image.files.link("tmp/program", str(other))
    options = ("--root", str(image.root), "--program", "/tmp/program")
    image.files.path(f"{PLUGINS}/10-nri-numamem").unlink()
    assert main(["install", "--launched", *options]) == 0
    assert image.files.path(f"{PLUGINS}/10-nri-numamem").read_bytes() == inside.read_bytes()


@pytest.mark.parametrize("name", [CONFIG, "etc/containerd/config.toml", STATE, LOG])
def test_files_that_are_links(
    image: Image, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "kubeconfig"
    secret.write_text(SECRET)
    image.files.path(name).unlink()
    image.files.link(name, str(secret))
    for command in (
        "doctor",
        f"gather {tmp_path}/report",
        "uninstall --dry-run",
        "uninstall --purge",
    ):
        main([*command.split(), "--root", str(image.root)])
    shown = capsys.readouterr()
    assert "token" not in shown.out + shown.err
    with tarfile.open(tmp_path / "report") as archive:
        texts = [file.read() for member in archive if (file := archive.extractfile(member))]
    assert SECRET.encode() not in b"".join(texts)
    assert secret.read_text() == SECRET


def test_a_link_at_the_configuration_directory(
    image: Image, capsys: pytest.CaptureFixture[str]
) -> None:
    """The purge is complete, and names what the link led to."""
    image.files.path("etc/nri-numamem").rename(image.files.path("srv"))
    image.files.link("etc/nri-numamem", "/srv")
    image.files.write("srv/notes", "")
    assert main(["uninstall", "--purge", "--root", str(image.root)]) == 0
    shown = capsys.readouterr()
    assert "nothing was changed" not in shown.out + shown.err
    assert "kept /srv, to which /etc/nri-numamem was a link; remove it yourself" in shown.out
    assert image.names() == []
    assert image.files.path("srv/notes").exists()


def test_a_loop_of_links_is_found_before_the_first_deletion(
    image: Image, capsys: pytest.CaptureFixture[str]
) -> None:
    image.files.path("var/log/nri-numamem/nri-numamem.log").unlink()
    image.files.path("var/log/nri-numamem").rmdir()
    image.files.path("var/log").rmdir()
    image.files.link("var/log", "/var/log")
    before = image.names()
    assert main(["uninstall", "--purge", "--root", str(image.root)]) == 2
    error = "nri-numamem: /var/log: more than 40 symbolic links; correct them\n"
    assert capsys.readouterr().err == error
    assert image.names() == before


def test_the_root_of_another_mount_namespace_is_not_this_host(
    monkeypatch: pytest.MonkeyPatch, image: Image
) -> None:
    """The text of the link /proc/PID/root is / for every process."""
    link = image.root.parent / "root"
    link.symlink_to(image.root)
    monkeypatch.setattr(Path, "resolve", lambda _self: Path("/"))
    image.files.path(f"{PLUGINS}/10-nri-numamem").unlink()
    options = ["--root", str(link), "--program", "/usr/bin/nri-numamem"]
    assert main(["install", "--launched", *options]) == 0
    assert image.files.path(f"{PLUGINS}/10-nri-numamem").is_symlink()
