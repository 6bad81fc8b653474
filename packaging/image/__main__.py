"""Builds the container image as an archive in dist/; `make image` runs this.

It needs neither a container engine nor a registry. README.md describes how to load the archive.
"""

import argparse
import os
import sys
from pathlib import Path

from release import distributions
from single_file.commands import BuildError

from image import archive, glibc, root
from nri_numamem.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
NAME = "localhost/nri-numamem"
MACHINE = os.uname().machine


def main() -> int:
    """Build; return the exit status."""
    default = ROOT / "dist" / f"nri-numamem-{VERSION}-linux-{MACHINE}"
    parser = argparse.ArgumentParser(prog="make image", description=__doc__)
    parser.add_argument(
        "program", type=Path, nargs="?", default=default, help="the file of make dist (%(default)s)"
    )
    parser.add_argument(
        "directory", type=Path, nargs="?", default=default.parent, help="(%(default)s)"
    )
    parser.add_argument("--name", default=NAME, help="of the image, without its tag (%(default)s)")
    parser.add_argument(
        "--refresh", action="store_true", help="take the newest package of the C library"
    )
    parser.add_argument(
        "--root", type=Path, metavar="FOLDER", help="also write the root into a new folder"
    )
    args = parser.parse_args()
    if not args.program.exists():
        print(f"make image: {args.program} is missing; run: make dist", file=sys.stderr)
        return 1
    try:
        deb = glibc.package(glibc.cache_root(), refresh=args.refresh)
        content = root.entries(args.program, glibc.files(deb))
    except BuildError as error:
        print(f"make image: {error}", file=sys.stderr)
        return 1
    output = args.directory / f"nri-numamem-{VERSION}-image-linux-{MACHINE}.tar"
    digest = archive.write(output, content, args.name, VERSION, distributions.date_s())
    if args.root is not None:
        root.write(args.root, content)
    print(f"{digest}  {args.name}:{VERSION}")
    print(f"{output}, {output.stat().st_size / 1e6:.1f} MB, with {deb.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
