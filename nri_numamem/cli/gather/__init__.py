"""``nri-numamem gather``: one archive with what a bug report needs.

It has versions, settings, the plugin's state and history, the kernel's description of the NUMA
nodes and the end of the log. Of pods it has names, uids and amounts, as the log and the state have
them; nothing is read from inside a container.
"""

import argparse
import io
import os
import tarfile
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from nri_numamem.cli.gather.sources import (
    Item,
    host_files,
    journal,
    log_file,
    output_of,
    versions,
)
from nri_numamem.cli.host_arguments import (
    add_host_argument,
    add_state_file_argument,
    state_file_of,
)
from nri_numamem.config.errors import UsageError
from nri_numamem.numa import humanize_bytes
from nri_numamem.observe.log.loggers import LOG_FILE

_CONTENTS = "contents.txt"

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
        "The archive has names and amounts of pods, and nothing else of them. "
        "Exit status: 0 if the archive was written, 2 if not."
    )


def main(args: argparse.Namespace) -> int:
    """Write the archive and list its contents; raise UsageError if it cannot be written."""
    now = time.gmtime()
    name = f"nri-numamem-{time.strftime('%Y%m%dT%H%M%SZ', now)}"
    path = args.file or Path(f"{name}.tar.gz")
    state_file = state_file_of(args.state_file, args.root)
    items = list(_items(args.root, state_file, args.log_file))
    contents = _contents(items, time.strftime("%Y-%m-%dT%H:%M:%SZ", now))
    try:
        _write(path, name, [Item(_CONTENTS, "", contents.encode()), *items])
    except FileExistsError as error:
        raise UsageError(f"{path}: the file exists; name another one") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; name another file") from error
    _show(path, items)
    return 0


def _items(root: Path, state_file: Path, log: Path) -> Iterator[Item]:
    from nri_numamem.cli import main as program  # noqa: PLC0415 - it imports this module

    yield versions()
    for name, arguments in _commands(root, state_file).items():
        yield output_of(name, program.main, arguments)
    yield from host_files(root, root / str(state_file.parent).lstrip("/"))
    yield log_file(root, root / str(log).lstrip("/"))
    yield journal()


def _commands(root: Path, state_file: Path) -> dict[str, list[str]]:
    """Return file name -> arguments of the command whose output it has."""
    doctor = ["doctor", "--root", str(root), "--state-file", str(state_file), "--output", "json"]
    inspect = ["inspect", "--sysfs-root", str(root / "sys"), "--proc-root", str(root / "proc")]
    return {
        "doctor.json": doctor,
        "machine.yaml": [*inspect, "--output", "yaml"],
        "inspect.txt": inspect,
    }


def _contents(items: Sequence[Item], when: str) -> str:
    lines = [f"Gathered by nri-numamem at {when}.", ""]
    width = max(len(item.name) for item in items)
    for item in items:
        size = f"{len(item.content)} bytes" if item.is_included else "missing"
        problem = f": {item.problem}" if item.problem else ""
        lines.append(f"{item.name:<{width}}  {item.description}, {size}{problem}")
    return "\n".join(lines) + "\n"


def _show(path: Path, items: Sequence[Item]) -> None:
    print(f"{path} has:")
    for description, group in groupby(items, lambda item: item.description):
        found = [item for item in group if item.is_included]
        size = humanize_bytes(sum(len(item.content) for item in found))
        if found:
            print(
                f"  {description}: {len(found)} {'file' if len(found) == 1 else 'files'}, {size}B"
            )
    for item in items:
        if item.problem:
            print(f"  {item.name.removeprefix('files')}: {item.problem}")
    print(f"Look at {_CONTENTS} in it before you send it.")


def _write(path: Path, folder: str, items: Sequence[Item]) -> None:
    """Write a new archive that only its owner can read; remove a part of one after an error."""
    with open(path, "xb", opener=_private) as file:
        try:
            with tarfile.open(fileobj=file, mode="w:gz") as archive:
                for item in items:
                    if item.is_included:
                        entry = tarfile.TarInfo(f"{folder}/{item.name}")
                        entry.size, entry.mtime, entry.mode = len(item.content), time.time(), 0o600
                        archive.addfile(entry, io.BytesIO(item.content))
        except BaseException:
            path.unlink()
            raise


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
