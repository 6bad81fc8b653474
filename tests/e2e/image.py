"""Root file system images for the end-to-end tests, built once and cached.

An image is a Debian suite as mmdebstrap makes it, with containerd, runc and the Python libraries
that the plugin and the driver in the guest need, as an ext4 file next to its kernel and initrd. It
holds nothing of this repository: sources, configurations and the plugin's wheel come on a second
drive (vm.py), so an image stays valid until its recipe below changes.

Knows Debian and mmdebstrap. It must not know QEMU, containerd's configuration or the checks.
No mirror is named: mmdebstrap takes Debian's own address or what the machine's apt is set up for.
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

PACKAGES = (
    "linux-image-cloud-amd64",
    "initramfs-tools",
    "containerd",
    "runc",
    "iproute2",
    "kmod",
    "mount",  # no longer a part of util-linux in sid
    "procps",
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

# Unpacks the second drive, which is a plain tar archive, and leaves the rest to what is on it.
_INIT = """\
#!/bin/sh
init=/e2e/tests/e2e/guest/init
if mkdir -p /e2e && tar -xf /dev/vdb -C /e2e && test -x "$init"; then
    exec "$init"
fi
echo "init: the second drive holds no $init"
exec busybox poweroff -f
"""

# Only the driver of the root disk: everything else is built in, and each module costs boot time.
_INITRAMFS = "MODULES=list\n"
_INITRAMFS_MODULES = "virtio_blk\n"

# Made here, at full speed, as a user would make it; the guest only installs into it.
_VENV = "python3 -m venv --system-site-packages /opt/nri-numamem"

_UNNEEDED = ("/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/man/*", "/usr/share/info/*")
_DISK_SIZE = "1500M"  # sparse; what is beyond the packages is room for containerd
_ATTEMPT_PAUSES_S = (0.0, 10.0, 30.0)
_STAND_IN = {"sid": "forky"}  # for days on which sid cannot be installed
_STAND_IN_LIFETIME_S = 24 * 3600


class ImageError(Exception):
    """An image that cannot be built; the text ends with what the failed tool said."""


@dataclass(frozen=True, slots=True)
class Image:
    """A bootable image; `source` is the suite that it was really made from."""

    suite: str
    source: str
    directory: Path

    @property
    def disk(self) -> Path:
        """The ext4 root file system; to be opened as a snapshot, as it serves every run."""
        return self.directory / "root.ext4"

    @property
    def kernel(self) -> Path:
        """The suite's kernel."""
        return self.directory / "vmlinuz"

    @property
    def initrd(self) -> Path:
        """Its initial RAM disk."""
        return self.directory / "initrd"


def cache_root() -> Path:
    """Give the folder of all images: `${XDG_CACHE_HOME:-~/.cache}/nri_numamem/e2e`."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "nri_numamem" / "e2e"


def key() -> str:
    """Hash everything that goes into an image, so that a changed recipe means a new image."""
    recipe = [_command("SUITE", Path("TAR")), _INIT, _INITRAMFS, _INITRAMFS_MODULES, _DISK_SIZE]
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:16]


def ensure(suite: str) -> Image:
    """Give the image of `suite`, building it first if the cache does not hold it.

    Concurrent calls wait for each other. Raises ImageError when it cannot be built.
    """
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    final = root / f"{suite}-{key()}"
    with _locked(root / f"{suite}.lock"):
        if not final.is_dir() or _is_stale(final, suite):
            _build(suite, final)
    return Image(suite, (final / "source").read_text(encoding="ascii"), final)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_stale(directory: Path, suite: str) -> bool:
    source = directory / "source"
    is_stand_in = source.read_text(encoding="ascii") != suite
    return is_stand_in and time.time() - source.stat().st_mtime > _STAND_IN_LIFETIME_S


def _build(suite: str, final: Path) -> None:
    """Build into a folder of another name, and rename it when it is complete."""
    started = time.monotonic()
    for old in final.parent.glob(f"{suite}-*.partial"):  # of builds that were killed
        shutil.rmtree(old)
    partial = final.with_name(f"{final.name}.partial")
    partial.mkdir()
    source = _bootstrap_any(suite, partial)
    _make_disk(partial)
    (partial / "source").write_text(source, encoding="ascii")
    for old in final.parent.glob(f"{suite}-*"):
        if old != partial:
            shutil.rmtree(old)
    partial.rename(final)
    print(f"image of {suite}: built from {source} in {time.monotonic() - started:.0f} s")


def _bootstrap_any(suite: str, partial: Path) -> str:
    """Make root.tar from the suite or else its stand-in; return which one it was."""
    try:
        _bootstrap(suite, partial)
    except ImageError as error:
        if suite not in _STAND_IN:
            raise
        print(f"image of {suite}: {error}\nimage of {suite}: {_STAND_IN[suite]} stands in for it")
        _bootstrap(_STAND_IN[suite], partial)
        return _STAND_IN[suite]
    return suite


def _bootstrap(suite: str, partial: Path) -> None:
    hooks = {"e2e-init": _INIT, "initramfs": _INITRAMFS, "initramfs-modules": _INITRAMFS_MODULES}
    for name, text in hooks.items():
        (partial / name).write_text(text, encoding="ascii")
    for pause_s in _ATTEMPT_PAUSES_S:  # mirrors have bad moments
        time.sleep(pause_s)
        result = _run(_command(suite, Path("root.tar")), partial)
        if result.returncode == 0:
            return
    raise ImageError(f"mmdebstrap cannot make {suite}; its last lines:\n{_tail(result.stdout)}")


def _command(suite: str, tar: Path) -> list[str]:
    initramfs = "etc/initramfs-tools/conf.d/e2e"
    modules = "usr/share/initramfs-tools/modules.d/e2e"
    return [
        "mmdebstrap",
        "--variant=apt",
        f"--include={','.join(PACKAGES)}",
        # The Release files of moving suites are at times past their date.
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
    """Turn root.tar into the ext4 file, and put kernel and initrd next to it.

    Ownership is not kept: all in the guest runs as root, and this way no privilege is needed.
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
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"  # mke2fs is there
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
