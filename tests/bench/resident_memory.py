"""Split an idle plugin's resident memory into interpreter, standard library, libraries, own code.

Each step is a fresh interpreter of the installed plugin's environment that imports the modules of
all earlier steps and some more. File pages count too, as they do for Go programs.
`python -m tests.bench.resident_memory` prints the table.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.bench import installed
from tests.bench.host import MI
from tests.bench.report import markdown

# Prints the modules of a running plugin by origin.
_MODULES = """
import sys
before = {*sys.modules}
import nri_numamem.cli.main, nri_numamem.cli.run
nri_numamem.cli.main.new_parser(["run"]).parse(["run"])
found = sorted({*sys.modules} - before)
own = [name for name in found if name.partition(".")[0] == "nri_numamem"]
standard = [name for name in found if name.partition(".")[0] in sys.stdlib_module_names]
others = [name for name in found if name not in own and name not in standard]
for names in (standard, others, own):
    print(*names)
"""

_RESIDENT = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError:  # a module that its library creates without a file
        pass
text = open("/proc/self/status").read()
print(text.partition("VmRSS:")[2].split()[0])
"""

STEPS = ("CPython", "and the standard library's modules", "and protobuf, structlog", "and its own")


def measure(program: Path) -> dict[str, int]:
    """Return resident bytes after each step, for the plugin installed as `program`."""
    python = program.with_name("python")
    kinds = _run(python, _MODULES).splitlines()
    found: dict[str, int] = {}
    names: list[str] = []
    for step, more in zip(STEPS, ("", *kinds), strict=True):
        names += more.split()
        found[step] = 1024 * int(_run(python, _RESIDENT, *names))
    return found


def _run(python: Path, script: str, *arguments: str) -> str:
    command = (str(python), "-I", "-c", script, *arguments)
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def rows(found: dict[str, int]) -> list[Sequence[str]]:
    """Return the table."""
    return [
        ("what is imported", "resident"),
        *((step, f"{size_bytes / MI:.1f} MiB") for step, size_bytes in found.items()),
    ]


if __name__ == "__main__":
    print(markdown(rows(measure(installed.install("resident_memory")))))
