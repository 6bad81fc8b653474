"""What the build takes from Debian: the root that it runs in, and source packages.

The mirrors are those that apt on this host uses for its own Debian release.
"""

import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from single_file.commands import BuildError, remove, report, run, run_with_own_mounts

# glibc 2.31: the oldest release with a compiler for today's CPython.
ROOT_SUITE = "bullseye"
PACKAGES = ("build-essential", "libffi-dev", "pkg-config", "xz-utils", "zlib1g-dev")

SOURCE_SUITE = "trixie"

_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_OLD_RELEASE = "Acquire::Check-Valid-Until=false"  # whose Release file is not renewed


def mirrors() -> tuple[str, str]:
    """Return the addresses of Debian and of its security updates.

    Source: apt's lists on this host. Raises BuildError if they have none.
    """
    text = run("apt-get", "indextargets", "--format", "$(LABEL)|$(SITE)|$(REPO_URI)")
    found = dict(line.split("|")[::2] for line in text.splitlines() if line.count("|") == 2)
    try:
        return found["Debian"].rstrip("/"), found["Debian-Security"].rstrip("/")
    except KeyError as error:
        label = error.args[0]
        text = f"apt has no lists of {label}: run 'apt-get update' on a Debian host"
        raise BuildError(text) from None


def make_root(root: Path, suite: str = ROOT_SUITE, packages: Sequence[str] = PACKAGES) -> None:
    """Install a root of a release, by default with a compiler; it appears when it is complete."""
    if os.geteuid() != 0:
        raise BuildError("a root of Debian needs the rights of root: try sudo make dist")
    main, security = mirrors()
    partial = root.with_name(f"{root.name}.partial")
    remove(partial)
    run_with_own_mounts(
        "mmdebstrap",
        "--variant=minbase",
        *([f"--include={','.join(packages)}"] if packages else []),
        f"--keyring={_KEYRING}",
        f"--aptopt={_OLD_RELEASE.replace('=', ' ')}",
        suite,
        partial,
        f"deb {main} {suite} main",
        f"deb {main} {suite}-updates main",
        f"deb {security} {suite}-security main",
    )
    partial.rename(root)


def fetch_source(folder: Path, package: str) -> None:
    """Download the newest version of a source package, security updates included.

    apt checks its signatures. The lists of a mirror can name a version whose files it does not have
    yet, or any more; then the next older version is taken, and a line says so. Raises BuildError.
    """
    apt, partial = folder / "apt", folder / "partial"
    get = private_apt(apt, SOURCE_SUITE, "deb-src")
    versions = _source_versions(get, package)
    for index, version in enumerate(versions):
        partial.mkdir()
        try:
            run(*get, "source", "--download-only", f"{package}={version}", cwd=partial)
            break
        except BuildError:
            if index + 1 == len(versions):
                raise
            report(f"the mirror lacks {package} {version}; trying {versions[index + 1]}")
            remove(partial)
    for file in partial.iterdir():
        file.rename(folder / file.name)
    remove(apt, partial)


def newest_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the newest version of source packages by the mirror's lists. Raises BuildError."""
    with tempfile.TemporaryDirectory() as folder:
        get = private_apt(Path(folder), SOURCE_SUITE, "deb-src")
        return {package: _source_versions(get, package)[0] for package in packages}


def source_in(folder: Path, package: str) -> Path:
    """Return the .dsc file of the source package in a folder."""
    (found,) = folder.glob(f"{package}_*.dsc")
    return found


def version_of(source: Path) -> str:
    """Return the version of a .dsc file."""
    return source.stem.partition("_")[2]


def _source_versions(get: Sequence[str], package: str) -> Sequence[str]:
    """Return the versions of a source package in apt's lists, the newest one first."""
    shown = run("apt-cache", *get[1:], "showsrc", "--only-source", package)
    found = {line.partition(" ")[2] for line in shown.splitlines() if line.startswith("Version: ")}
    if not found:
        raise BuildError(f"Debian {SOURCE_SUITE} has no source package {package}")
    return newest_first(found)


def newest_first(versions: Iterable[str]) -> Sequence[str]:
    """Sort versions; the order of GNU sort is Debian's."""
    script = 'printf "%s\\n" "$@" | sort --version-sort --reverse'
    return run("sh", "-ec", script, "sh", *versions).split()


def private_apt(folder: Path, suite: str, kind: str = "deb") -> tuple[str, ...]:
    """Return the command apt-get with the newest lists of a release, kept in a new folder.

    `kind` is deb or deb-src. The host's lists and sources stay as they are. Raises BuildError.
    """
    main, security = mirrors()
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "sources.list").write_text(
        f"{kind} [signed-by={_KEYRING}] {main} {suite} main\n"
        f"{kind} [signed-by={_KEYRING}] {main} {suite}-updates main\n"
        f"{kind} [signed-by={_KEYRING}] {security} {suite}-security main\n"
    )
    options = [
        f"Dir::Etc::SourceList={folder}/sources.list",
        "Dir::Etc::SourceParts=/dev/null",
        f"Dir::State::Lists={folder}/lists",
        f"Dir::Cache={folder}/cache",
        "APT::Sandbox::User=root",
        _OLD_RELEASE,
    ]
    get = ("apt-get", "-q", *(word for option in options for word in ("-o", option)))
    run(*get, "update")
    return get
