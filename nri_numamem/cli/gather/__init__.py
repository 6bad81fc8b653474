"""``nri-numamem gather``: one archive with what a bug report needs.

It contains versions, settings, the plugin's state and history, the kernel's description of the NUMA
nodes and the end of the log. About pods it contains the names, uids and amounts in log and state;
nothing is read inside a container. Its last file lists the contents, and what is left out and why.
"""

import argparse
import io
import os
import tarfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from nri_numamem.cli.gather.sources import (
    Item,
    journal,
    kernel_files,
    log_files,
    output_of,
    settings_files,
    state_files,
    versions,
)
from nri_numamem.cli.host_arguments import (
    add_host_argument,
    add_state_file_argument,
    state_file_of,
)
from nri_numamem.cli.host_files import Host
from nri_numamem.cli.render.texts import format_time
from nri_numamem.config.errors import UsageError
from nri_numamem.config.host_paths import below
from nri_numamem.numa import humanize_bytes
from nri_numamem.observe.log.loggers import LOG_FILE

_CONTENTS = "contents.txt"

TOTAL_LIMIT_BYTES = 64 << 20
# The size of a file in the archive without its contents.
_HEADER_BYTES = 1024

EXAMPLES = (
    "nri-numamem gather",
    "nri-numamem gather --log-file /var/log/numamem.log /tmp/report.tar.gz",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        nargs="?",
        help="the archive to write (default: nri-numamem-TIME.tar.gz in the current directory)",
    )
    add_state_file_argument(parser)
    parser.add_argument(
        "--log-file",
        type=Path,
        default=LOG_FILE,
        metavar="FILE",
        help="the plugin's log, whose end is included (default: %(default)s)",
    )
    add_host_argument(parser)
    parser.epilog = (
        "About pods the archive contains only names, uids and amounts. Symbolic links and files "
        "that the plugin does not write are left out and listed in its contents.txt. Exit status: "
        "0 if the archive was written, 2 if not."
    )


def main(args: argparse.Namespace) -> int:
    """Write the archive and list its contents; raise UsageError if it cannot be written."""
    now = format_time(time.time())
    name = f"nri-numamem-{now.replace('-', '').replace(':', '')}"
    path = args.file or Path(f"{name}.tar.gz")
    state_file = state_file_of(args.state_file, args.root)
    written = Written(f"Gathered by nri-numamem at {now}.")
    try:
        _write(path, name, _items(args.root, state_file, args.log_file), written)
    except FileExistsError as error:
        raise UsageError(f"{path}: the file exists; name another one") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; name another file") from error
    written.show(path)
    return 0


class Written:
    """The list of what the archive contains so far."""

    def __init__(self, heading: str) -> None:
        self._heading = heading
        self._lines: list[tuple[str, str]] = []
        """Name of a file, and what it is."""
        self._sizes: dict[str, list[int]] = {}
        """Description -> sizes of files in bytes."""
        self._problems: list[str] = []
        self._total_bytes = 0

    def add(self, item: Item) -> Item:
        """Return the item for the archive; it loses its content if the archive is full."""
        size = len(item.content) + _HEADER_BYTES
        if self._total_bytes + size > TOTAL_LIMIT_BYTES and item.is_included:
            problem = f"left out: the other files have {humanize_bytes(self._total_bytes)}B"
            item = replace(item, content=b"", problem=problem)
        text = f"{len(item.content)} bytes" if item.is_included else "missing"
        problem = f": {item.problem}" if item.problem else ""
        self._lines.append((item.name, f"{item.description}, {text}{problem}"))
        if item.problem:
            self._problems.append(f"{item.name.removeprefix('files')}: {item.problem}")
        if item.is_included:
            self._total_bytes += size
            self._sizes.setdefault(item.description, []).append(len(item.content))
        return item

    @property
    def contents(self) -> Item:
        """Return the list of contents."""
        width = max((len(name) for name, _ in self._lines), default=0)
        lines = [self._heading, "", *(f"{name:<{width}}  {text}" for name, text in self._lines)]
        return Item(_CONTENTS, "", "".join(f"{line}\n" for line in lines).encode())

    def show(self, path: Path) -> None:
        """Print what the archive has, for people."""
        print(f"{path} has:")
        for description, sizes in self._sizes.items():
            files = "file" if len(sizes) == 1 else "files"
            print(f"  {description}: {len(sizes)} {files}, {humanize_bytes(sum(sizes))}B")
        print("".join(f"  {line}\n" for line in self._problems), end="")
        print(f"Look at {_CONTENTS} in it before you send it.")


def _items(root: Path, state_file: Path, log: Path) -> Iterator[Item]:
    from nri_numamem.cli import main as program  # noqa: PLC0415 - it imports this module

    doctor = ["doctor", "--root", str(root), "--state-file", str(state_file), "--output", "json"]
    sysfs, proc = below(root, "/sys"), below(root, "/proc")
    inspect = ["inspect", "--sysfs-root", str(sysfs), "--proc-root", str(proc)]
    yield versions()
    yield output_of("doctor.json", program.main, doctor)
    yield output_of("machine.yaml", program.main, [*inspect, "--output", "yaml"])
    yield output_of("inspect.txt", program.main, inspect)
    yield from settings_files(root)
    yield from state_files(root, state_file)
    yield from kernel_files(root)
    yield from log_files(root, log)
    yield journal(is_this_host=Host(root).is_this_host)


def _write(path: Path, folder: str, items: Iterable[Item], written: Written) -> None:
    """Write a new archive that only its owner can read; remove it again after an error."""
    with open(path, "xb", opener=_private) as file:
        try:
            with tarfile.open(fileobj=file, mode="w:gz") as archive:
                for item in items:
                    _append(archive, folder, written.add(item))
                _append(archive, folder, written.contents)
        except BaseException:
            path.unlink()
            raise


def _append(archive: tarfile.TarFile, folder: str, item: Item) -> None:
    if item.is_included:
        entry = tarfile.TarInfo(f"{folder}/{item.name}")
        entry.size, entry.mtime, entry.mode = len(item.content), time.time(), 0o600
        archive.addfile(entry, io.BytesIO(item.content))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
