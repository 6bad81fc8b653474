"""The helper modules are found as tests.faults.*, by the run and by the tests alike."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
