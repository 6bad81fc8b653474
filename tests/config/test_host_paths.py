"""Links below a root directory are resolved as after chroot(2)."""

import os
import subprocess
from pathlib import Path

import pytest

from nri_numamem.config.errors import UsageError
from nri_numamem.config.host_paths import LINK_LIMIT, below, resolved


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root/data/deep").mkdir(parents=True)
    return tmp_path / "root"


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("run", "/data"),
        ("run", "data"),
        ("run", "../../../data"),
        ("run", "/../data/./deep/.."),
        ("data/deep/run", "/data"),
        ("data/deep/run", ".."),
    ],
)
def test_links_stay_below_the_root(root: Path, name: str, target: str) -> None:
    (root / name).symlink_to(target)
    assert below(root, f"/{name}/x/y") == root / "data/x/y"
    assert below(root, f"/{name}") == root / "data"


def test_a_chain_of_links(root: Path) -> None:
    (root / "var").mkdir()
    (root / "var/run").symlink_to("/run")
    (root / "run").symlink_to("data/deep")
    assert below(root, "/var/run/nri.sock") == root / "data/deep/nri.sock"


def test_what_is_missing_is_appended(root: Path) -> None:
    (root / "gone").symlink_to("/none/file")
    assert below(root, "/gone") == root / "none/file"
    assert below(root, "/a/../../b/./c") == root / "b/c"


def test_paths_of_this_host_and_of_this_process(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert below(Path("/"), "/proc/self/fd/0") == Path("/proc/self/fd/0")
    monkeypatch.chdir(tmp_path)
    assert below(root, "x") == Path(f"{root}{tmp_path}/x")


def test_the_root_itself_may_be_a_link(root: Path) -> None:
    (root.parent / "image").symlink_to(root)
    (root / "run").symlink_to("/data")
    assert below(root.parent / "image", "/run/x") == root.parent / "image/data/x"


def test_as_many_links_as_the_kernel_follows(root: Path) -> None:
    (root / "link0").symlink_to("/data")
    for number in range(1, LINK_LIMIT + 1):
        (root / f"link{number}").symlink_to(f"link{number - 1}")
    assert below(root, f"/link{LINK_LIMIT - 1}") == root / "data"
    assert (root.parent / f"root/link{LINK_LIMIT - 1}").is_symlink()
    with pytest.raises(UsageError, match=f"^/link{LINK_LIMIT}: more than {LINK_LIMIT} symbolic "):
        below(root, f"/link{LINK_LIMIT}")


@pytest.mark.parametrize("change", ["mode", "owner"])
def test_a_link_that_others_can_replace_is_refused(root: Path, change: str) -> None:
    (root / "tmp").mkdir()
    (root / "tmp/link").symlink_to("/data")
    assert below(root, "/tmp/link/x") == root / "data/x"
    if change == "mode":
        (root / "tmp").chmod(0o1777)
    elif os.geteuid() == 0:
        os.chown(root / "tmp", 1234, -1)
    else:
        pytest.skip("only root can change owners")
    with pytest.raises(UsageError, match=r"/tmp/link is a symbolic link in a directory that other"):
        below(root, "/tmp/link/x")
    assert below(root, "/tmp/x") == root / "tmp/x"


def test_an_image_of_another_owner(root: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can change owners")
    (root / "run").symlink_to("/data")
    os.chown(root, 1234, -1)
    assert below(root, "/run") == root / "data"


def test_a_directory_that_cannot_be_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_symlink", refuse)
    with pytest.raises(UsageError, match=r"^/data: Permission denied; run as root$"):
        resolved(root, "/data")


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
@pytest.mark.parametrize("name", ["a/b/c", "a/../b", "c/deep/../../x", "b/../../../a"])
def test_the_kernel_finds_the_same(root: Path, name: str) -> None:
    (root / "a").symlink_to("/data/../data")
    (root / "b").symlink_to("../../a/deep")
    (root / "c").symlink_to("/a")
    found = below(root, f"/{name}")
    found.parent.mkdir(parents=True, exist_ok=True)
    (root / "data/deep/b").mkdir(exist_ok=True)
    script = "import os,sys; os.chroot(sys.argv[1]); print(os.path.realpath('/' + sys.argv[2]))"
    command = ["python3", "-c", script, str(root), name]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"/{found.relative_to(root)}" == done.stdout.strip()
