"""Write the state directory of the present version: python -m tests.releases.record [FOLDER].

The folder is by default tests/releases/VERSION. Run it once for each release: the tests beside this
file let all later versions read these files.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from nri_numamem.version import VERSION
from tests.releases.life import NAMES, live
from tests.simulated_host import SimulatedHost

HERE = Path(__file__).resolve().parent


def record(target: Path) -> None:
    """Let the plugin live on a simulated host, and keep the files of its state directory."""
    with tempfile.TemporaryDirectory() as folder:
        host = SimulatedHost(Path(folder))
        try:
            live(host)
        finally:
            host.close()
        target.mkdir(exist_ok=True)
        for name in NAMES:
            shutil.copyfile(host.state_file.with_name(name), target / name)


if __name__ == "__main__":
    record(Path(sys.argv[1]) if sys.argv[1:] else HERE / VERSION)
