"""The pictures of the documents: what the commands print on simulated machines, as SVG.

Times and ids are fixed, so that the same code gives the same files.
"""

import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from rich.text import Text

from nri_numamem.cli.main import main
from tests.laboratory import demo
from tests.pictures.hosts import (
    NOW_S,
    REFUSED,
    busy_host,
    misconfigured_host,
    write_machine_with_cxl,
)
from tests.pictures.svg import COLUMNS, render

FOLDER = Path(__file__).resolve().parents[2] / "docs/pictures"
LAST_STEPS = "7. "
"""Where the last screen of `make run` begins."""
_ENVIRONMENT = {
    "COLUMNS": str(COLUMNS),
    "FORCE_COLOR": "1",
    "LC_ALL": "C.UTF-8",
    "TERM": "xterm-256color",
}
_NOT_IN_ENVIRONMENT = ("COLORTERM", "NO_COLOR")


def pictures() -> dict[str, str]:
    """Return file name -> SVG of all pictures."""
    found = {}
    with tempfile.TemporaryDirectory() as folder, _surroundings(Path(folder)):
        for name, (title, printed) in {"run": run_screen(), **command_screens()}.items():
            found.update(render(name, title, printed))
    return found


@contextmanager
def _surroundings(folder: Path) -> Iterator[None]:
    """Let commands print for a terminal, and name files relative to a folder."""
    environment = {k: v for k, v in os.environ.items() if k not in _NOT_IN_ENVIRONMENT}
    with patch.dict(os.environ, environment | _ENVIRONMENT, clear=True), chdir(folder):
        yield


def run_screen() -> tuple[str, Text]:
    """Return title and last screen of `make run` on a host without NRI."""
    with redirect_stdout(io.StringIO()) as output:
        status = demo.main()
    assert status == 0
    lines = Text.from_ansi(output.getvalue()).split(allow_blank=True)
    first = next(number for number, line in enumerate(lines) if line.plain.startswith(LAST_STEPS))
    return "make run", Text("\n").join(lines[first:])


def command_screens() -> dict[str, tuple[str, Text]]:
    """Return name -> title and screen of the commands that read a host."""
    found = {}
    with patch("time.time", lambda: float(NOW_S)):
        files = ["--state-file", "lib/state", "--config", "config.yaml"]
        roots = ["--sysfs-root", "sys", "--proc-root", "proc", "--cgroup-root", "cgroup"]
        with busy_host(Path("host")) as host, chdir("host"):
            assert host.state_file == Path("host/lib/state")
            found["status"] = _printed(["status"], [*files, *roots])
            found["explain"] = _printed(["explain", REFUSED], [*files[:2], *roots])
        write_machine_with_cxl(Path("cxl"))
        with chdir("cxl"):
            found["inspect"] = _printed(["inspect"], roots[:4])
        with misconfigured_host(Path("misconfigured")):
            found["doctor"] = _printed(["doctor"], ["--root", "misconfigured"], status=2)
    return found


def _printed(command: list[str], host: list[str], status: int = 0) -> tuple[str, Text]:
    """Return a command line and what it prints; `host` are options that name a host's files."""
    with redirect_stdout(io.StringIO()) as output:
        assert main([*command, *host]) == status
    return f"nri-numamem {' '.join(command)}", Text.from_ansi(output.getvalue().rstrip("\n"))
