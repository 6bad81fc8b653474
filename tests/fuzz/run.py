"""Fuzz the targets, each in its own process, several at the same time: `make fuzz`.

    tests/fuzz/run.py [--seconds N] [--jobs N] [--seed N] [TARGET ...]

It starts with tests/fuzz/corpus and adds inputs with new coverage to build/fuzz/TARGET/corpus. An
input that fails, hangs or exceeds the memory limit is written to build/fuzz/TARGET, and the exit
status is 1; `run.py --replay FILE TARGET` runs it again. minimize.py adds the results of a longer
run to the committed corpus. The exit status is 2 where the fuzzer is not installed. With a seed,
the same code gets the same inputs, as many as there is time for.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.fuzz import targets  # noqa: E402 - found by the line above

_OUT = ROOT / "build" / "fuzz"
_PACKAGE = "nri_numamem"
_MEMORY = "/dev/shm"  # some targets write thousands of files
_COLUMNS = 200  # the whole input is in its file
# Per input: seconds, memory, bytes.
_LIMITS = ("-timeout=10", "-rss_limit_mb=2048", "-max_len=4096")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Fuzz the plugin.")
    parser.add_argument("--seconds", type=int, default=20, help="for each target (%(default)s)")
    parser.add_argument("--jobs", type=int, default=_cores(), help="parallel targets (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="0: another one in each run")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run one input and end")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("targets", nargs="*", metavar="TARGET", default=targets.NAMES)
    args = parser.parse_args()
    unknown = set(args.targets) - set(targets.NAMES)
    if unknown:
        parser.error(f"no target {min(unknown)}; there are {', '.join(targets.NAMES)}")
    if args.child:
        _fuzz(args.targets[0], args.seconds, args.seed)
    if args.replay:
        for name in args.targets:
            targets.load(name)(args.replay.read_bytes())
        return 0
    if importlib.util.find_spec("atheris") is None:
        version = ".".join(map(str, sys.version_info[:2]))
        print(f"Nothing was fuzzed: atheris is not installed for Python {version}.")
        print("It has wheels for 3.11 to 3.13; choose one: make clean; make PYTHON=python3.13 fuzz")
        return 2
    with ThreadPoolExecutor(args.jobs) as pool:
        passed = pool.map(lambda name: _run(name, args.seconds, args.seed), args.targets)
        failed = [name for name, well in zip(args.targets, passed, strict=True) if not well]
    if failed:
        print(f"Findings in {', '.join(failed)}; the inputs are in {_OUT}/TARGET")
    return 1 if failed else 0


def _cores() -> int:
    """Return the number of usable processors: each target occupies one."""
    return len(os.sched_getaffinity(0))


def _run(name: str, seconds: int, seed: int) -> bool:
    folder = _OUT / name
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    command = [sys.executable, __file__, "--child", f"--seconds={seconds}", f"--seed={seed}", name]
    memory = _MEMORY if Path(_MEMORY).is_dir() else None
    # The fuzzer ends its process without removing its temporary files.
    with (
        (folder / "log").open("wb") as log,
        tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory) as files,
    ):
        environment = {**os.environ, "TMPDIR": files}
        ended = subprocess.run(
            command, stdout=log, stderr=subprocess.STDOUT, env=environment, check=False
        )
    lines = (folder / "log").read_text(errors="replace").splitlines()
    # Progress lines of the fuzzer precede the exception.
    found = [number for number, line in enumerate(lines) if "Uncaught Python exception" in line]
    shown = lines[-1:] if ended.returncode == 0 else lines[max(found, default=-40) :]
    text = "\n".join(line[:_COLUMNS] for line in shown)
    print(f"--- {name}, {seconds} s\n{text}\n", end="", flush=True)  # other threads print, too
    # The fuzzer's last line is the number of runs.
    return ended.returncode == 0 and bool(lines) and lines[-1].startswith("Done ")


def _fuzz(name: str, seconds: int, seed: int) -> None:
    """Fuzz one target and end the process."""
    import atheris  # imported here, because --replay works without it

    with atheris.instrument_imports(include=[_PACKAGE]):
        target = targets.load(name)
    folder = _OUT / name
    found, seeds = folder / "corpus", targets.CORPUS / name
    options = [
        *_LIMITS,
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        f"-artifact_prefix={folder}/",
    ]
    if name in targets.TEXT_TARGETS:
        options.append(f"-dict={targets.FOLDER / 'words.dict'}")
    atheris.Setup([sys.argv[0], *options, str(found), str(seeds)], target)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
