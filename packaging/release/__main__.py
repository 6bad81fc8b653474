"""Builds the artefacts of a release into dist/; `make wheels` runs this."""

import argparse
import os
import sys
from pathlib import Path

from release import distributions, sources, wheelhouse
from release.errors import ReleaseError


def main() -> int:
    """Run the command of the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("wheels", help="sdist, wheel and wheelhouse")
    for each in commands.choices.values():
        output = sources.ROOT / "dist"
        each.add_argument("--output", type=Path, default=output, help="(%(default)s)")
    args = parser.parse_args()
    try:
        wheels(args.output)
    except ReleaseError as error:
        print(f"make {args.command}: {error}", file=sys.stderr)
        return 1
    return 0


def wheels(output: Path) -> None:
    """Build sdist, wheel and wheelhouse. Raises ReleaseError."""
    sdist, wheel = distributions.build(output)
    archive = wheelhouse.build(wheel, output, os.uname().machine)
    for path in (sdist, wheel, archive):
        print(f"{path.stat().st_size / 1e6:.1f} MB  {path}")


if __name__ == "__main__":
    sys.exit(main())
