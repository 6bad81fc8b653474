"""Boot one image in QEMU and collect the guest's records.

The machine has four NUMA nodes of 1 GiB in two near pairs (0-1 and 2-3), a fifth one without CPUs,
the image's disk as a snapshot, and a read-only second drive with the files of this repository. It
has no network unless its caller adds one. The fifth node has 256 MiB of slow memory near node 0, as
CXL memory has, described by HMAT. The serial console is written to a file. Records are JSON lines
over a virtio port, because kernel messages may interrupt any line of the console. The guest reads
its arguments from the kernel's command line.

This module depends on QEMU. Of the guest's records it knows only the key "kind".
"""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.machines.image import Image

Record = dict[str, Any]

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

SILENCE_S = 900.0
"""A guest that sends no record for so long hangs: a wait in a check ends after 400 s."""
_FIRST_RECORD_TIMEOUT_S = 60.0  # of a busy host; a kernel under KVM that needs longer hangs
_POLL_S = 0.2
_CONSOLE_TAIL_LINES = 40
_STOPPED = threading.Event()


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one boot: the records in their order, and why it failed.

    `failure` is empty if the guest sent "done", or else the reason and the console's last lines.
    """

    records: tuple[Record, ...]
    failure: str
    accelerator: str
    duration_s: float


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


@dataclass(frozen=True, slots=True)
class Machine:
    """What is booted.

    `drive` is a tar archive, which the image unpacks into /e2e. `devices` are further arguments of
    QEMU, `arguments` are for the guest. `out` is the folder of `NAME.console` and `NAME.results`.
    """

    name: str
    image: Image
    drive: Path
    out: Path
    devices: Sequence[str] = NO_NETWORK
    arguments: Sequence[str] = ()


class Results:
    """The records that a guest has sent so far, from the file to which QEMU writes them."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0
        self.records: list[Record] = []

    def read(self) -> list[Record]:
        """Return the new records; an incomplete last line is read again with the next call."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            complete, newline, _ = file.read().rpartition(b"\n")
        self._offset += len(complete) + len(newline)
        new = []
        for line in complete.splitlines():
            with contextlib.suppress(json.JSONDecodeError):  # of a guest that was killed
                new.append(json.loads(line.decode("utf-8", "replace")))
        self.records += new
        return new


def boot(machine: Machine, deadline_s: float, on_record: Callable[[Record], None]) -> Run:
    """Boot and wait until the machine is off; `on_record` gets each record when it arrives.

    Kills QEMU at `deadline_s` of the monotonic clock, after SILENCE_S without a record, and after
    `stop_all`.
    """
    candidates = accelerators()
    for accelerator in candidates[:-1]:
        run = _boot_with(accelerator, machine, deadline_s, on_record, may_hang=True)
        if run.records:
            return run
        print(f"{machine.name}: no record under {accelerator}: {run.failure}")
    return _boot_with(candidates[-1], machine, deadline_s, on_record, may_hang=False)


def stop_all() -> None:
    """Kill all machines, and let no other start."""
    _STOPPED.set()


def _boot_with(
    accelerator: str,
    machine: Machine,
    deadline_s: float,
    on_record: Callable[[Record], None],
    *,
    may_hang: bool,
) -> Run:
    console, path = (machine.out / f"{machine.name}.{kind}" for kind in ("console", "results"))
    for each in (console, path):
        each.write_bytes(b"")
    started_s = heard_s = time.monotonic()
    results = Results(path)
    silence_s = _FIRST_RECORD_TIMEOUT_S if may_hang else SILENCE_S
    with _process(_command(accelerator, machine, console, path)) as process:
        reason = ""
        while process.poll() is None and not reason:
            time.sleep(_POLL_S)
            for record in results.read():
                on_record(record)
                heard_s, silence_s = time.monotonic(), SILENCE_S
            reason = _reason_to_kill(deadline_s, heard_s, silence_s)
    for record in results.read():
        on_record(record)
    if not reason and not any(record["kind"] == "done" for record in results.records):
        reason = f"QEMU ended with status {process.returncode} before the guest was done"
    failure = f"{reason}; the console ends with\n{_tail(console)}" if reason else ""
    return Run(tuple(results.records), failure, accelerator, time.monotonic() - started_s)


def _reason_to_kill(deadline_s: float, heard_s: float, silence_s: float) -> str:
    """Return why a machine has to end now, or ""."""
    now_s = time.monotonic()
    if _STOPPED.is_set():
        return "killed: the tests ended"
    if now_s > deadline_s:
        return "killed: the time for all phases is over"
    return f"killed: no record within {silence_s:.0f} s" if now_s - heard_s > silence_s else ""


@contextlib.contextmanager
def _process(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def _command(accelerator: str, machine: Machine, console: Path, results: Path) -> list[str]:
    image = machine.image
    return [
        _QEMU,
        *_ACCELERATORS[accelerator],
        *_numa(),
        *("-kernel", str(image.kernel), "-initrd", str(image.initrd)),
        *("-append", " ".join((_KERNEL_ARGUMENTS, *machine.arguments))),
        *_disk("root", f"file={image.disk},format=raw,cache=unsafe,snapshot=on"),
        *_disk("files", f"file={machine.drive},format=raw,readonly=on"),
        *("-serial", f"file:{console}"),
        *("-device", f"virtio-serial-pci,id=serial,{_BUS}"),
        *("-chardev", f"file,id=results,path={results}"),
        *("-device", f"virtserialport,bus=serial.0,chardev=results,name={RESULTS_PORT}"),
        *("-display", "none", "-monitor", "none", "-no-reboot"),
        *machine.devices,
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


def _tail(console: Path) -> str:
    lines = console.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-_CONSOLE_TAIL_LINES:])
