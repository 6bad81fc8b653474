"""Results of build steps, kept in a cache under a hash of what goes into them.

The cache has the build root as root/ and the sources as downloads/; the root sees it as /build.
"""

import hashlib
import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from single_file.commands import remove, report, run_in_root


@dataclass(frozen=True, slots=True)
class Built:
    """The result of a step; `name` is its folder in the cache."""

    cache: Path
    name: str

    @property
    def root(self) -> Path:
        """The build root."""
        return self.cache / "root"

    @property
    def downloads(self) -> Path:
        """Source packages and wheels."""
        return self.cache / "downloads"

    @property
    def folder(self) -> Path:
        """Where the result is."""
        return self.cache / self.name

    @property
    def path_in_root(self) -> str:
        """The same folder as programs in the build root see it."""
        return f"/build/{self.name}"

    @property
    def is_built(self) -> bool:
        """Return whether the step is complete."""
        return (self.folder / "built").exists()


def key_of(cache: Path, recipe: Path, *inputs: Path | str) -> str:
    """Return a hash of a recipe, files, words, and the versions of the packages in the root."""
    status = (cache / "root/var/lib/dpkg/status").read_text(encoding="utf-8")
    packages = [line for line in status.splitlines() if line.startswith(("Package:", "Version:"))]
    words = [one for one in inputs if isinstance(one, str)]
    files = (recipe, *(one for one in inputs if isinstance(one, Path)))
    hashes = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    return hashlib.sha256(json.dumps([*words, packages, hashes]).encode()).hexdigest()[:16]


def build(built: Built, title: str, recipe: Path, *words: str) -> None:
    """Run a recipe with its arguments in the root; it fills the folder. Raises BuildError.

    `title` is for people.
    """
    began = time.monotonic()
    report(f"building: {title}")
    kind = built.name.partition("-")[0]
    for old in built.cache.glob(f"{kind}-*"):
        if not (old / "built").exists():  # of a build that was interrupted
            remove(old)
    built.folder.mkdir()
    shutil.copy2(recipe, built.folder)
    log = run_in_root(built.root, built.cache, f"{built.path_in_root}/{recipe.name}", *words)
    (built.folder / "log").write_text(log, encoding="utf-8")
    seconds = time.monotonic() - began
    (built.folder / "built").write_text(f"{title}, {seconds:.0f} s\n", encoding="utf-8")
    report(f"built in {seconds:.0f} s: {title}")
