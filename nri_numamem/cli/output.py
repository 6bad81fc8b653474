"""The options of output: ``--output`` and those of the log, and documents as JSON or YAML.

docs/output.md documents the documents. Each begins with its version, which is raised when a key
is removed or changes its meaning; any release may add keys.
"""

import argparse
import json
import sys

from nri_numamem.config.table import LOG_FORMATS, LOG_LEVELS

OUTPUTS = ("table", "json", "yaml")
DOCUMENT_VERSION = 1
"""The version of all documents so far."""


def add_output_argument(
    parser: argparse.ArgumentParser, text: str = "format", more: tuple[str, ...] = ()
) -> None:
    """Add the option; its default is for people. `more` are formats of this command only."""
    parser.add_argument(
        "--output",
        choices=(*OUTPUTS, *more),
        default=OUTPUTS[0],
        help=f"{text} (default: %(default)s)",
    )


def add_log_arguments(parser: argparse.ArgumentParser, title: str = "") -> None:
    """Add the options of the log, in a group if it has a title; without an option it is None."""
    log = parser.add_argument_group(title) if title else parser
    log.add_argument(
        "--log-level",
        choices=LOG_LEVELS,
        help=f"the lowest level logged (default: {LOG_LEVELS[0]})",
    )
    log.add_argument(
        "--log-format",
        choices=LOG_FORMATS,
        help=f"auto is console on a terminal and json elsewhere (default: {LOG_FORMATS[0]})",
    )


def print_document(document: object, output: str) -> None:
    """Print a document as "json" or "yaml" on standard output."""
    if output == "json":
        print(json.dumps(document, indent=2))
        return
    import yaml  # noqa: PLC0415 - only here

    class Dumper(yaml.SafeDumper):
        """Writes equal values each time, without anchors."""

        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
            return True

    yaml.dump(document, sys.stdout, Dumper=Dumper, sort_keys=False, allow_unicode=False)
