"""The options that `install` and `uninstall` have in common."""

import argparse
from pathlib import Path

from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation.facts import RUNTIMES


def add_installation_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--runtime``, ``--root`` and ``--dry-run``."""
    parser.add_argument(
        "--runtime",
        choices=RUNTIMES,
        help="the container runtime (default: the one that is configured)",
    )
    parser.add_argument(
        "--root",
        type=Path,
        default=Host().root,
        metavar="DIRECTORY",
        help="root directory of the host, such as of an image; systemctl is used for / only "
        "(default: %(default)s)",
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would be done")
