"""The files that git tracks: what a release is made of."""

import shutil
import subprocess
from pathlib import Path

from release.errors import ReleaseError

ROOT = Path(__file__).resolve().parents[2]


def tracked(root: Path = ROOT) -> list[str]:
    """Return the tracked files that exist, sorted. Raises ReleaseError outside of a repository."""
    names = _git(root, "ls-files", "-z").split("\0")
    return sorted(name for name in names if name and (root / name).is_file())


def changed(root: Path = ROOT) -> list[str]:
    """Return the files that differ from the last commit, untracked ones included."""
    return [line[3:] for line in _git(root, "status", "--porcelain").splitlines()]


def newest_s(root: Path = ROOT) -> float:
    """Return when a tracked file changed last, in seconds since 1970."""
    return max((root / name).stat().st_mtime for name in tracked(root))


def copy(target: Path, root: Path = ROOT, folder: str = "") -> None:
    """Copy the tracked files, or those of a folder, whose links become files.

    Their modes do not depend on the umask of the checkout.
    """
    for name in tracked(root):
        if not name.startswith(folder):
            continue
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, path)
        path.chmod(0o755 if (root / name).stat().st_mode & 0o100 else 0o644)


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", root, *arguments], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise ReleaseError("git is not installed") from None
    if done.returncode:
        raise ReleaseError(f"{root} is not a clone of the repository: {done.stderr.strip()[:200]}")
    return done.stdout
