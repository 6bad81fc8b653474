"""What packaging/setup-venv shows while it installs, with a Python that only pretends to."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_PYTHON = """#!/bin/sh
# -c CODE: the checks pass; -m venv DIRECTORY: make a directory with a pip.
[ "$1" = -m ] || exit 0
mkdir -p "$3/bin"
cp "$(dirname "$0")/pip" "$3/bin/pip"
"""
_PIP = """#!/bin/sh
echo "Collecting protobuf==6.0 (from somewhere)"
echo "  Downloading protobuf-6.0.whl (300 kB)"
echo "Installing collected packages: protobuf"
echo "a warning of pip" >&2
exit {status}
"""


def set_up(folder: Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    for name, text in (("python", _PYTHON), ("pip", _PIP.format(status=status))):
        path = folder / name
        path.write_text(text)
        path.chmod(0o755)
    return subprocess.run(
        [ROOT / "packaging/setup-venv", folder / "python", folder / "venv", "dev"],
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_shows_what_it_installs(tmp_path: Path) -> None:
    done = set_up(tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    lines = done.stderr.splitlines()
    assert lines[0].startswith(f"Setting up {tmp_path / 'venv'} with the versions of")
    # pip's own messages do not pass through the filter, so their place can differ.
    assert sorted(lines[1:]) == ["  installing ...", "  protobuf==6.0", "a warning of pip"]


def test_an_error_of_pip_is_its_own(tmp_path: Path) -> None:
    done = set_up(tmp_path, status=3)
    assert done.returncode == 3
    assert "a warning of pip" in done.stderr
