"""What machines with phases have in common: drive, selected phases, a device on a NUMA node."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.e2e import image, runs, vm

CRI_IMAGE = image.Variant("cri", ("conmon", "crun", "skopeo"))
"""The image of the machines without a kubelet."""

_SERVICE = "tests/e2e/guest/e2e.service"


def write_drive(
    artefacts: Mapping[str, Path], phases: Iterable[str], out: Path, guest: Path
) -> Path:
    """Write the drive to the folder `out`; the guest runs `main` of the folder `guest`."""
    files = runs.drive_files(artefacts, phases, out)
    files |= {str(path.relative_to(runs.ROOT)): path for path in guest.glob("*.py")}
    files[_SERVICE] = _service(out, ".".join((*guest.relative_to(runs.ROOT).parts, "main")))
    drive = out / "drive.tar"
    vm.write_drive(drive, files)
    return drive


def _service(out: Path, module: str) -> Path:
    """Write the service of tests/e2e with another main module; return its path."""
    text = (runs.ROOT / _SERVICE).read_text(encoding="utf-8")
    path = out / "e2e.service"
    path.write_text(text.replace("tests.e2e.guest.main", module))
    return path


def accelerator(node: int, port: str) -> tuple[str, ...]:
    """Return QEMU's arguments for a character device of a NUMA node; `port` is its name.

    It is a virtio console on a PCI root bus of its own, for which the firmware reports the node.
    """
    return (
        *("-device", f"pxb,id=pxb,bus=pci.0,bus_nr=128,numa_node={node}"),
        *("-device", "virtio-serial-pci,id=accelerator,bus=pxb"),
        *("-chardev", "null,id=accelerator"),
        *("-device", f"virtserialport,bus=accelerator.0,chardev=accelerator,name={port}"),
    )


def selected_phases(items: Iterable[pytest.Item], names: Iterable[str]) -> list[str]:
    """Return those of `names` that the tests belong to; all if no test belongs to one."""
    parameters = [
        item.callspec.params
        for item in items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
    ]
    selected = {str(each["phase"]) for each in parameters if "phase" in each}
    return [name for name in names if name in selected] or list(names)
