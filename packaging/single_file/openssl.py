"""OpenSSL for the module ssl, built once for the same inputs.

In the cache, beside the interpreter:

    openssl-<hash>/    libssl.a, libcrypto.a, their headers and licence

CPython's module _ssl is compiled with the program, so OpenSSL and the interpreter are independent:
a new version of one leaves the other in the cache.
"""

from pathlib import Path

from single_file import debian
from single_file.cached import Built, build, key_of
from single_file.commands import remove, report

HERE = Path(__file__).resolve().parent
RECIPE = HERE / "build-openssl"
SOURCE_PACKAGE = "openssl"


class OpenSSL(Built):
    """A built OpenSSL."""

    @property
    def version(self) -> str:
        """Debian's version, whose patches have security fixes."""
        return debian.version_of(debian.source_in(self.downloads, SOURCE_PACKAGE))


def ensure(cache: Path, *, jobs: int) -> OpenSSL:
    """Return OpenSSL; download and build what the cache lacks.

    The cache must be locked and have a root and downloads. Raises BuildError.
    """
    downloads = cache / "downloads"
    if not list(downloads.glob(f"{SOURCE_PACKAGE}_*.dsc")):
        report("downloading OpenSSL")
        _download(downloads)
    found = of(cache)
    if not found.is_built:
        build(found, "OpenSSL", RECIPE, "/build/downloads", found.path_in_root, str(jobs))
    return found


def of(cache: Path) -> OpenSSL:
    """Return the OpenSSL of the inputs in the cache, which may not be built yet."""
    source = debian.source_in(cache / "downloads", SOURCE_PACKAGE)
    return OpenSSL(cache, f"openssl-{key_of(cache, RECIPE, source)}")


def _download(downloads: Path) -> None:
    """Add the source package; its .dsc appears when the other files are there."""
    partial = downloads.with_name("openssl.partial")
    remove(partial)
    partial.mkdir()
    debian.fetch_source(partial, SOURCE_PACKAGE)
    for file in sorted(partial.iterdir(), key=lambda file: file.suffix == ".dsc"):
        file.replace(downloads / file.name)
    remove(partial)
