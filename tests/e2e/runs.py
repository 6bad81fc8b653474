"""Run one suite: build its image, boot it with the second drive, and read its report.

This module depends on image, drive, machine and the kinds of records, and not on the checks.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e import image, vm

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "e2e"
_GUEST = ROOT / "tests" / "e2e" / "guest"
_TIMEOUT_S = 2400.0  # several times the duration of both suites on two cores under TCG


@dataclass(frozen=True, slots=True)
class SuiteReport:
    """The report of one suite's machine; `error` is empty for a complete run.

    `checks` maps (phase, check) to its record: ok, detail, seconds.
    """

    suite: str
    error: str
    checks: dict[tuple[str, str], dict[str, Any]]
    summary: tuple[str, ...]


def write_drive(artefacts: Mapping[str, Path], phases: Iterable[str]) -> Path:
    """Write the second drive with the artefacts and the guest's files; return its path.

    `artefacts` maps their names on the drive to files; `phases` are the phases to run.
    """
    drive = OUT / "drive.tar"
    vm.write_drive(drive, drive_files(artefacts, phases, OUT))
    return drive


def drive_files(artefacts: Mapping[str, Path], phases: Iterable[str], out: Path) -> dict[str, Path]:
    """Return name on the drive -> file; write the names of the phases to the folder `out`."""
    guest = (path for path in _GUEST.iterdir() if path.is_file())
    files = {f"artefacts/{name}": path for name, path in artefacts.items()}
    files |= {str(path.relative_to(ROOT)): path for path in guest}
    files["troubleshooting.md"] = ROOT / "docs" / "troubleshooting.md"
    files["phases"] = out / "phases"
    files["phases"].write_text(" ".join(phases), encoding="ascii")
    return files


def run(
    suite: str,
    drive: Path,
    out: Path = OUT,
    devices: Sequence[str] = vm.NO_NETWORK,
    variant: image.Variant = image.PLAIN,
) -> SuiteReport:
    """Boot one suite, and build its image if needed; write logs of the guest to the folder `out`.

    `devices` are further arguments of QEMU.
    """
    started = time.monotonic()
    try:
        made = image.ensure(suite, variant)
    except image.ImageError as error:
        return SuiteReport(suite, str(error), {}, (str(error),))
    image_s = time.monotonic() - started
    result = vm.boot(made, drive, out, _TIMEOUT_S, devices)
    broken = [record["detail"] for record in result.records if record["kind"] == "broken"]
    for record in result.records:
        if record["kind"] == "log":
            (out / f"{suite}-{record['name']}").write_text(record["text"], encoding="utf-8")
    return SuiteReport(
        suite=suite,
        error="\n".join([*broken, result.failure]).strip(),
        checks={(r["phase"], r["name"]): r for r in result.records if r["kind"] == "check"},
        summary=(
            f"image: built from {made.source}, ready after {image_s:.0f} s",
            f"machine: {result.accelerator}, {result.duration_s:.0f} s from power on to off",
            *_summary_lines(result.records),
        ),
    )


def _summary_lines(records: tuple[dict[str, Any], ...]) -> Iterator[str]:
    """Yield one line for each record about the run itself."""
    for record in records:
        if record["kind"] == "boot":
            yield f"boot: {record['seconds']:.0f} s until the driver ran"
        elif record["kind"] == "versions":
            yield ", ".join(f"{name} {record[name]}" for name in record if name != "kind")
        elif record["kind"] == "pause":
            seconds = ", ".join(f"{each} s" for each in record["seconds"])
            yield f"phase {record['phase']}: longest pause of each processor: {seconds}"
        elif record["kind"] == "repeated":
            yield f"phase {record['phase']} FAILED AND WAS REPEATED:"
            yield from record["failures"]
        elif record["kind"] == "memory":
            peaks = ", ".join(f"{name} {mib} MiB" for name, mib in record["peaks_mib"].items())
            yield f"phase {record['phase']}: peak resident memory: {peaks}"
        elif record["kind"] == "phase":
            yield f"phase {record['name']}: {record['seconds']} s"
