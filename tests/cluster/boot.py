"""What both machines have in common: the drive, a device on a NUMA node, and the report."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import runs, vm

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


def selected_phases(session: pytest.Session, names: Iterable[str]) -> list[str]:
    """Return those of `names` that selected tests belong to; all if no test of one is selected."""
    parameters = [
        item.callspec.params
        for item in session.items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
    ]
    selected = {str(each["phase"]) for each in parameters if "phase" in each}
    return [name for name in names if name in selected] or list(names)


def print_summary(reporter: Any, title: str, report: runs.SuiteReport | None) -> None:  # noqa: ANN401
    """Print the tested versions and the durations; nothing without a report."""
    if report is not None:
        reporter.section(title)
        for line in report.summary:
            reporter.write_line(line)
