"""One suite's run from image to report: what is booted, with what, and what came out of it.

Knows how image, drive and machine come together, and the kinds of records. It must not know any
check.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e import image, vm

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "e2e"
_GUEST = ROOT / "tests" / "e2e" / "guest"
_TIMEOUT_S = 1200.0  # several times what both suites need on two cores under TCG


@dataclass(frozen=True, slots=True)
class SuiteReport:
    """What one suite's machine reported; `error` is empty when it went through everything.

    `checks` maps (phase, check) to its record: ok, detail, seconds.
    """

    suite: str
    error: str
    checks: dict[tuple[str, str], dict[str, Any]]
    summary: tuple[str, ...]


def write_drive(wheel: Path) -> Path:
    """Write the second drive, with the wheel to test and the guest's files; return its path."""
    guest = (path for path in _GUEST.iterdir() if path.is_file())
    files = {f"wheel/{wheel.name}": wheel} | {str(path.relative_to(ROOT)): path for path in guest}
    drive = OUT / "drive.tar"
    vm.write_drive(drive, files)
    return drive


def run(suite: str, drive: Path) -> SuiteReport:
    """Boot one suite, building its image if need be; logs of the guest are left in OUT."""
    started = time.monotonic()
    try:
        made = image.ensure(suite)
    except image.ImageError as error:
        return SuiteReport(suite, str(error), {}, (str(error),))
    image_s = time.monotonic() - started
    result = vm.boot(made, drive, OUT, _TIMEOUT_S)
    broken = [record["detail"] for record in result.records if record["kind"] == "broken"]
    for record in result.records:
        if record["kind"] == "log":
            (OUT / f"{suite}-{record['name']}").write_text(record["text"], encoding="utf-8")
    return SuiteReport(
        suite=suite,
        error="\n".join([*broken, result.failure]).strip(),
        checks={(r["phase"], r["name"]): r for r in result.records if r["kind"] == "check"},
        summary=(
            f"image: made from {made.source}, ready after {image_s:.0f} s",
            f"machine: {result.accelerator}, {result.duration_s:.0f} s from power on to off",
            *_told(result.records),
        ),
    )


def _told(records: tuple[dict[str, Any], ...]) -> Iterator[str]:
    """Word the records about the run itself."""
    for record in records:
        if record["kind"] == "boot":
            yield f"boot: {record['seconds']:.0f} s until the driver ran"
        elif record["kind"] == "versions":
            names = ("kernel", "containerd", "runc", "python", "protobuf")
            yield ", ".join(f"{name} {record[name]}" for name in names)
            yield f"plugin: {record['plugin']} ({record['seconds']} s)"
        elif record["kind"] == "standstill":
            seconds = record["seconds"]
            yield f"phase {record['phase']}: the machine stood still for {seconds} s at most"
        elif record["kind"] == "phase":
            yield f"phase {record['name']}: {record['seconds']} s"
