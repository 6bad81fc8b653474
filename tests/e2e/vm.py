"""Boot one image in QEMU and collect the guest's records.

The machine has four NUMA nodes of 1 GiB in two near pairs (0-1 and 2-3), a fifth one without CPUs,
the image's disk as a snapshot, and a read-only second drive with the files of this repository. It
has no network unless its caller adds one. The fifth node has 256 MiB of slow memory near node 0, as
CXL memory has, described by HMAT. The serial console is written to a file. Records are JSON lines
over a virtio port, because kernel messages may interrupt any line of the console.

This module depends on QEMU. Of the guest's records it knows only the key "kind".
"""

import contextlib
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.image import Image

NODES = 4
"""With CPUs; the node without CPUs has this number."""
NEAR_PAIRS = ((0, 1), (2, 3))
ACCELERATOR_VARIABLE = "NRI_NUMAMEM_E2E_ACCEL"
RESULTS_PORT = "results"
NO_NETWORK = ("-net", "none")

_QEMU = "qemu-system-x86_64"
# Named, because further devices may include a bus.
_BUS = "bus=pci.0"
_NEAR, _FAR = 12, 20
_CPULESS_MIB = 256
# With automatic NUMA balancing the kernel swaps tasks of two processors, which wait for each other
# with interrupts disabled: up to 15 s where all processors share one thread.
_KERNEL_ARGUMENTS = (
    "console=ttyS0 panic=-1 quiet numa_balancing=disable root=/dev/vda rw init=/e2e-init"
)
# Distance, latency in ns and bandwidth of the node without CPUs; near and far for DRAM.
_CPULESS_DISTANCE = 30
_LATENCY_NS = (10, 100)
_BANDWIDTH = ("10G", "2G")

# TCG: with several threads kernels crash on patched code; with cx16 they double-fault at times.
_ACCELERATORS = {
    "kvm": ("-accel", "kvm", "-cpu", "host"),
    "tcg": ("-accel", "tcg,thread=single", "-cpu", "max,-cx16"),
}

# mov dx,0xf4; mov al,0x10; out dx,al: isa-debug-exit then ends QEMU with status 2*0x10+1.
_PROBE_SECTOR = b"\xba\xf4\x00\xb0\x10\xee\xf4".ljust(510, b"\0") + b"\x55\xaa"
_PROBE_STATUS = 0x21
_PROBE_TIMEOUT_S = 2.0  # TCG needs 0.1 s; a much slower KVM is useless

_FIRST_RECORD_TIMEOUT_S = 30.0  # TCG needs 35 s; a kernel under KVM that needs longer hangs
_POLL_S = 0.2
_CONSOLE_TAIL_LINES = 40


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one boot: the records in their order, and why it failed.

    `failure` is empty if the guest sent "done", or else the reason and the console's last lines.
    """

    records: tuple[dict[str, Any], ...]
    failure: str
    accelerator: str
    duration_s: float


def accelerators() -> tuple[str, ...]:
    """Return the accelerators to try in order: that of the environment variable, or all that work.

    Raises ValueError if the variable is neither kvm nor tcg, and OSError without QEMU.
    """
    if shutil.which(_QEMU) is None:
        raise OSError(f"{_QEMU} is not installed: apt-get install qemu-system-x86")
    forced = os.environ.get(ACCELERATOR_VARIABLE, "")
    if forced in _ACCELERATORS:
        return (forced,)
    if forced:
        raise ValueError(f"{ACCELERATOR_VARIABLE}={forced}: set it to kvm or tcg, or unset it")
    return ("kvm", "tcg") if _kvm_works() else ("tcg",)


def _kvm_works() -> bool:
    """Return whether KVM executes three instructions; /dev/kvm may exist without working."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    with tempfile.NamedTemporaryFile() as sector:
        sector.write(_PROBE_SECTOR)
        sector.flush()
        command = [_QEMU, *_ACCELERATORS["kvm"], "-m", "16", "-display", "none", "-nodefaults"]
        command += ["-device", "isa-debug-exit,iobase=0xf4,iosize=1"]
        command += ["-drive", f"file={sector.name},format=raw,if=ide,snapshot=on"]
        try:
            result = subprocess.run(
                command, capture_output=True, check=False, timeout=_PROBE_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            return False
    return result.returncode == _PROBE_STATUS


def write_drive(path: Path, files: Mapping[str, Path]) -> None:
    """Write the second drive, a tar archive that the image unpacks into /e2e.

    `files` maps names in the archive to files on the host; modes are preserved.
    """
    with tarfile.open(path, "w") as archive:
        for name, source in sorted(files.items()):
            archive.add(source, name, recursive=False)


def boot(
    image: Image, drive: Path, out: Path, timeout_s: float, devices: Sequence[str] = NO_NETWORK
) -> Run:
    """Boot and wait until the machine is off; kill QEMU after `timeout_s`.

    `devices` are further arguments of QEMU. Writes `<suite>.console` and `<suite>.results` to the
    folder `out`.
    """
    candidates = accelerators()
    for accelerator in candidates[:-1]:
        run = _boot_with(accelerator, image, drive, out, timeout_s, devices, may_hang=True)
        if run.records:
            return run
        print(f"{image.suite}: no record under {accelerator}: {run.failure}")
    return _boot_with(candidates[-1], image, drive, out, timeout_s, devices, may_hang=False)


def _boot_with(
    accelerator: str,
    image: Image,
    drive: Path,
    out: Path,
    timeout_s: float,
    devices: Sequence[str],
    *,
    may_hang: bool,
) -> Run:
    console, results = out / f"{image.suite}.console", out / f"{image.suite}.results"
    for path in (console, results):
        path.write_bytes(b"")
    started = time.monotonic()
    command = _command(accelerator, image, drive, console, results)
    with _machine([*command, *devices]) as machine:
        reason = ""
        while machine.poll() is None and not reason:
            time.sleep(_POLL_S)
            age_s = time.monotonic() - started
            if age_s > timeout_s:
                reason = f"killed after {timeout_s:.0f} s"
            elif may_hang and age_s > _FIRST_RECORD_TIMEOUT_S and not results.stat().st_size:
                reason = f"killed: no record within {_FIRST_RECORD_TIMEOUT_S:.0f} s"
    records = tuple(_records(results))
    if not reason and not any(record["kind"] == "done" for record in records):
        reason = f"QEMU ended with status {machine.returncode} before the guest was done"
    failure = f"{reason}; the console ends with\n{_tail(console)}" if reason else ""
    return Run(records, failure, accelerator, time.monotonic() - started)


@contextlib.contextmanager
def _machine(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as machine:
        try:
            yield machine
        finally:
            machine.kill()


def _command(
    accelerator: str, image: Image, drive: Path, console: Path, results: Path
) -> list[str]:
    return [
        _QEMU,
        *_ACCELERATORS[accelerator],
        *_numa(),
        *("-kernel", str(image.kernel), "-initrd", str(image.initrd)),
        *("-append", _KERNEL_ARGUMENTS),
        *_disk("root", f"file={image.disk},format=raw,cache=unsafe,snapshot=on"),
        *_disk("files", f"file={drive},format=raw,readonly=on"),
        *("-serial", f"file:{console}"),
        *("-device", f"virtio-serial-pci,id=serial,{_BUS}"),
        *("-chardev", f"file,id=results,path={results}"),
        *("-device", f"virtserialport,bus=serial.0,chardev=results,name={RESULTS_PORT}"),
        *("-display", "none", "-monitor", "none", "-no-reboot"),
    ]


def _disk(name: str, drive: str) -> tuple[str, ...]:
    return (
        "-drive",
        f"if=none,id={name},{drive}",
        "-device",
        f"virtio-blk-pci,drive={name},{_BUS}",
    )


def _numa() -> list[str]:
    size_mib = NODES * 1024 + _CPULESS_MIB
    arguments = ["-machine", "hmat=on", "-m", f"{size_mib}M"]
    arguments += ["-smp", f"{NODES},sockets={NODES},cores=1"]
    for node in range(NODES):
        arguments += ["-object", f"memory-backend-ram,id=m{node},size=1G"]
        arguments += ["-numa", f"node,nodeid={node},cpus={node},memdev=m{node}"]
    for source in range(NODES):
        for target in range(source + 1, NODES):
            distance = _NEAR if (source, target) in NEAR_PAIRS else _FAR
            arguments += ["-numa", f"dist,src={source},dst={target},val={distance}"]
    return arguments + _node_without_cpus()


def _node_without_cpus() -> list[str]:
    arguments = ["-object", f"memory-backend-ram,id=m{NODES},size={_CPULESS_MIB}M"]
    arguments += ["-numa", f"node,nodeid={NODES},memdev=m{NODES},initiator=0"]
    for node in range(NODES):
        distance = f"dist,src={node},dst={NODES},val={_CPULESS_DISTANCE}"
        arguments += ["-numa", distance]
    for initiator in range(NODES):
        for target in range(NODES + 1):
            kind = int(target == NODES)
            shared = f"hmat-lb,initiator={initiator},target={target},hierarchy=memory"
            latency = f"data-type=access-latency,latency={_LATENCY_NS[kind]}"
            bandwidth = f"data-type=access-bandwidth,bandwidth={_BANDWIDTH[kind]}"
            arguments += ["-numa", f"{shared},{latency}", "-numa", f"{shared},{bandwidth}"]
    return arguments


def _records(results: Path) -> Iterator[dict[str, Any]]:
    for line in results.read_text(encoding="utf-8", errors="replace").splitlines():
        with contextlib.suppress(json.JSONDecodeError):  # an incomplete last line of a killed guest
            yield json.loads(line)


def _tail(console: Path) -> str:
    lines = console.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-_CONSOLE_TAIL_LINES:])
