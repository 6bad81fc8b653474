"""What the tests of packaging/release share."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# A source distribution has no repository, and so makes no release.
needs_repository = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone")


def run(
    *command: str | Path, cwd: Path | None = None, umask: int = -1, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command without the settings of pip on this host."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment = {**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **variables}
    return subprocess.run(
        command,
        env=environment,
        cwd=cwd,
        umask=umask,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
