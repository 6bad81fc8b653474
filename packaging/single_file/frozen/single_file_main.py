"""The first module of the single executable file: runs the command."""

from __future__ import annotations

import sys

from nri_numamem.cli.main import main

TYPE_CHECKING = False  # without an import of typing at each start
if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.metadata import Distribution, DistributionFinder


class _Packages:
    """Finds the packages in the file for importlib.metadata, which it imports only then."""

    @staticmethod
    def find_distributions(context: DistributionFinder.Context) -> Iterator[Distribution]:
        """Yield the packages that `context` asks for."""
        import single_file_packages  # noqa: PLC0415 - see above

        return single_file_packages.find(context.name)


sys.frozen = True  # type: ignore[attr-defined]
sys.meta_path.append(_Packages)  # type: ignore[arg-type]
sys.exit(main())
