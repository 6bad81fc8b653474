"""The plugin with a log file whose writes hang while the file named by the first argument exists.

Stands for a file system that is frozen (fsfreeze) or a disk that hangs. Run like nri-numamem.
"""

import sys
import time
from pathlib import Path

from nri_numamem.cli import main as command
from nri_numamem.observe.log import sinks

frozen = Path(sys.argv.pop(1))
write = sinks.write_all


def write_when_thawed(descriptor: int, data: bytes) -> None:
    while descriptor > 2 and frozen.exists():
        time.sleep(0.01)
    write(descriptor, data)


sinks.write_all = write_when_thawed
sys.exit(command.main())
