"""Install the plugin as users do: from a wheel, with its runtime dependencies only.

The wheel is built from a copy of the sources, so leftovers of earlier builds have no effect.
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "bench"
_SOURCES = ("pyproject.toml", "README.md", "LICENSE")
_TIMEOUT_S = 600


def install(name: str) -> Path:
    """Install the work tree's package into build/bench/<name> and return its program.

    Each user of this function has a name and thereby an installation of its own. Raises
    RuntimeError with pip's output.
    """
    folder = OUT / name
    venv = folder / "venv"
    if not (venv / "bin" / "pip").exists():
        _run(sys.executable, "-m", "venv", venv)
    source, wheels = folder / "source", folder / "wheels"
    for leftover in (source, wheels):
        shutil.rmtree(leftover, ignore_errors=True)
    source.mkdir(parents=True)
    for file in _SOURCES:
        shutil.copyfile(ROOT / file, source / file)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "nri_numamem", source / "nri_numamem", ignore=ignored)
    # The build backend is a development dependency, so pip downloads nothing for the build.
    pip = ("-m", "pip", "--disable-pip-version-check", "--quiet")
    _run(
        sys.executable,
        *pip,
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        wheels,
        source,
    )
    (wheel,) = wheels.glob("*.whl")
    python = venv / "bin" / "python"
    _run(python, *pip, "install", "--constraint", ROOT / "constraints.txt", wheel)
    # Again, because pip skips a different wheel of the same version.
    _run(python, *pip, "install", "--no-deps", "--force-reinstall", wheel)
    return venv / "bin" / "nri-numamem"


def _run(*command: str | Path) -> None:
    words = " ".join(map(str, command))
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{words} failed:\n{done.stdout}{done.stderr}")
