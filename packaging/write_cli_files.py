#!/usr/bin/env python3
"""Write the man page and the shell completions, from the parser of the command line.

Usage: write_cli_files.py DIRECTORY. Writes nri-numamem.8, and below completion/ the files under the
names that bash, zsh and fish look for. SOURCE_DATE_EPOCH, if set, is the date of the man page.
"""

import argparse
import importlib
import re
import sys
from pathlib import Path
from typing import Any

import shtab
from argparse_manpage.manpage import Manpage

from nri_numamem.cli.main import COMMANDS, new_parser
from nri_numamem.cli.parser import Parser, as_shown
from nri_numamem.version import VERSION

PROGRAM = "nri-numamem"
COMPLETIONS = {"bash": PROGRAM, "zsh": f"_{PROGRAM}", "fish": f"{PROGRAM}.fish"}
"""Shell -> name of the file."""

# A line of text that begins with a dot would be a request of roff.
_NO_REQUEST = re.compile(r"^\.(?!(?:TH|SH|SS|TP|PP|RS|RE|B|BR|I|P|nf|fi)\b)", re.MULTILINE)

_MORE = r""".SH FILES
.TP
.I /etc/nri\-numamem/config.yaml
The configuration of the service. A launched plugin has its own below /etc/nri/conf.d.
.TP
.I /var/lib/nri\-numamem/
The state directory: the allocation state, the lock, the history of decisions, plugin.json.
.TP
.I /opt/nri/plugins/
Where the runtime finds the plugins that it launches.
.TP
.I /usr/share/doc/nri\-numamem/
The documentation, alert rules for Prometheus and a dashboard for Grafana, where a package installed
the program.
.SH EXIT STATUS
.TP
.B 0
The command did what it should, and found no problem.
.TP
.B 1
It found a problem, such as a plugin that does not run, or could not do everything.
.TP
.B 2
The command line, a configuration or a permission is wrong; of
.BR doctor ,
a check failed.
.P
The help of each command has its own values.
.SH SEE ALSO
.BR containerd (8),
.BR crio (8),
.BR journalctl (1),
.BR migratepages (8),
.BR numactl (8),
.BR numastat (8),
.BR cpuset (7),
.BR numa (7)
"""


class _Parser(Parser):
    """A parser whose paths are completed."""

    def add_argument(self, *names: str, **options: Any) -> argparse.Action:  # noqa: ANN401
        action = super().add_argument(*names, **options)
        if action.type is Path:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        return action


def man_page() -> str:
    """Return the man page in section 8, as roff."""
    parser = new_parser()
    page = Manpage(parser, format="single-commands-section")
    page.section, page.manual = 8, "System Administration"
    page.source = f"{PROGRAM} {VERSION}"
    page.description = "place the memory of containers on NUMA nodes"
    text = as_shown(str(page)).replace("\nPOSITIONAL ARGUMENTS\n", "\nCOMMANDS\n")
    text = _NO_REQUEST.sub(r"\&.", text)
    return f"{text}\n.SH EXAMPLES\n.nf\n{_examples()}.fi\n{_MORE}"


def completion(shell: str) -> str:
    """Return the completion for a shell."""
    return as_shown(shtab.complete(new_parser(parser_class=_Parser), shell=shell)) + "\n"


def write(directory: Path) -> list[Path]:
    """Write all files; return their paths."""
    texts = {f"{PROGRAM}.8": man_page()}
    texts |= {f"completion/{name}": completion(shell) for shell, name in COMPLETIONS.items()}
    for name, text in texts.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return [directory / name for name in texts]


def _examples() -> str:
    modules = (importlib.import_module(f"nri_numamem.cli.{name}") for name in COMMANDS)
    lines = (line for module in modules for line in module.EXAMPLES)
    return "".join(line.replace("\\", r"\e").replace("-", r"\-") + "\n" for line in lines)


if __name__ == "__main__":
    for written in write(Path(sys.argv[1])):
        sys.stdout.write(f"{written}\n")
