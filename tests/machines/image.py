"""Root file system images of the virtual machines, built once and cached.

An image is an ext4 file with kernel and initrd. mmdebstrap builds it from a Debian suite with
containerd, runc and the Python libraries of the plugin and the guest's driver. It contains no file
of this repository; sources, configurations and the plugin's wheel are on a second drive (drive.py).
So an image is valid until the recipe below changes.

This module depends on Debian and mmdebstrap, and not on QEMU, containerd or the checks. mmdebstrap
uses its default mirror or the mirrors of the host's apt.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.machines.progress import Build, Progress

PACKAGES = (
    "linux-image-cloud-amd64",
    "initramfs-tools",
    "containerd",
    "runc",
    "iproute2",
    "kmod",
    "mount",  # no longer a part of util-linux in sid
    "procps",
    "systemd",
    "busybox-static",  # becomes the pods' image
    "python3",
    "python3-venv",
    "python3-grpcio",
    "python3-protobuf",
    "python3-structlog",
    "python3-yaml",
    "python3-pyroute2",
    "python3-rich",
)

INIT_NAME = "tests/e2e/guest/init"
"""The init script's name on the second drive. Another one makes all images in caches invalid."""

# Unpacks the second drive, a tar archive, and executes the init script on it.
_INIT = f"""\
#!/bin/sh
init=/e2e/{INIT_NAME}
if mkdir -p /e2e && tar -xf /dev/vdb -C /e2e && test -x "$init"; then
    exec "$init"
fi
echo "init: the second drive holds no $init"
exec busybox poweroff -f
"""

# Only the driver of the root disk: the others are built in, and each module costs boot time.
_INITRAMFS = "MODULES=list\n"
_INITRAMFS_MODULES = "virtio_blk\n"

# Created on the host, which is faster; the guest only installs the wheel into it.
_VENV = "python3 -m venv --system-site-packages /opt/nri-numamem"

_UNNEEDED = ("/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/man/*", "/usr/share/info/*")
_MINUTES = 3.0
_DISK_SIZE = "1500M"  # sparse; the space beyond the packages is for containerd
_ATTEMPT_PAUSES_S = (0.0, 10.0, 30.0)
_FALLBACK_SUITE = {"sid": "forky"}  # used while sid cannot be installed
_FALLBACK_LIFETIME_S = 24 * 3600


class ImageError(Exception):
    """An image cannot be built; the text ends with the last lines of the failed tool."""


@dataclass(frozen=True, slots=True)
class Image:
    """A bootable image; `source` is the suite from which it was built."""

    suite: str
    source: str
    directory: Path

    @property
    def disk(self) -> Path:
        """The ext4 root file system. All runs share it, so open it as a snapshot."""
        return self.directory / "root.ext4"

    @property
    def kernel(self) -> Path:
        """The suite's kernel."""
        return self.directory / "vmlinuz"

    @property
    def initrd(self) -> Path:
        """The suite's initial RAM disk."""
        return self.directory / "initrd"


@dataclass(frozen=True, slots=True)
class Variant:
    """Further packages of an image. Its name keeps it apart from others in the cache."""

    name: str = ""
    packages: tuple[str, ...] = ()


PLAIN = Variant()
CRI = Variant("cri", ("conmon", "crun", "skopeo"))
"""With other runtimes than containerd and runc."""


def cache_root() -> Path:
    """Return the folder of all images: `${XDG_CACHE_HOME:-~/.cache}/nri_numamem/e2e`."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "nri_numamem" / "e2e"


def key(variant: Variant = PLAIN) -> str:
    """Return a hash of the recipe; an image of another recipe is not used."""
    command = _command("SUITE", Path("TAR"), variant)
    recipe = [command, _INIT, _INITRAMFS, _INITRAMFS_MODULES, _DISK_SIZE]
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:16]


def build(suite: str, variant: Variant = PLAIN) -> Build:
    """Return what `ensure` may have to build."""
    name = f"image of Debian {suite}{variant.name and f' with {variant.name}'}"
    return Build(name, _MINUTES, lambda: _is_usable(_folder(suite, variant), suite))


def ensure(suite: str, variant: Variant, progress: Progress) -> Image:
    """Return the image of `suite`; build it unless it is in the cache.

    Concurrent calls wait for each other. Raises ImageError if the build fails.
    """
    final = _folder(suite, variant)
    final.parent.mkdir(parents=True, exist_ok=True)
    with _locked(final.parent / f"{suite}.lock"):
        if not _is_usable(final, suite):
            what = build(suite, variant)
            with progress.step(what.name, what.minutes):
                _build(suite, final, variant, progress)
    return Image(suite, (final / "source").read_text(encoding="ascii"), final)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _folder(suite: str, variant: Variant) -> Path:
    return cache_root() / variant.name / f"{suite}-{key(variant)}"


def _is_usable(directory: Path, suite: str) -> bool:
    """Return whether the image is there, and is no fallback that is too old."""
    source = directory / "source"
    if not source.exists():
        return False
    is_fallback = source.read_text(encoding="ascii") != suite
    return not is_fallback or time.time() - source.stat().st_mtime <= _FALLBACK_LIFETIME_S


def _build(suite: str, final: Path, variant: Variant, progress: Progress) -> None:
    """Build in a temporary folder, which is renamed when the image is complete."""
    for old in final.parent.glob(f"{suite}-*.partial"):  # left by builds that were killed
        shutil.rmtree(old)
    partial = final.with_name(f"{final.name}.partial")
    partial.mkdir()
    source = _bootstrap_any(suite, partial, variant, progress)
    _make_disk(partial)
    (partial / "source").write_text(source, encoding="ascii")
    for old in final.parent.glob(f"{suite}-*"):
        if old != partial:
            shutil.rmtree(old)
    partial.rename(final)


def _bootstrap_any(suite: str, partial: Path, variant: Variant, progress: Progress) -> str:
    """Make root.tar from the suite, or else from its fallback; return the suite used."""
    try:
        _bootstrap(suite, partial, variant)
    except ImageError as error:
        if suite not in _FALLBACK_SUITE:
            raise
        progress.line(f"image of {suite}: {error}; using {_FALLBACK_SUITE[suite]} instead")
        _bootstrap(_FALLBACK_SUITE[suite], partial, variant)
        return _FALLBACK_SUITE[suite]
    return suite


def _bootstrap(suite: str, partial: Path, variant: Variant) -> None:
    hooks = {"e2e-init": _INIT, "initramfs": _INITRAMFS, "initramfs-modules": _INITRAMFS_MODULES}
    for name, text in hooks.items():
        (partial / name).write_text(text, encoding="ascii")
    for pause_s in _ATTEMPT_PAUSES_S:  # mirrors fail at times
        time.sleep(pause_s)
        result = _run(_command(suite, Path("root.tar"), variant), partial)
        if result.returncode == 0:
            return
    raise ImageError(f"mmdebstrap cannot make {suite}; its last lines:\n{_tail(result.stdout)}")


def _command(suite: str, tar: Path, variant: Variant) -> list[str]:
    initramfs = "etc/initramfs-tools/conf.d/e2e"
    modules = "usr/share/initramfs-tools/modules.d/e2e"
    return [
        "mmdebstrap",
        "--variant=apt",
        f"--include={','.join((*PACKAGES, *variant.packages))}",
        # The Release files of moving suites are at times expired.
        '--aptopt=Acquire::Check-Valid-Until "false"',
        *(f"--dpkgopt=path-exclude={path}" for path in _UNNEEDED),
        f'--essential-hook=install -D -m 644 initramfs "$1/{initramfs}"',
        f'--essential-hook=install -D -m 644 initramfs-modules "$1/{modules}"',
        '--customize-hook=install -m 755 e2e-init "$1/e2e-init"',
        f'--customize-hook=chroot "$1" {_VENV}',
        suite,
        str(tar),
    ]


def _make_disk(partial: Path) -> None:
    """Convert root.tar to the ext4 file, and copy kernel and initrd beside it.

    All files belong to root: the guest runs only as root, and this needs no privileges.
    """
    script = (
        "set -e; mkdir root; tar -C root --no-same-owner --exclude='./dev/*' -xpf root.tar; "
        "cp root/boot/vmlinuz-* vmlinuz; cp root/boot/initrd.img-* initrd; "
        f"mke2fs -q -F -t ext4 -O ^has_journal -d root root.ext4 {_DISK_SIZE}; "
        "rm -r root root.tar"
    )
    as_root = [] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user"]
    result = _run([*as_root, "sh", "-c", script], partial)
    if result.returncode != 0:
        raise ImageError(f"mke2fs cannot make the disk; the last lines:\n{_tail(result.stdout)}")


def _run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    # mke2fs is in sbin, and mmdebstrap runs Debian's Python for each package.
    path = f"/usr/sbin:/usr/bin:/sbin:/bin:{os.environ.get('PATH', '')}"
    try:
        return subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError as error:
        raise ImageError(f"{command[0]} is not installed: apt-get install mmdebstrap") from error


def _tail(text: str, lines: int = 15) -> str:
    return "\n".join(text.splitlines()[-lines:])
