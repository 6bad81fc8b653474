"""Builds artefacts into dist/, for `make wheels`, `make manifests` and `make release`."""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from nri_numamem.version import VERSION
from release import changelog, checks, distributions, manifests, sign, sources, wheelhouse
from release.artefacts import artefacts, targets
from release.errors import ReleaseError
from release.publish import SUMS, others, publish, size_text

MACHINE = os.uname().machine
DIRECTORY = sources.ROOT / "dist"


def main() -> int:
    """Run the command of the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("wheels", help="sdist, wheel and wheelhouse")
    commands.add_parser("manifests", help="Helm chart and kustomize overlays")
    release = commands.add_parser("release", help="all artefacts, with SBOMs and SHA256SUMS")
    release.add_argument(
        "--unreleased",
        action="store_true",
        help="to try it: accepts uncommitted changes and a CHANGELOG.md without the section",
    )
    release.add_argument(
        "--built", action="store_true", help="build nothing: the artefacts are there"
    )
    release.add_argument(
        "--outdated",
        action="store_true",
        help="accept an OpenSSL or CPython that is older than Debian's newest",
    )
    release.add_argument(
        "--sign", metavar="KEY", type=Path, help="sign SHA256SUMS with this private key of SSH"
    )
    args = parser.parse_args()
    try:
        if args.command == "wheels":
            wheels()
        elif args.command == "manifests":
            show(manifests.build(DIRECTORY, VERSION))
        else:
            make_release(args)
    except ReleaseError as error:
        for line in str(error).splitlines():
            print(f"make {args.command}: {line}", file=sys.stderr)
        return 1
    return 0


def wheels() -> None:
    """Build sdist, wheel and wheelhouse. Raises ReleaseError."""
    sdist, wheel = distributions.build(DIRECTORY)
    archive = wheelhouse.build(wheel, DIRECTORY, MACHINE)
    show([sdist, wheel, archive])


def show(paths: Sequence[Path]) -> None:
    """Print size and path of each file."""
    for path in paths:
        print(f"{size_text(path)}  {path}")


def make_release(args: argparse.Namespace) -> None:
    """Build all artefacts and what describes them. Raises ReleaseError."""
    problems = list(checks.of_sources(sources.ROOT, VERSION, is_unreleased=args.unreleased))
    if args.sign is not None:
        problems += sign.problems(args.sign, sign.SIGNERS)
    problems = problems or list(checks.of_upgrade(sources.ROOT))
    if problems:
        raise ReleaseError("\n".join(problems))
    if not args.built:
        build()
    text = (sources.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    section = changelog.notes(text, VERSION, is_unreleased=args.unreleased)
    found = artefacts(VERSION, MACHINE)
    if not (args.unreleased or args.outdated):
        problems = list(checks.of_debian_sources(found[0].contents(DIRECTORY)))
        if problems:
            raise ReleaseError("\n".join(problems))
    print(publish(found, DIRECTORY, VERSION, section, sources.newest_s()), end="")
    if args.sign is None:
        print(f"{SUMS} is not signed; RELEASE='--sign KEY' signs it", file=sys.stderr)
    else:
        sign.sign(DIRECTORY / SUMS, args.sign, sign.SIGNERS)
    more = others(found, DIRECTORY)
    if more:
        print(f"not part of the release: {', '.join(more)}", file=sys.stderr)


def build() -> None:
    """Run the targets of make. Raises ReleaseError if one fails."""
    for target in targets(VERSION, MACHINE):
        print(f"make {target}", flush=True)
        # Variables such as DIST come in MAKEFLAGS.
        status = subprocess.run(["make", "--silent", target], cwd=sources.ROOT, check=False)
        if status.returncode:
            raise ReleaseError(f"make {target} ended with status {status.returncode}")


if __name__ == "__main__":
    sys.exit(main())
