"""The option ``--machine FILE`` of several commands: another machine than this host."""

import argparse
from pathlib import Path

from nri_numamem.config.documents import load_document, name_of, place_in, read_file
from nri_numamem.config.errors import UsageError
from nri_numamem.config.values import SettingsError
from nri_numamem.host.roots import HostRoots
from nri_numamem.host.sysfs import MachineError
from nri_numamem.host.topology import read_machine
from nri_numamem.numa import Machine
from nri_numamem.scenario import values


def add_machine_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        "--machine",
        metavar="FILE",
        type=Path,
        help="the machine in this file, as `inspect --output yaml` prints it, instead of this host",
    )


def machine_of(path: Path | None, roots: HostRoots | None = None) -> Machine:
    """Return the machine in a file, or without one that of the host; raise UsageError."""
    if path is None:
        roots = roots or HostRoots()
        try:
            return read_machine(roots.sysfs, roots.proc)
        except MachineError as error:
            raise UsageError(str(error)) from error
    content = read_file(path)
    document = load_document(content, name_of(path))
    if not isinstance(document, dict) or "machine" not in document:
        remedy = "give a scenario, or what `nri-numamem inspect --output yaml` prints"
        raise UsageError(f"{name_of(path)}: no key machine; {remedy}")
    try:
        return values.read_machine(("machine",), document["machine"])
    except SettingsError as error:
        raise UsageError(f"{place_in(content, name_of(path), error.path)}: {error}") from error
