"""Builds the single executable file into dist/; `make dist` runs this."""

import argparse
import hashlib
import os
import re
import sys
import tempfile
from pathlib import Path

import claim_hook
from release import distributions, sbom
from release.errors import ReleaseError

from single_file import artefact, components, interpreter, openssl
from single_file.commands import BuildError


def main() -> int:
    """Build; return the exit status."""
    parser = argparse.ArgumentParser(prog="make dist", description=__doc__)
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument(
        "--plain",
        action="store_const",
        const=("plain",),
        default=("optimized",),
        dest="kinds",
        help="an interpreter without PGO: a small part of the time, and slower",
    )
    kinds.add_argument(
        "--quick",
        action="store_const",
        const=("optimized", "plain"),
        dest="kinds",
        help="the same, unless the cache has an interpreter with PGO",
    )
    parser.add_argument(
        "--refresh", action="store_true", help="take the newest packages of Debian into account"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="compilers at a time (%(default)s)"
    )
    parser.add_argument(
        "--cache", type=Path, default=interpreter.cache_root(), help="(%(default)s)"
    )
    parser.add_argument("--output", type=Path, default=artefact.ROOT / "dist", help="(%(default)s)")
    parser.add_argument(
        "--twin", type=Path, help="also write a program that runs its argument as Python, for tests"
    )
    args = parser.parse_args()
    program = args.output / f"nri-numamem-{_version()}-linux-{os.uname().machine}"
    cache = args.cache.resolve()
    try:
        with tempfile.TemporaryDirectory() as folder, interpreter.locked(cache):
            hook = claim_hook.build(Path(folder))
            built = interpreter.ensure(
                cache, kinds=args.kinds, jobs=args.jobs, refresh=args.refresh
            )
            tls = openssl.ensure(cache, jobs=args.jobs)
            artefact.build(built, tls, hook, program, args.twin)
            contents = components.collect(built, hook)
        own = sbom.own(program, _version())
        sbom.write(program, sbom.document(own, contents, distributions.date_s()))
    except (BuildError, ReleaseError) as error:
        print(f"single file: {error}", file=sys.stderr)
        return 1
    digest = hashlib.sha256(program.read_bytes()).hexdigest()
    print(f"{digest}  {program}")
    print(f"{program.stat().st_size / 1e6:.1f} MB, {(built.folder / 'built').read_text().strip()}")
    return 0


def _version() -> str:
    text = (artefact.ROOT / "nri_numamem/version.py").read_text(encoding="utf-8")
    match = re.search(r'^VERSION = "(.+)"$', text, re.MULTILINE)
    if match is None:
        raise ValueError("nri_numamem/version.py has no VERSION")
    return match[1]


sys.exit(main())
